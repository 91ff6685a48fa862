"""More than two classes: what is demanded is half of the votes, and no text says more than that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import robustcf as rc
from robustcf.report.content import Population
from robustcf.report.method_line import Outcomes
from robustcf.report.verdict import verdict as report_verdict
from robustcf.schema.encode import encode
from robustcf.show import verdict
from tests.helpers.wines import Wine, three_wines


@pytest.fixture(scope="module")
def wine() -> Wine:
    return three_wines()


def points_around(schema: rc.Schema, row: pd.Series) -> np.ndarray:
    """A fine grid over the two measurements that may change, encoded."""
    free = [schema.names.index(name) for name in ("color_intensity", "flavanoids")]
    axes = [np.linspace(*schema.features[j].span, 60) for j in free]
    points = np.repeat(row.to_numpy(dtype=float)[None, :], 3600, axis=0)
    points[:, free] = np.stack([axis.ravel() for axis in np.meshgrid(*axes)], axis=1)
    return encode(schema, points)


def test_naive_no_recourse_with_three_classes_speaks_of_the_score_and_not_of_predict(wine: Wine) -> None:
    """`no_recourse` was once said to mean that no point flips `predict`; with three classes some do."""
    forest, schema, frame = wine
    outvoted = 0
    for target in (0, 1, 2):
        explainer = rc.Explainer(forest, schema, rc.Naive(), target=target)
        for answer, (_, row) in zip(explainer.explain_many(frame), frame.iterrows(), strict=True):
            if answer.status in ("optimal", "feasible"):
                assert answer.score >= 0.5
                assert forest.predict(answer.encoded[None, :])[0] == target
            if answer.status != "no_recourse":
                continue
            points = points_around(schema, row)
            score = forest.score(points, target)
            assert score.max() < 0.5  # what is claimed
            assert answer.best_score >= score.max() - 1e-9
            outvoted += bool((forest.predict(points) == target).any())  # what is not claimed
            assert "reaches a score of 0.500" in verdict(answer, 3)
            assert "3 classes can win with less than 1/2" in verdict(answer, 3)
    assert outvoted > 3


def test_an_optimum_with_three_classes_is_the_nearest_with_the_score(wine: Wine) -> None:
    """A nearer point may be predicted as the target: with less than half of the votes."""
    forest, schema, frame = wine
    answers = rc.Explainer(forest, schema, rc.Naive(), target=1).explain_many(frame)
    assert sum(a.status == "optimal" for a in answers) > 20
    assert all("reaches the score" in verdict(a, 3) for a in answers if a.status == "optimal")


def test_a_report_of_three_classes_does_not_call_customers_without_any_recourse() -> None:
    outcomes = Outcomes("any change with a score of at least 1/2", 5, 3, 0)
    two = Population("p", 10, 2, 0, 8, outcomes, None, None, ())
    assert "flips the decision" in report_verdict(two)[2]
    three = replace(two, n_classes=3)
    assert "half of the votes; 3 are proved to have none" in report_verdict(three)[2]
    assert "may still have one that flips the decision" in report_verdict(three)[3]
