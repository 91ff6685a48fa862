"""Each kind of forged run is caught: by `verify`, by the auditor's own inputs, or by solving again.

The forger makes digests, counts, summary and report agree. The table in docs/verify.md names these tests.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from forger import ISOLATION, OUTLIER, Forger, Row, make_plausible_audit
from jobworld import make_forest, write_config
from robustcf_jobs.cli import main
from robustcf_jobs.run.detectors import store_detectors
from robustcf_jobs.run.folder import RunFolder
from robustcf_jobs.run.question import Question
from robustcf_jobs.verify.auditor import Auditor
from robustcf_jobs.verify.claims import challenge
from robustcf_jobs.verify.command import lines
from robustcf_jobs.verify.run import verify_run
from verifyworld import found

import robustcf as rc

EVERYTHING = 10_000  # claims to solve again


@pytest.fixture(scope="module")
def honest(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forged")
    make_plausible_audit(folder)
    return folder


@pytest.fixture
def forger(honest: Path, tmp_path: Path, local_ray: Any) -> Forger:
    copy = tmp_path / "run"
    shutil.copytree(honest / "run", copy)
    return Forger(copy, local_ray)


def solved_again(run: Path, resolve: int | None = EVERYTHING, attack: bool = False) -> list[str]:
    """What `verify --resolve` (or `--attack`) names."""
    done = verify_run(str(run), Auditor(), challenge(resolve, attack, 1))
    return [line for line in lines(done) if "not checked" not in line and " claims" not in line]


def picked(rows: list[Row], method: str = "naive", status: str = "optimal", **more: Any) -> Row | None:
    wanted = {"method": method, "status": status, **more}
    return next((r for r in rows if all(r[k] == v for k, v in wanted.items())), None)


def answer_of(rows: list[Row], one: Row, **more: Any) -> Row:
    """Another answer to the same customer."""
    return next(
        r for r in rows if r["instance_id"] == one["instance_id"] and all(r[k] == v for k, v in more.items())
    )


def test_the_honest_run_withstands_everything(honest: Path) -> None:
    rows = pd.read_parquet(honest / "run/counterfactuals")
    assert set(rows["status"]) >= {"optimal", "no_recourse", "already_favourable"}
    own = Auditor(str(honest / "customers.parquet"), str(honest / "forest"), str(honest / "audit.toml"))
    done = verify_run(str(honest / "run"), own, challenge(EVERYTHING, True, 1))
    assert done.findings.total == 0, lines(done)
    claims = int(rows["status"].isin(["optimal", "no_recourse", "relaxed", "feasible"]).sum())
    assert any(f"{claims} of {claims} claims" in line and " 0 refuted" in line for line in done.challenges)
    assert any(line.startswith("attack: ") and " 0 refuted" in line for line in done.challenges)
    assert done.notes == ["the validation forests' decisions: these forests are not stored"]


def test_a_nearer_answer_was_there_and_the_bound_is_forged(forger: Forger) -> None:
    """Farther points called optimal, with a bound to match: only a second opinion can tell."""
    changed = []

    def farther(rows: list[Row]) -> None:
        for row in rows:
            if row["method"] == "naive" and row["status"] == "optimal":
                other = answer_of(rows, row, method="direct-saa", alpha=0.05)
                if other["status"] == "optimal" and other["distance"] > row["distance"] * 1.01:
                    keep = {k: row[k] for k in ("method", "alpha", "threshold", "seconds", "nodes")}
                    row.update(other | keep)
                    changed.append(row["instance_id"])

    forger.rows(farther)
    assert len(changed) > 2
    assert found(forger.run) == []
    for said in (solved_again(forger.run), solved_again(forger.run, None, attack=True)):
        assert {c for c in changed if any(f" {c}, naive" in line for line in said)} == set(changed), said


def test_an_objective_and_its_bound_are_cut(forger: Forger) -> None:
    def cut(rows: list[Row]) -> None:
        for row in rows:
            if row["method"] == "naive" and row["status"] == "optimal":
                for column in ("distance", "objective", "lower_bound"):
                    row[column] *= 0.9

    forger.rows(cut)
    assert any(line.startswith("distance: ") for line in found(forger.run, customers=False))


def test_a_point_is_moved(forger: Forger) -> None:
    def move(rows: list[Row]) -> None:
        if (row := picked(rows)) is not None:
            row["point"] = [x + 0.4 if 0 < x < 0.5 else x for x in row["point"]]

    forger.rows(move)
    assert found(forger.run, customers=False)


def test_a_1_lof_objective_and_bound_cut_by_a_tenth_are_named(forger: Forger) -> None:
    changed = []

    def cut(rows: list[Row]) -> None:
        for row in rows:
            mine = row["method"] == OUTLIER and row["status"] == "optimal"
            if mine and row["objective"] * 0.9 > row["distance"]:
                row["objective"], row["lower_bound"] = row["objective"] * 0.9, row["lower_bound"] * 0.9
                changed.append(row["instance_id"])

    forger.rows(cut)
    assert changed
    said = [line for line in found(forger.run) if line.startswith("plausibility: ")]
    assert all(any(f" {c}, {OUTLIER}" in line for line in said) for c in changed)


def test_1_lof_is_named_as_unchecked_without_the_training_rows(honest: Path) -> None:
    done = verify_run(str(honest / "run"), Auditor(reads=False))
    assert any(note.startswith("the 1-LOF penalties in objectives and bounds: ") for note in done.notes)


def test_points_that_the_isolation_forest_rejects_are_named(forger: Forger, honest: Path) -> None:
    """The naive answer, sold as one that the isolation forest accepts."""

    def sell(rows: list[Row]) -> None:
        for row in rows:
            if row["method"] == ISOLATION and row["status"] == "optimal":
                other = answer_of(rows, row, method="naive")
                if other["point"] != row["point"]:
                    keep = {k: row[k] for k in ("method", "parameter", "threshold", "seconds")}
                    row.update(other | keep)

    forger.rows(sell)
    said = found(forger.run, customers=False)
    assert any("the isolation forest rejects the point" in line for line in said), said


def test_an_isolation_forest_that_accepts_everything_is_not_the_training_rows_own(
    forger: Forger, honest: Path
) -> None:
    name = next((forger.run / "detectors").iterdir()).name
    config = tomllib.loads((honest / "audit.toml").read_text())
    data = rc.datasets.synthetic_credit(300, seed=0)
    forest = rc.load_forest(honest / "forest")
    asked = Question((rc.IsolationForest(0.3, n_trees=5),), 1, "soft", "auto", 60.0, 1, config["seed"])
    wide = np.vstack([data.encode(data.X) * 100 - 50, data.encode(data.X)])
    stored = store_detectors(RunFolder(str(forger.run)), asked, forest, wide, np.r_[data.y * 0 + 1, data.y])
    assert list(stored) == [f"detectors/{name}"]
    assert any(f"digest: detectors/{name}" in line for line in found(forger.run))
    forger.manifest(lambda m: m.update(detectors=stored))
    assert any(f"detectors/{name}: not the isolation forest" in line for line in found(forger.run))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", None])
def test_a_broken_isolation_forest_is_named(forger: Forger, content: bytes | None) -> None:
    path = next((forger.run / "detectors").iterdir())
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert any(line.startswith("files: detectors/") for line in found(forger.run))


def changed_method(index: int, **values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda m: m["config"]["method"][index].update(values)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (changed_method(2, alpha=0.04), "method: "),
        (changed_method(2, variant="one-sided"), "threshold: "),
        (changed_method(3, n_trees=20), "files: detectors/"),
        (changed_method(4, neighbours=1), "plausibility: "),
    ],
)
def test_a_parameter_of_a_method_is_changed(
    forger: Forger, honest: Path, change: Callable[[dict[str, Any]], None], named: str
) -> None:
    index = [m["name"] for m in json.loads((forger.run / "manifest.json").read_text())["config"]["method"]]
    assert index == ["naive", "direct-saa", "robust-saa", ISOLATION, OUTLIER]
    forger.manifest(change)
    said = found(forger.run)
    assert any(line.startswith(named) for line in said), said
    said = found(forger.run, config=str(honest / "audit.toml"))
    assert any(line.startswith("auditor: config: method") for line in said), said


@pytest.mark.parametrize("key", ["time_limit", "seed"])
def test_a_setting_is_changed(forger: Forger, honest: Path, key: str) -> None:
    def change(m: dict[str, Any]) -> None:
        if key == "seed":
            m["config"]["seed"] = m["seed"] = 7
        else:
            m["config"]["solver"]["time_limit"] = 7.0

    forger.manifest(change)
    said = found(forger.run, config=str(honest / "audit.toml"))
    assert any(line.startswith("auditor: config: ") and key in line for line in said), said


def test_the_training_rows_are_others(forger: Forger, honest: Path, tmp_path: Path) -> None:
    """The auditor's own training table tells that plausibility was measured on other rows."""
    frame = pd.read_parquet(honest / "training.parquet")
    frame.iloc[: len(frame) // 2].to_parquet(tmp_path / "training.parquet")
    config = tomllib.loads((honest / "audit.toml").read_text())
    config["model"] = {
        k: str(honest / v) if k in ("forest", "schema") else v for k, v in config["model"].items()
    }
    config["customers"]["data"] = str(honest / "customers.parquet")
    path = write_config(tmp_path / "own.toml", config)
    said = found(forger.run, config=str(path))
    assert any("not the isolation forest of the training rows" in line for line in said), said
    assert any(line.startswith("plausibility: ") and OUTLIER in line for line in said), said
    assert not any(line.startswith("auditor: ") for line in said)


def test_an_answer_is_copied_from_another_customer(forger: Forger) -> None:
    """All of a customer's answers, consistent with each other, are another customer's."""
    told = []

    def copy(rows: list[Row]) -> None:
        ids = sorted({r["instance_id"] for r in rows if r["status"] == "optimal"})
        if len(ids) < 2 or told:
            return
        told.append(ids[0])
        for row in rows:
            if row["instance_id"] == ids[0]:
                same = {k: row[k] for k in ("method", "alpha", "beta", "parameter")}
                other = answer_of(rows, {"instance_id": ids[1]}, **same)
                row.update(other | {k: row[k] for k in ("instance_id", "cohort")})

    forger.rows(copy)
    said = found(forger.run)
    assert f"customers: {told[0]}: the changes do not start from the customer's row" in said


BARE = (
    "objective", "distance", "lower_bound", "gap", "score_after", "best_score", "best_score_gap",
    "predicted_validity", "n_changed", "changes", "point", "reason",
)  # fmt: skip


@pytest.mark.parametrize("status", ["no_recourse", "timeout", "error", "invalid_input"])
def test_a_status_without_evidence(forger: Forger, status: str) -> None:
    """Recourses taken away: nothing in the row says why."""

    def take_away(rows: list[Row]) -> None:
        for row in rows:
            if row["status"] == "optimal" and row["method"] == "naive":
                row.update(dict.fromkeys(BARE), status=status, verified=False)

    forger.rows(take_away)
    said = found(forger.run, customers=False)
    assert any(line.startswith("status: ") for line in said), said


def test_recourse_denied_with_forged_evidence(forger: Forger) -> None:
    """The best reachable score is invented: a second opinion finds a point that reaches the threshold."""
    told = []

    def deny(rows: list[Row]) -> None:
        for row in rows:
            if row["method"] == "direct-saa" and row["status"] == "optimal":
                other = answer_of(rows, row, method="naive")
                if other["status"] == "optimal" and other["score_after"] < row["threshold"] - 0.01:
                    keep = {k: row[k] for k in ("method", "alpha", "threshold", "seconds")}
                    score = {"best_score": other["score_after"], "best_score_gap": 0.0}
                    row.update(other | keep | score, status="no_recourse")
                    told.append(row["instance_id"])

    forger.rows(deny)
    assert told
    assert found(forger.run) == []
    for said in (solved_again(forger.run), solved_again(forger.run, None, attack=True)):
        assert {c for c in told if any(f" {c}, direct-saa" in line for line in said)} == set(told), said


def test_a_recourse_is_called_a_timeout_with_forged_seconds(forger: Forger) -> None:
    """Nothing is claimed of a timeout but a bound; a forged bound is refuted."""
    told = []

    def stop(rows: list[Row]) -> None:
        for row in rows:
            if row["status"] == "optimal" and row["method"] == "naive":
                bound = row["objective"] * 1.5
                row.update(dict.fromkeys(BARE), status="timeout", verified=False, seconds=60.0)
                row["lower_bound"] = bound
                told.append(row["instance_id"])

    forger.rows(stop)
    said = solved_again(forger.run)
    assert all(any(f" {c}, naive: timeout" in line for line in said) for c in told), said


def test_cohorts_are_changed(forger: Forger) -> None:
    def change(rows: list[Row]) -> None:
        for row in rows:
            if dict(row["cohort"])["sex"] == "female":
                row["cohort"] = [("sex", "male")]

    forger.rows(change)
    assert found(forger.run, customers=False) == []
    assert any("cohort is not the cohort of the customer's row" in line for line in found(forger.run))


def test_a_dropped_customer_with_a_trimmed_table(forger: Forger, honest: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(honest / "customers.parquet")
    rows = pd.read_parquet(forger.run / "counterfactuals")
    gone = rows.loc[rows["status"] == "optimal", "instance_id"].iloc[0]
    trimmed = tmp_path / "customers.parquet"
    frame[frame["customer"] != gone].to_parquet(trimmed)
    forger.point_to(trimmed, rc.Schema.from_toml(forger.run / "schema.toml"))
    forger.manifest(lambda m: m["plan"].update(rows=m["plan"]["rows"] - 1, denied=m["plan"]["denied"] - 1))
    forger.rows(lambda rows: [row for row in rows if row["instance_id"] != gone])
    assert found(forger.run) == []
    said = found(forger.run, customers_table=str(honest / "customers.parquet"))
    assert f"customers: {gone}: the customer is in the table but not in the run" in said


def test_the_forest_is_swapped(honest: Path, tmp_path: Path) -> None:
    make_forest(tmp_path / "mine", seed=9)
    said = found(honest / "run", forest=str(tmp_path / "mine"))
    assert said == ["auditor: the run's forest differs from the auditor's (manifest.json: forest_hash)"]


def test_a_training_table_with_a_forged_neighbour_is_still_compared(forger: Forger) -> None:
    def change(m: dict[str, Any]) -> None:
        m["config"]["training"]["later"] = 3
        m["training_hash"]["first"] = "0" * 64

    forger.manifest(change)
    assert any(line.startswith("training: manifest.json: training_hash") for line in found(forger.run))


def test_the_report_is_replaced(forger: Forger) -> None:
    (forger.run / "report.html").write_text("<p>All is well.</p>")
    assert any(line.startswith("report: report.html: sha256") for line in found(forger.run))
    (forger.run / "report.html").unlink()
    assert any(line.startswith("report: report.html: cannot be read") for line in found(forger.run))
    forger.manifest(lambda m: m.pop("report"))
    assert any(line.startswith("report: manifest.json") for line in found(forger.run))


def test_ids_that_occur_twice_in_the_table_are_named(honest: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(honest / "customers.parquet")
    twice = pd.concat([frame, frame.iloc[:1]])
    twice.to_parquet(tmp_path / "twice.parquet")
    said = found(honest / "run", customers_table=str(tmp_path / "twice.parquet"))
    name = frame["customer"].iloc[0]
    assert f"customers: {name}: the id occurs more than once in the customer table" in said


def test_a_customer_who_is_in_the_run_twice_is_named(forger: Forger) -> None:
    keys = forger.run / "keys"
    first = sorted(keys.iterdir())[0]
    rows = pd.read_parquet(first)
    pd.concat([rows, rows.iloc[:1]]).to_parquet(first)
    assert any(
        "the customers are not those of the shard" in line or "customers" in line
        for line in found(forger.run)
    )


def test_the_command_solves_again_and_attacks(honest: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table = ["--customers", str(honest / "customers.parquet"), "--forest", str(honest / "forest")]
    with pytest.raises(SystemExit) as end:
        main(["verify", str(honest / "run"), *table, "--resolve", "5", "--seed", "3", "--attack"])
    out = capfd.readouterr().out
    assert end.value.code == 0, out
    assert "resolve: 5 of " in out
    assert re.search(r"seed 3: [45] confirmed, 0 refuted, [01] open", out)  # a 1-LOF claim may stay open
    assert "% of the claims or more were false, a sample of this size would find one" in out
    assert "attack: " in out


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--customers", "nowhere.parquet"], "nowhere.parquet"),
        (["--forest", "nowhere"], "nowhere"),
        (["--config", "nowhere.toml"], "nowhere.toml"),
        (
            ["--no-customers", "--customers", "x.parquet"],
            "--no-customers cannot be combined with --customers or --config",
        ),
    ],
)
def test_inputs_of_the_auditor_that_cannot_be_read_are_exit_code_2(
    honest: Path, capfd: pytest.CaptureFixture[str], options: list[str], named: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["verify", str(honest / "run"), *options])
    said = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("{")]
    assert end.value.code == 2
    assert len(said) == 1
    assert named in said[0]
