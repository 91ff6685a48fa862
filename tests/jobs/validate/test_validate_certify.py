"""`robustcf validate --certify`: one exact test for each point that any tool made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from robustcf_jobs.cli import app, main
from sklearn.ensemble import RandomForestClassifier
from typer.testing import CliRunner

import robustcf as rc
from robustcf.certificate.bounds import lower_bound
from robustcf.validate import derive_seed, retrain
from tests.helpers.jobworld import customers, make_audit

FORESTS = 30


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("points")
    frame = customers(30)
    frame.loc[5, "housing"] = "castle"
    make_audit(folder, frame)
    return folder


def arguments(world: Path, output: Path, *more: str, training: bool = True) -> list[str]:
    rows = ["--training", str(world / "training.parquet"), "--label", "repaid"] if training else []
    return [
        "validate", str(world / "customers.parquet"), "--forest", str(world / "forest"),
        "--schema", str(world / "schema.toml"), "--target", "1", "--id", "customer",
        "--output", str(output), "--certify", *rows, *more,
    ]  # fmt: skip


def test_points_of_any_tool_are_certified(world: Path, local_ray: Any, tmp_path: Path) -> None:
    output = tmp_path / "points.parquet"
    result = CliRunner().invoke(
        app,
        arguments(world, output, "--alpha", "0.1", "--forests", str(FORESTS)),
        catch_exceptions=False,
    )
    table = pd.read_parquet(output)
    assert len(table) == 30
    assert table["certified"].isna().sum() == 1  # the point that cannot be read
    read = table.dropna(subset=["certified"])
    forest, data = rc.load_forest(world / "forest"), rc.datasets.synthetic_credit(300, seed=0)
    frame = customers(30).drop(index=5, columns="customer")
    points = data.encode(frame)
    agreeing = np.zeros(len(points), dtype=int)
    for k in range(FORESTS):
        seed = derive_seed(0, "certify", "same-data", k)
        agreeing += retrain(forest, data.encode(data.X), data.y, seed).predict(points) == 1
    assert read["certificate_agree"].tolist() == agreeing.tolist()
    bounds = [lower_bound(int(a), FORESTS, 0.05) for a in agreeing]
    assert read["certificate_low"].tolist() == bounds
    assert read["certified"].tolist() == [bound >= 0.9 for bound in bounds]
    assert 0 < read["certified"].sum() < len(read)
    assert set(read["certificate_forests"]) == {FORESTS}
    assert set(read["certificate_delta"]) == {0.05}
    validation = {derive_seed(0, "validation", "same-data", k) for k in range(FORESTS)}
    assert not validation & set(read["seeds"].iloc[0])
    claim = (
        f"{read['certified'].sum()} of 29 points certified for same-data: with confidence 0.95 over the "
        "certification forests, a forest retrained on the same data with 15 trees accepts this point with "
        "probability at least 0.9"
    )
    assert result.output.count(claim) == 1


def test_the_certificates_of_a_table_hold_together(world: Path, local_ray: Any, tmp_path: Path) -> None:
    """29 points can be read, for two scenarios each."""
    output, each = tmp_path / "points.parquet", 0.05 / 58
    scenarios = ("--scenario", "same-data", "--scenario", "bootstrap")
    given = arguments(world, output, "--alpha", "0.2", "--forests", "40", "--joint", *scenarios)
    result = CliRunner().invoke(app, given, catch_exceptions=False)
    read = pd.read_parquet(output).dropna(subset=["certified"])
    assert len(read) == 58
    assert read["certificate_low"].tolist() == [lower_bound(a, 40, each) for a in read["certificate_agree"]]
    assert set(read["certificate_delta"]) == {each}
    assert 0 < read["certified"].sum() < len(read)
    assert result.output.count("all 58 certificates hold together with confidence 0.95") == 2


@pytest.mark.parametrize(
    ("more", "training", "named"),
    [
        (("--forests", "58"), True, "a certificate needs at least 59"),
        (("--delta", "0"), True, "--delta is 0.0; it must lie strictly between 0 and 1"),
        (("--delta", "0.0001"), True, "a certificate needs at least 180"),
        (("--joint",), True, "delta = 0.05 shared by 29 tests, a certificate needs at least 125; about 430"),
        (("--scenario", "evolving"), True, "--scenario evolving needs the rows collected later"),
        ((), False, "--certify needs the training rows"),
    ],
)
def test_what_can_certify_nothing_is_refused_in_one_line(
    world: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    training: bool,
    named: str,
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments(world, tmp_path / "points.csv", *more, training=training))
    said = capfd.readouterr().err.splitlines()
    assert end.value.code == 2
    assert len(said) == 1, said
    assert named in said[0]


@pytest.mark.parametrize("option", [("--delta", "0.1"), ("--joint",)])
def test_options_of_certificates_without_certify_are_refused(
    world: Path, tmp_path: Path, option: tuple[str, ...]
) -> None:
    given = [a for a in arguments(world, tmp_path / "points.csv", *option) if a != "--certify"]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert f"{option[0]} needs --certify" in result.output


def test_rows_that_are_not_the_forests_own_are_refused(
    world: Path, local_ray: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    training = pd.read_parquet(world / "training.parquet").iloc[10:]
    training.to_parquet(tmp_path / "other.parquet")
    given = arguments(world, tmp_path / "points.csv", training=False)
    with pytest.raises(SystemExit) as end:
        main([*given, "--training", str(tmp_path / "other.parquet"), "--label", "repaid"])
    assert end.value.code == 2
    assert "gives another forest" in capfd.readouterr().err


def test_a_learner_that_a_seed_does_not_change_is_refused(
    world: Path, local_ray: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = rc.datasets.synthetic_credit(300, seed=0)
    model = RandomForestClassifier(3, max_depth=1, max_features=None, bootstrap=False, random_state=0)
    rc.save_forest(rc.Forest.from_sklearn(model.fit(data.encode(data.X), data.y)), tmp_path / "forest")
    given = arguments(world, tmp_path / "points.csv", "--alpha", "0.2", "--forests", "14")
    given[given.index(str(world / "forest"))] = str(tmp_path / "forest")
    with pytest.raises(SystemExit) as end:
        main(given)
    assert end.value.code == 2
    assert "gives the same forest, so a certificate would say nothing" in capfd.readouterr().err
