"""Runs started at the same moment into one folder: one wins, the others end in one line, no row suffers."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from robustcf_jobs.run.folder import RunFolder

from tests.helpers.faultworld import assert_whole, small_audit
from tests.helpers.jobworld import Command, make_audit, run_audit, same_rows, shards
from tests.helpers.storage import bucket, copied

TIMES = [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 20))]


def said_in(output: str) -> list[str]:
    """The lines that are no progress."""
    return [line for line in output.splitlines() if not line.startswith('{"stage"')]


def one_wins(first: Path, second: Path) -> int:
    """Start both at once, with different cuts; returns which of them did the run."""
    both = [
        Command("audit", str(first), "--cpus", "1"),
        Command("audit", str(second), "--cpus", "2"),
    ]
    ended = [command.finish() for command in both]
    assert sorted(code for code, _ in ended) == [0, 2], ended
    loser = next(output for code, output in ended if code == 2)
    assert len(said_in(loser)) == 1, loser
    assert "in use by another run (pid " in loser or "belongs to another audit run" in loser
    return [code for code, _ in ended].index(0)


@pytest.mark.parametrize("time", TIMES)
def test_two_runs_at_once_lose_and_double_no_row(undisturbed: Path, tmp_path: Path, time: int) -> None:
    """The cut followed --cpus: shards of both were mixed, both said 0, and a quarter was gone."""
    config = small_audit(tmp_path, shard={"seconds": 0.05})
    one_wins(config, config)
    same_rows(undisturbed, tmp_path / "run")
    assert not (tmp_path / "run/_claim").exists()
    assert run_audit(config) == 0
    same_rows(undisturbed, tmp_path / "run")


@pytest.mark.parametrize("time", TIMES)
def test_two_configs_at_once_into_one_output(undisturbed: Path, tmp_path: Path, time: int) -> None:
    first = small_audit(tmp_path)
    other = tmp_path / "other.toml"
    other.write_text(first.read_text().replace("seed = 1", "seed = 2"))
    assert other.read_text() != first.read_text()
    winner = one_wins(first, other)
    assert f'"seed": {winner + 1}' in (tmp_path / "run/manifest.json").read_text()
    same_rows(undisturbed, tmp_path / "run")  # the seed decides the validation forests only


@pytest.mark.parametrize("time", TIMES)
def test_two_runs_at_once_on_object_storage(
    undisturbed: Path, local_ray: Any, tmp_path: Path, time: int
) -> None:
    with bucket() as (_, address):
        config = small_audit(tmp_path, output=address)
        one_wins(config, config)
        run = RunFolder(address)
        assert run.names("_claim") == {}
        same_rows(undisturbed, copied(run, tmp_path / "copy"))


def test_a_run_with_duplicate_ids_leaves_the_other_run_s_folder_alone(
    undisturbed: Path, tmp_path: Path
) -> None:
    config = small_audit(tmp_path)
    command = Command("audit", str(config), "--cpus", "1")
    command.wait_for(lambda: list((tmp_path / "run").glob("_claim/*")))
    frame = pd.read_parquet(tmp_path / "customers.parquet")
    frame["customer"] = frame["customer"].iloc[0]
    make_audit(tmp_path / "doubled", frame, output=str(tmp_path / "run"))
    code, output = Command("audit", str(tmp_path / "doubled/audit.toml"), "--cpus", "1").finish()
    assert code == 2, output
    assert len(said_in(output)) == 1, output
    code, output = command.finish()
    assert code == 0, output
    assert_whole(undisturbed, tmp_path / "run")


def test_a_killed_run_s_claim_is_taken_over_and_said_so(undisturbed: Path, tmp_path: Path) -> None:
    config, run = small_audit(tmp_path), tmp_path / "run"
    command = Command("audit", str(config), "--cpus", "2")
    command.wait_for(lambda: shards(run))
    pid = command.process.pid
    command.kill()
    assert list(run.glob("_claim/*.json"))
    code, output = Command("audit", str(config), "--cpus", "2").finish()
    assert code == 0, output
    said = [line for line in output.splitlines() if "taking over" in line]
    assert len(said) == 1
    assert f"a run that died (pid {pid} on " in said[0]
    assert_whole(undisturbed, run)


def test_an_output_that_is_moved_away_can_be_moved_back(undisturbed: Path, tmp_path: Path) -> None:
    """It said "the same command goes on", and the same command refused what was left."""
    config, run = small_audit(tmp_path), tmp_path / "run"
    command = Command("audit", str(config), "--cpus", "2")
    command.wait_for(lambda: len(shards(run)) > 1)
    run.rename(tmp_path / "elsewhere")
    code, output = command.finish()
    said = said_in(output)
    assert code == 1, output
    assert len(said) == 1, output
    assert "was moved away or removed during the run; move it back and run the same command" in said[0]
    assert not run.exists()
    shutil.move(tmp_path / "elsewhere", run)
    code, output = Command("audit", str(config), "--cpus", "2").finish()
    assert code == 0, output
    assert_whole(undisturbed, run)
