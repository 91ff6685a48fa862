"""An audit with alternatives: more lines for a customer, one line in every count."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from robustcf_jobs.export.export import ExportOptions, export_run
from robustcf_jobs.inputs.config import AuditConfig, read_config
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.run.columns import COUNTERFACTUALS
from robustcf_jobs.verify.run import verify_run

import robustcf as rc
from tests.helpers.jobworld import customers, make_audit, run_audit, same_summary

METHODS = [{"name": "direct-saa", "alpha": 0.2}, {"name": "isolation-forest"}]
LEVERS = {"work": ["income", "months_employed"]}


@pytest.fixture(scope="module")
def runs(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same audit without alternatives, with three answers, and once more from the latter's answers."""
    folder, frame = tmp_path_factory.mktemp("alternatives"), customers(60)
    options = {"alternatives": 3, "levers": LEVERS, "method": METHODS, "validation": {"forests": 2}}
    cases: dict[str, dict[str, Any]] = {
        "alone": {**options, "alternatives": None, "levers": None},
        "three": options,
        "again": {**options, "previous": "three"},
        "two": {**options, "alternatives": 2, "previous": "three"},
    }
    for name, changes in cases.items():
        assert run_audit(make_audit(folder, frame, output=name, **changes)) == 0
    return {name: folder / name for name in cases}


def lines(run: Path) -> pd.DataFrame:
    return pd.read_parquet(run / "counterfactuals").drop(columns=["seconds", "nodes"])


def test_alternatives_change_no_count_and_no_summary(runs: dict[str, Path]) -> None:
    manifests = {name: json.loads((run / "manifest.json").read_text()) for name, run in runs.items()}
    assert manifests["alone"]["counts"] == manifests["three"]["counts"]
    same_summary(runs["alone"], runs["three"])
    alone, three = lines(runs["alone"]), lines(runs["three"])
    assert (alone["alternative"] == 0).all()
    nearest = three[three["alternative"] == 0].reset_index(drop=True)
    assert nearest[["instance_id", "method", "status", "distance"]].equals(
        alone[["instance_id", "method", "status", "distance"]]
    )
    assert (three["method"][three["alternative"] > 0] == "direct-saa").all()
    assert (three["alternative"] == 2).sum() >= 5


def test_the_lines_are_what_the_explainer_answers(runs: dict[str, Path]) -> None:
    schema = rc.Schema.from_toml(runs["three"] / "schema.toml")
    forest = rc.load_forest(runs["three"] / "forest")
    explainer = rc.Explainer(forest, schema, rc.DirectSAA(0.2), target=1)
    rows = customers(60).set_index("customer")
    table = lines(runs["three"])
    several = table[table["alternative"] > 0]["instance_id"].unique()[:5]
    for name in several:
        mine = table[(table["instance_id"] == name) & (table["method"] == "direct-saa")]
        expected = explainer.alternatives(rows.loc[name], 3, levers=LEVERS)
        assert mine["distance"].tolist() == [cf.distance for cf in expected]
        assert mine["status"].tolist() == [cf.status for cf in expected]


def test_every_alternative_is_validated_and_exported(runs: dict[str, Path], tmp_path: Path) -> None:
    run, table = runs["three"], lines(runs["three"])
    validation = pd.read_parquet(run / "validation")
    keys = ["instance_id", "method", "alternative"]
    assert validation[keys].equals(table[table["distance"].notna()][keys].reset_index(drop=True))
    export_run(str(run), ExportOptions(str(tmp_path / "all.csv")))
    wide = pd.read_csv(tmp_path / "all.csv").set_index("id")
    prefix = "direct_saa_alpha0_2"
    for _, line in table[(table["alternative"] == 2)].iterrows():
        change = line["changes"][0]
        own = wide.loc[line["instance_id"]]
        words = f"{change['feature']}: {change['before']} -> {change['after']}"
        assert words in own[f"{prefix}_alternative2_changes"]
        assert own[f"{prefix}_alternative2_distance"] == line["distance"]
        assert 0 <= own[f"{prefix}_alternative2_validity_same_data"] <= 1
    assert not [c for c in wide.columns if c.startswith("isolation") and "alternative" in c]


def test_copies_bring_their_alternatives_if_the_number_is_the_same(runs: dict[str, Path]) -> None:
    three, again, two = (lines(runs[name]) for name in ("three", "again", "two"))
    pd.testing.assert_frame_equal(again, three)
    done = json.loads((runs["again"] / "manifest.json").read_text())["shards"]
    assert sum(note.get("copied", 0) for note in done.values()) > 0
    shorter = three[three["alternative"] < 2].reset_index(drop=True)
    pd.testing.assert_frame_equal(two, shorter)


def test_a_correct_run_is_verified_and_a_forged_alternative_is_found(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    done = verify_run(str(runs["three"]))
    assert not done.findings.total, done.findings.counts
    for forge in ("repeat", "renumber"):
        run = tmp_path / forge
        shutil.copytree(runs["three"], run)
        file = next(f for f in sorted((run / "counterfactuals").iterdir()) if _third(f))
        table = pq.read_table(file)
        rows = table.to_pylist()
        at = next(i for i, row in enumerate(rows) if row["alternative"] == 2)
        if forge == "repeat":  # the nearest answer, sold as an alternative
            rows[at] = dict(rows[at - 2], alternative=2)
        else:
            rows[at]["alternative"] = 1
        made = pa.Table.from_pylist(rows, COUNTERFACTUALS).replace_schema_metadata(table.schema.metadata)
        pq.write_table(made, file)
        found = verify_run(str(run)).findings.shown("alternative")
        wanted = {"repeat": "changes what another answer changes", "renumber": "does not follow"}[forge]
        assert any(wanted in finding for finding in found), found[:5]


def _third(file: Path) -> bool:
    return 2 in pq.read_table(file, columns=["alternative"])["alternative"].to_pylist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alternatives": 0}, "alternatives must be at least 1"),
        ({"alternatives": 3, "method": [{"name": "isolation-forest"}]}, "no method"),
        ({"levers": LEVERS}, "set alternatives to at least 2"),
    ],
)
def test_a_wrong_config_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = make_audit(tmp_path, customers(3), **changes)
    with pytest.raises(BadInput, match=message):
        read_config(AuditConfig, path)
