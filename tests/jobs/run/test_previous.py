"""What an audit takes over from an earlier one: only answers to the very same question."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from robustcf_jobs.inputs.errors import BadInput

import robustcf as rc
from tests.helpers.jobworld import customers, make_audit, make_forest, rows, run_audit, same_rows

pytestmark = pytest.mark.usefixtures("local_ray")
ISOLATION = {"name": "isolation-forest", "contamination": 0.1}
OUTLIER = {"name": "local-outlier-factor", "weight": 0.1}
ROBUST = {"name": "robust-saa", "alpha": 0.2, "beta": 0.1}
DIRECT = {"name": "direct-saa", "alpha": 0.2}
METHODS = [DIRECT, ROBUST, ISOLATION, OUTLIER]
SETTINGS: dict[str, Any] = {"method": METHODS, "validation": {"forests": 1}, "shard": {"rows": 30}}


@pytest.fixture(scope="module")
def earlier(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("earlier")
    assert run_audit(make_audit(folder, customers(60), **SETTINGS)) == 0
    return folder


def manifest(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "run/manifest.json").read_text())
    return read


def copied(folder: Path) -> set[str]:
    """The methods whose proved answers cost nothing tonight."""
    found = pd.read_parquet(folder / "run/counterfactuals").query("status == 'optimal'")
    assert len(found)
    return {method for method, own in found.groupby("method") if (own["seconds"] == 0).any()}


def other_training(folder: Path) -> None:
    """Training rows that the forest has not seen, under the same name."""
    data = rc.datasets.synthetic_credit(300, seed=8)
    data.X.assign(repaid=data.y).to_parquet(folder / "training.parquet")


def changed(**fields: Any) -> dict[str, Any]:
    """The settings with other values in every method that has these fields."""
    takes = {"variant": "robust-saa", "n_trees": "isolation-forest", "neighbours": "local-outlier-factor"}
    methods = [m | {k: v for k, v in fields.items() if takes[k] == m["name"]} for m in SETTINGS["method"]]
    return SETTINGS | {"method": methods}


@pytest.mark.parametrize(
    ("settings", "stale"),
    [
        (SETTINGS, set()),
        (SETTINGS | {"seed": 2}, {"isolation-forest", "local-outlier-factor"}),
        (changed(variant="one-sided"), {"robust-saa"}),
        (changed(n_trees=30), {"isolation-forest"}),
        (changed(neighbours=3), {"local-outlier-factor"}),
        (SETTINGS | {"solver": {"time_limit": 50.0}}, set()),
        (SETTINGS | {"solver": {"name": "highs"}}, {str(m["name"]) for m in METHODS}),
    ],
    ids=["nothing", "seed", "variant", "n_trees", "neighbours", "time_limit", "solver"],
)
def test_an_answer_to_another_question_is_not_copied(
    earlier: Path, tmp_path: Path, settings: dict[str, Any], stale: set[str]
) -> None:
    """Only name, alpha, beta and parameter were compared: answers to other settings came back `optimal`."""
    assert run_audit(make_audit(tmp_path, customers(60), previous=str(earlier / "run"), **settings)) == 0
    assert copied(tmp_path) == {str(m["name"]) for m in METHODS} - stale
    if stale in ({"robust-saa"}, {"isolation-forest", "local-outlier-factor"}):
        assert run_audit(make_audit(tmp_path / "fresh", customers(60), **settings)) == 0
        same_rows(tmp_path / "fresh/run", tmp_path / "run")


def test_answers_for_other_training_rows_are_not_copied(earlier: Path, tmp_path: Path) -> None:
    """7 of 10 isolation-forest answers copied over changed training rows were not optimal."""
    config = make_audit(tmp_path, customers(60), previous=str(earlier / "run"), **SETTINGS)
    other_training(tmp_path)
    assert run_audit(config) == 0
    assert copied(tmp_path) == {"direct-saa", "robust-saa"}


def test_a_resumed_run_notices_that_its_training_rows_changed(tmp_path: Path) -> None:
    config = make_audit(tmp_path, customers(60), **(SETTINGS | {"method": [DIRECT, ISOLATION]}))
    assert run_audit(config) == 0
    first = min((tmp_path / "run/counterfactuals").glob("*.parquet"))
    first.unlink()
    other_training(tmp_path)
    with pytest.raises(BadInput, match="training rows have changed since this run began"):
        run_audit(config)
    assert not first.exists()


def test_a_run_without_answer_keys_offers_nothing_to_copy(earlier: Path, tmp_path: Path) -> None:
    """Runs of versions that stored no keys cannot say what their answers depended on."""
    import shutil

    shutil.copytree(earlier / "run", tmp_path / "old")
    about = manifest(earlier)
    del about["answer_keys"]
    (tmp_path / "old/manifest.json").write_text(json.dumps(about))
    quick = SETTINGS | {"method": [DIRECT, ROBUST, ISOLATION]}
    config = make_audit(tmp_path, customers(60), previous=str(tmp_path / "old"), **quick)
    assert run_audit(config) == 0
    assert copied(tmp_path) == set()


def test_a_kept_recourse_passes_every_check_of_its_method(earlier: Path, tmp_path: Path) -> None:
    """10 of 13 kept Robust-SAA rows scored below their threshold and were called verified."""
    forest = make_forest(tmp_path / "forest", seed=9)
    config = make_audit(tmp_path, customers(60), previous=str(earlier / "run"), keep_valid=True, **SETTINGS)
    assert run_audit(config) == 0
    found = rows(tmp_path / "run")
    kept = found[found["reason"].fillna("").str.contains("kept from the previous run")]
    assert {"direct-saa"} <= set(kept["method"])
    assert len(kept) > 5
    assert kept["verified"].all()
    assert (kept["status"] == "feasible").all()
    assert (kept["score_after"] >= kept["threshold"] - 1e-9).all()
    before = rows(earlier / "run").set_index(["instance_id", "method"])
    points = [
        json.loads(p)
        for p in before.loc[list(zip(kept["instance_id"], kept["method"], strict=True))]["point"]
    ]
    assert kept["point"].tolist() == [repr(p) for p in points]
    scores = forest.score(pd.DataFrame(points).to_numpy(), 1)
    assert kept["score_after"].to_numpy() == pytest.approx(scores)
