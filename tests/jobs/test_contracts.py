"""Names that other people's scripts rely on."""

from __future__ import annotations

import inspect
from dataclasses import fields

from robustcf_jobs.run.columns import COUNTERFACTUALS, VALIDATION

import robustcf as rc

COLUMNS = """
    dataset simulation instance_id cohort method alpha beta parameter voting n_trees target threshold
    status reason objective distance lower_bound gap score_before score_after best_score best_score_gap
    predicted_validity n_changed changes point verified solver seconds nodes cutoff certified
    certificate_agree certificate_forests certificate_low certificate_level certificate_delta
    certificate_scenario alternative
"""


def test_the_tables_have_the_columns() -> None:
    assert set(COLUMNS.split()) <= set(COUNTERFACTUALS.names)
    assert {"scenario", "seeds", "valid"} <= set(VALIDATION.names)


def test_the_library_has_the_names() -> None:
    answer = set(dir(rc.Counterfactual)) | {f.name for f in fields(rc.Counterfactual)}
    assert {"status", "distance", "lower_bound", "threshold", "score", "point", "changes"} <= answer
    assert {"certified", "certificate"} <= answer
    parts = {f.name for f in fields(rc.Certificate)}
    assert {"agree", "forests", "lower_bound", "level", "alpha", "delta", "scenario"} <= parts
    assert {"explain", "explain_many", "alternatives"} <= set(dir(rc.Explainer))
    explainer = set(inspect.signature(rc.Explainer).parameters)
    assert {"method", "solver", "time_limit", "training", "cutoff", "target"} <= explainer
    certify = list(inspect.signature(rc.certify).parameters)
    assert certify[:3] == ["points", "model", "schema"]
    assert {"training", "alpha", "delta", "target"} <= set(certify)
    certified = set(inspect.signature(rc.Certified).parameters)
    assert {"alpha", "delta", "forests", "pool", "joint", "scenario"} <= certified
