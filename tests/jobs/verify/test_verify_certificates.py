"""`verify` counts certificates again, and catches each kind of forged certificate.

The forger makes digests, counts, summary and report agree. The table in docs/verify.md names these tests.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from robustcf_jobs.cli import main
from robustcf_jobs.run.columns import CERTIFICATE
from robustcf_jobs.run.fresh_files import packed, unpacked
from robustcf_jobs.verify.auditor import Auditor
from robustcf_jobs.verify.claims import challenge
from robustcf_jobs.verify.command import lines
from robustcf_jobs.verify.retrain import retraining
from robustcf_jobs.verify.run import verify_run

from tests.helpers.certifiedworld import CERTIFIED, make_certified
from tests.helpers.forger import Forger, Row
from tests.helpers.jobworld import make_sweep, run_sweep
from tests.helpers.verifyworld import found

FRESH = "fresh/same-data-30-30-60"
NOTE = "the validation forests' decisions: these forests are not stored"


@pytest.fixture(scope="module")
def soft(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certified(tmp_path_factory.mktemp("soft"), "soft")


@pytest.fixture(scope="module")
def hard(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certified(tmp_path_factory.mktemp("hard"), "hard")


@pytest.fixture
def forger(soft: Path, tmp_path: Path, local_ray: Any) -> Forger:
    shutil.copytree(soft, tmp_path / "run")
    return Forger(tmp_path / "run", local_ray)


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_an_honest_run_withstands_everything(voting: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(voting)
    rows = pd.read_parquet(run / "counterfactuals")
    given = rows[rows["certificate_forests"].notna()]
    assert given["certified"].any()
    assert set(given["method"]) == {"certified"}
    assert set(given["certificate_test"]) == {"trees" if voting == "hard" else "forests"}
    done = verify_run(str(run), Auditor(), challenge(100, True, 1), retraining("3", 1))
    assert done.findings.total == 0, lines(done)
    assert done.notes == [NOTE]
    assert any(line.startswith("retrain: 3 of 36 fresh forests") for line in done.challenges)
    assert any(" 0 refuted, 0 open" in line for line in done.challenges)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["evolving", "bootstrap", "trees-7"])
def test_honest_runs_of_other_scenarios_withstand_training_again(
    scenario: str, local_ray: Any, tmp_path: Path
) -> None:
    run = make_certified(tmp_path, "soft", later=scenario == "evolving", scenario=scenario)
    done = verify_run(str(run), Auditor(), challenge(100, True, 1), retraining("all", 1))
    assert done.findings.total == 0, lines(done)
    assert done.notes == [NOTE]
    assert any(" fresh forests, seed 1: 0 differ" in line for line in done.challenges)


def certificates(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["certificate_forests"] is not None]


PARTS = [field.name for field in CERTIFICATE.values()]
CHANGES: dict[str, Callable[[Any], Any]] = {
    "certificate_agree": lambda old: old - 1,
    "certified": lambda old: not old,
    "certificate_level": lambda old: old + 0.001,
    "certificate_low": lambda old: old + 0.001,
    "certificate_pool_score": lambda old: old + 0.001,
    "certificate_pool_trees": lambda old: old + 1,
    "certificate_delta": lambda old: 0.01,
    "certificate_scenario": lambda old: "bootstrap",
    "certificate_trees": lambda old: 100,
    "certificate_forests": lambda old: 100,
    "certificate_test": lambda old: "trees-asymptotic",
}


@pytest.mark.parametrize("column", CHANGES)
def test_a_column_of_a_certificate_is_altered(forger: Forger, column: str) -> None:
    def alter(rows: list[Row]) -> None:
        for row in certificates(rows):
            row[column] = CHANGES[column](row[column])

    forger.rows(alter)
    said = found(forger.run, customers=False)
    assert all(line.startswith("certificate: ") for line in said)
    said_so = (
        f"{column} is not one of the method's levels"
        if column == "certificate_level"
        else f" {column}: stored "
    )
    assert any(said_so in line for line in said), said


def test_a_level_is_raised_to_another_one_of_the_path(forger: Forger) -> None:
    """The point does not have the higher score."""

    def raised(rows: list[Row]) -> None:
        for row in certificates(rows):
            row["certificate_level"] = 0.95

    forger.rows(raised)
    said = found(forger.run, customers=False)
    assert any("the pool does not give the point its level" in line for line in said), said


def test_a_level_is_lowered_so_that_a_nearer_point_was_there(forger: Forger) -> None:
    """A lower level keeps every number true, but the point is no longer the nearest of its level."""
    told = []

    def lowered(rows: list[Row]) -> None:
        for row in certificates(rows):
            if row["certificate_level"] > 0.6 and row["status"] == "optimal":
                row["certificate_level"] = 0.5
                told.append(row["instance_id"])

    forger.rows(lowered)
    assert told
    assert found(forger.run) == []
    for resolve, attack in ((100, False), (None, True)):
        done = verify_run(str(forger.run), Auditor(), challenge(resolve, attack, 1))
        said = [line for line in lines(done) if "certified" in line and "costs" in line]
        assert {c for c in told if any(f" {c}, certified" in line for line in said)} == set(told), said


def test_a_certificate_is_dropped(forger: Forger) -> None:
    forger.rows(lambda rows: certificates(rows)[0].update(dict.fromkeys(PARTS) | {"certified": False}))
    assert any("the certificate is missing" in line for line in found(forger.run, customers=False))


def test_a_certificate_is_given_to_another_method(forger: Forger) -> None:
    def give(rows: list[Row]) -> None:
        other = certificates(rows)[0]
        naive = next(r for r in rows if r["method"] == "naive" and r["status"] == "optimal")
        naive |= {name: other[name] for name in PARTS}

    forger.rows(give)
    assert any("the method gives no certificates" in line for line in found(forger.run, customers=False))


def test_a_stored_forest_is_swapped_with_another_one(forger: Forger) -> None:
    folder = forger.run / FRESH
    shutil.copy(folder / "pool-0000.zip", folder / "certification-0003.zip")
    said = found(forger.run, customers=False)
    assert any(f"{FRESH}/certification-0003.zip: fingerprint" in line for line in said), said


def test_a_stored_forest_is_altered(forger: Forger) -> None:
    path = forger.run / FRESH / "certification-0003.zip"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(bytes(content))
    said = found(forger.run, customers=False)
    assert any(line.startswith("files: ") and "certification-0003.zip" in line for line in said), said


def test_a_forest_is_added(forger: Forger) -> None:
    folder = forger.run / FRESH
    shutil.copy(folder / "certification-0003.zip", folder / "certification-0100.zip")
    assert found(forger.run, customers=False) == [
        f"files: {FRESH}/certification-0100.zip does not belong to the run"
    ]


def test_seeds_are_changed(forger: Forger) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["certificates"][0]["trained"][-1]["seed"] += 1

    forger.manifest(change)
    assert [line.split(":")[0] for line in found(forger.run, customers=False)] == ["seeds"]


def test_a_forest_is_replaced_with_its_fingerprint(forger: Forger) -> None:
    """All files agree with each other. Only training again tells."""
    folder = forger.run / FRESH
    other = unpacked((folder / "certification-0002.zip").read_bytes(), "other")
    (folder / "certification-0001.zip").write_bytes(packed(other))

    def change(manifest: dict[str, Any]) -> None:
        for one in manifest["certificates"][0]["trained"]:
            if (one["kind"], one["number"]) == ("certification", 1):
                one["fingerprint"] = other.fingerprint

    forger.manifest(change)
    quiet = [line for line in found(forger.run) if not line.startswith("certificate: counterfactuals/")]
    assert quiet == []
    done = verify_run(str(forger.run), Auditor(), None, retraining("all", 1))
    assert done.findings.counts["retrain"] == 1
    assert f"{FRESH}/certification-0001.zip: fingerprint" in done.findings.shown("retrain")[0]


def test_without_stored_forests_training_again_replaces_them(forger: Forger) -> None:
    shutil.rmtree(forger.run / "fresh")
    done = verify_run(str(forger.run), Auditor())
    assert done.findings.total == 0, lines(done)
    assert any("36 of 36 fresh forests of same-data: they are not stored" in note for note in done.notes)
    assert any("use --retrain all" in note for note in done.notes)
    forger.rows(lambda rows: certificates(rows)[0].update(certificate_agree=29))
    done = verify_run(str(forger.run), Auditor(), None, retraining("all", 1))
    assert any("certificate_agree: stored 29" in line for line in done.findings.shown("certificate"))


def test_a_sweep_is_checked_by_training_again(local_ray: Any, tmp_path: Path) -> None:
    sweep = {"datasets": ["synthetic-credit"], "simulations": 1, "rows": 2, "trees": [10], "depth": 3}
    assert run_sweep(make_sweep(tmp_path, sweep=sweep, method=[CERTIFIED])) == 0
    run = tmp_path / "run"
    done = verify_run(str(run), Auditor())
    assert done.findings.total == 0, lines(done)
    assert any("use --retrain all" in note for note in done.notes)
    done = verify_run(str(run), Auditor(), None, retraining("all", 1))
    assert done.findings.total == 0, lines(done)
    assert done.notes == [NOTE]
    manifest = json.loads((run / "manifest.json").read_text())
    (shard,) = (name for name in manifest["shards"] if name.startswith("counterfactuals/"))
    manifest["shards"][shard]["fresh"] = "0" * 64
    (run / "manifest.json").write_text(json.dumps(manifest))
    done = verify_run(str(run), Auditor(), None, retraining("all", 1))
    assert list(done.findings.counts) == ["retrain"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--retrain", "some"], "--retrain is 'some'; give a number of forests, or all"),
        (["--retrain", "0"], "--retrain is '0'; give a number of forests, or all"),
        (["--retrain", "1", "--no-customers"], "--no-customers cannot be combined with --retrain"),
    ],
)
def test_bad_options_are_one_line(
    soft: Path, capfd: pytest.CaptureFixture[str], options: list[str], named: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["verify", str(soft), *options])
    said = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("{")]
    assert end.value.code == 2
    assert len(said) == 1
    assert named in said[0]


def test_training_rows_that_are_gone_are_one_line(forger: Forger, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.parquet")
    forger.manifest(lambda m: m["config"]["training"].update(data=gone))
    with pytest.raises(Exception, match=r"--retrain needs the training rows: .*gone\.parquet"):
        verify_run(str(forger.run), Auditor(), None, retraining("1", 1))
