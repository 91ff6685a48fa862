"""`robustcf status` on a running, a killed and a finished run, and `robustcf doctor`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from robustcf_jobs.cli import app
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.status.status import status_of
from typer.testing import CliRunner

from tests.helpers.faultworld import CUSTOMERS, small_audit
from tests.helpers.jobworld import ROOT, Command, make_sweep, run_sweep, shards

SLOW = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests/helpers/poisoned'}", "POISON": "slow", "POISON_SHARE": "1"}


def shown(run: Path) -> str:
    found = CliRunner().invoke(app, ["status", str(run)])
    assert found.exit_code == 0, found.output
    return found.output


def test_a_running_a_killed_and_a_resumed_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = small_audit(tmp_path, shard={"rows": 4}, solver={"name": "poisoned"})
    command = Command("audit", str(config), "--cpus", "2", **SLOW)
    command.wait_for(lambda: shards(run))
    going = status_of(str(run))
    assert (going.state, going.stage, going.customers) == ("running", "explaining", CUSTOMERS)
    assert f"pid {command.process.pid} on" in str(going.holder)
    assert 1 <= going.explained < going.shards
    assert "running, explaining" in shown(run)
    command.kill()
    killed = status_of(str(run))
    assert (killed.state, killed.holder, killed.seconds_left) == ("stopped", None, None)
    assert killed.explained >= going.explained
    assert "stopped while explaining; run the same command to resume" in shown(run)
    code, output = Command(
        "audit", str(config), "--cpus", "2", **SLOW | {"POISON_SHARE": str(2**62)}
    ).finish()
    assert code == 0, output
    done = status_of(str(run))
    assert (done.state, done.explained, done.validated) == ("complete", done.shards, done.shards)
    assert done.customers == done.customers_done == CUSTOMERS
    assert sum(done.rows.values()) == 3 * CUSTOMERS
    assert done.slowest
    assert done.slowest[0][1] >= 1.0, "the poisoned solver sleeps for a second"
    assert ": complete" in shown(run)


def test_a_finished_sweep_as_json(local_ray: Any, tmp_path: Path) -> None:
    assert run_sweep(make_sweep(tmp_path)) == 0
    found = json.loads(CliRunner().invoke(app, ["status", str(tmp_path / "run"), "--json"]).output)
    assert (found["kind"], found["state"], found["shards"]) == ("sweep", "complete", 3)
    assert found["customers"] == found["customers_done"] == 6
    assert found["failures"] == {}
    assert all(re.fullmatch(r"synthetic-credit-n00010-s\d{4}:\d+", name) for name, _ in found["slowest"])


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a run folder"):
        status_of(str(tmp_path))


def test_doctor_checks_everything_and_names_what_fails(local_ray: Any, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["doctor", "--storage", str(tmp_path)])
    assert "FAIL" not in found.output.replace("FAIL  kernels", ""), found.output  # compiled just now, perhaps
    for subject in (
        "versions",
        "solver engine",
        "solver highs",
        "kernels",
        "storage",
        "clock of the workers",
    ):
        assert re.search(rf"(ok  |FAIL|note)  {subject}.*: ", found.output), found.output
    assert list(tmp_path.iterdir()) == []
    found = CliRunner().invoke(app, ["doctor", "--storage", str(tmp_path / "none/there")])
    assert found.exit_code == 1
    assert "FAIL  storage: " in found.output
