"""`robustcf sweep`, `reduce` and `validate`, end to end on a real local Ray."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from robustcf_jobs.cli import app
from robustcf_jobs.inputs.config import SweepConfig, read_config
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.sweep.unit import explained_rows
from typer.testing import CliRunner

import robustcf as rc
from robustcf.validate import retrain
from tests.helpers.jobworld import (
    customers,
    make_audit,
    make_sweep,
    rows,
    run_sweep,
    same_rows,
    same_summary,
    shards,
)

pytestmark = pytest.mark.usefixtures("local_ray")


@pytest.fixture(scope="module")
def finished(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    assert run_sweep(make_sweep(folder)) == 0
    return folder


def test_every_row_can_be_recomputed_from_the_run_folder_alone(finished: Path) -> None:
    run = finished / "run"
    data = rc.datasets.load("synthetic-credit")
    found = pd.read_parquet(run / "counterfactuals")
    assert len(found) == 3 * 2 * 2
    valid = pd.read_parquet(run / "validation")
    assert len(valid) == 2 * found["point"].notna().sum()
    for simulation in range(3):
        chosen = explained_rows(0, data, 2, simulation)
        forest = rc.load_forest(run / f"forest/synthetic-credit-n00010-s{simulation:04d}")
        methods = [rc.Naive(), rc.DirectSAA(0.2)]
        answers = rc.Explainer(forest, data.schema, methods).explain_many(data.X.iloc[chosen])
        mine = found[found["simulation"] == simulation]
        assert mine["distance"].tolist() == [cf.distance for cf in answers]
        others = np.setdiff1d(np.arange(len(data)), chosen)
        X, y = data.encode(data.X)[others], data.y[others]
        for _, line in valid[(valid["simulation"] == simulation)].iterrows():
            point = mine.set_index(["instance_id", "method"]).loc[(line["instance_id"], line["method"])]
            for seed, good in zip(line["seeds"], line["valid"], strict=True):
                trees = 5 if line["scenario"] == "trees-5" else None
                again = retrain(forest, X, y, int(seed), trees)
                assert good == (str(again.predict(np.array([point["point"]]))[0]) == point["target"])


def test_the_forest_is_trained_on_all_other_rows(finished: Path) -> None:
    data = rc.datasets.load("synthetic-credit")
    forest = rc.load_forest(finished / "run/forest/synthetic-credit-n00010-s0001")
    seeds = json.loads((finished / "run/manifest.json").read_text())["seeds"]
    others = np.setdiff1d(np.arange(len(data)), explained_rows(0, data, 2, 1))
    X, y = data.encode(data.X)[others], data.y[others]
    assert retrain(forest, X, y, seeds["synthetic-credit-n00010-s0001"]) == forest


def test_going_on_makes_only_what_is_missing(finished: Path, tmp_path: Path) -> None:
    run = finished / "run"
    before = rows(run)
    times = {path: path.stat().st_mtime_ns for path in run.glob("[cv]*/*.parquet")}
    assert run_sweep(finished / "sweep.toml") == 0
    assert times == {path: path.stat().st_mtime_ns for path in run.glob("[cv]*/*.parquet")}
    gone = shards(run)[1]
    gone.unlink()
    assert run_sweep(finished / "sweep.toml") == 0
    pd.testing.assert_frame_equal(before, rows(run), check_exact=True)
    again = {path for path, time in times.items() if path.stat().st_mtime_ns != time}
    assert again == {gone, run / "validation" / gone.name}


def test_evolving_data_and_several_sizes(tmp_path: Path) -> None:
    grid = {
        "datasets": ["synthetic-credit"],
        "simulations": 2,
        "rows": 2,
        "trees": [5, 8],
        "first_share": 0.8,
    }
    scenarios = {"forests": 1, "scenarios": ["evolving", "bootstrap"]}
    assert run_sweep(make_sweep(tmp_path, sweep=grid, validation=scenarios)) == 0
    summary = pd.read_parquet(tmp_path / "run/summary/summary.parquet")
    assert set(zip(summary["n_trees"], summary["scenario"], strict=True)) == {
        (n, s) for n in (5, 8) for s in ("evolving", "bootstrap")
    }
    by_size = pd.read_parquet(tmp_path / "run/counterfactuals").groupby("n_trees")["instance_id"].unique()
    assert by_size[5].tolist() == by_size[8].tolist()
    with pytest.raises(BadInput, match=r"first_share = 0\.8"):
        read_config(SweepConfig, make_sweep(tmp_path, validation=scenarios))


def test_reduce_from_the_command_line_gives_the_same_tables(finished: Path) -> None:
    summary = finished / "run/summary/summary.csv"
    before = summary.read_bytes()
    summary.unlink()
    result = CliRunner().invoke(app, ["reduce", str(finished / "run")], catch_exceptions=False)
    assert result.exit_code == 0
    assert summary.read_bytes() == before


def test_another_run_gives_the_same_rows_and_summary(finished: Path, tmp_path: Path) -> None:
    assert run_sweep(make_sweep(tmp_path)) == 0
    same_rows(finished / "run", tmp_path / "run")
    same_summary(finished / "run", tmp_path / "run")


def test_bad_data_sets_are_refused(tmp_path: Path) -> None:
    for names, words in (
        (["no-such-set"], "no data set is called"),
        (["synthetic-credit"] * 2, "listed twice"),
    ):
        with pytest.raises(BadInput, match=words):
            run_sweep(make_sweep(tmp_path, sweep={"datasets": names}))
        assert not (tmp_path / "run").exists()


def test_validate_points_of_any_tool(tmp_path: Path) -> None:
    frame = customers(30)
    frame.loc[5, "housing"] = "castle"
    make_audit(tmp_path, frame)
    arguments = ["validate", str(tmp_path / "customers.parquet"), "--forest", str(tmp_path / "forest")]
    arguments += ["--schema", str(tmp_path / "schema.toml"), "--target", "1", "--id", "customer"]
    arguments += ["--output", str(tmp_path / "points.parquet")]
    runner = CliRunner()
    assert runner.invoke(app, arguments, catch_exceptions=False).exit_code == 0
    alone = pd.read_parquet(tmp_path / "points.parquet")
    assert len(alone) == 30
    assert alone["validity"].isna().all()
    training = ["--training", str(tmp_path / "training.parquet"), "--label", "repaid", "--forests", "3"]
    training += ["--scenario", "same-data", "--scenario", "bootstrap"]
    assert runner.invoke(app, arguments + training, catch_exceptions=False).exit_code == 0
    both = pd.read_parquet(tmp_path / "points.parquet")
    assert len(both) == 2 * 29 + 1
    forest = rc.load_forest(tmp_path / "forest")
    good = frame.drop(index=5)
    encoded = rc.datasets.synthetic_credit(1).encode(good.drop(columns="customer"))
    score, predicted = forest.judged_score(encoded, 1)
    same = both[both["scenario"] == "same-data"]
    assert same["score"].tolist() == score.tolist()
    assert same["flips"].tolist() == (predicted == 1).tolist()
    assert (same["reaches"] == (same["flips"] & (same["score"] >= same["threshold"]))).all()
    data = rc.datasets.synthetic_credit(300, seed=0)
    for k, seed in enumerate(same["seeds"].iloc[0]):
        again = retrain(forest, data.encode(data.X), data.y, int(seed))
        assert [v[k] for v in same["valid"]] == (again.predict(encoded) == 1).tolist()
    assert "castle" in both["reason"].dropna().item()
    bad = runner.invoke(app, [*arguments[:-1], str(tmp_path / "points.txt")])
    assert bad.exit_code == 2
