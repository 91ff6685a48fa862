"""Runs that are told to stop, at any moment and in any command: one line, the exit code, nothing left."""

import random
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.helpers.faultworld import assert_whole, nodes, small_audit
from tests.helpers.jobworld import Command, make_sweep, run_audit, shards

STOPPED = "robustcf: stopped; finished work is kept; run the same command to resume"
EARLY = "robustcf: stopped; nothing was stored"
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130}


def stop(
    command: Command, number: signal.Signals = signal.SIGTERM, lines: tuple[str, ...] = (STOPPED,)
) -> None:
    """Send the signal; the command must say one of the lines and leave no process, folder or claim behind."""
    started = command.children()
    command.process.send_signal(number)
    code, output = command.finish()
    said = [line for line in output.splitlines() if not line.startswith(('{"stage"', '{"waiting_for"'))]
    assert len(said) == 1, output
    assert said[0] in lines
    assert code == CODES[number]
    assert psutil.wait_procs(started, timeout=10)[1] == []


@pytest.fixture
def own_tmp() -> Iterator[Path]:
    """A folder for temporary files, with a path short enough for Ray's sockets."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as folder:
        yield Path(folder)


def nothing_left(own_tmp: Path, run: Path) -> None:
    assert not list(own_tmp.glob("robustcf-*"))
    assert not list(run.glob("_claim/*"))


STAGES = {
    "importing": lambda command, run: time.sleep(1.0),
    "starting Ray": lambda command, run: command.wait_for(lambda: len(command.children()) > 1),
    "reading": lambda command, run: command.wait_for(lambda: (run / "_work").exists()),
    "explaining": lambda command, run: command.wait_for(lambda: shards(run)),
    "validating": lambda command, run: command.wait_for(lambda: (run / "validation").exists()),
    "summarising": lambda command, run: command.wait_for(lambda: (run / "summary").exists()),
}


@pytest.mark.parametrize(
    "stage",
    [pytest.param(s, marks=pytest.mark.slow) if s in ("importing", "summarising") else s for s in STAGES],
)
def test_sigterm_in_every_stage_of_an_audit_is_one_line(
    undisturbed: Path, tmp_path: Path, own_tmp: Path, stage: str
) -> None:
    """6 of 7 tries ended in a traceback: the handler raised inside Ray."""
    config, run = small_audit(tmp_path), tmp_path / "run"
    command = Command("audit", str(config), "--cpus", "2", TMPDIR=str(own_tmp))
    STAGES[stage](command, run)
    said = {"importing": (EARLY,), "starting Ray": (EARLY,), "reading": (EARLY, STOPPED)}
    stop(command, lines=said.get(stage, (STOPPED,)))
    nothing_left(own_tmp, run)
    if stage in ("reading", "explaining"):
        assert run_audit(config) == 0
        assert_whole(undisturbed, run)


def test_ctrl_c_while_rows_are_explained_is_one_line(tmp_path: Path) -> None:
    command = Command("audit", str(small_audit(tmp_path)), "--cpus", "2")
    command.wait_for(lambda: shards(tmp_path / "run"))
    stop(command, signal.SIGINT)


def test_a_sweep_is_stopped_in_one_line(tmp_path: Path) -> None:
    command = Command("sweep", str(make_sweep(tmp_path)), "--cpus", "2")
    command.wait_for(lambda: shards(tmp_path / "run"))
    stop(command)


def test_validate_is_stopped_in_one_line(undisturbed: Path, tmp_path: Path) -> None:
    world = undisturbed.parent
    arguments = ["--forest", str(world / "forest"), "--schema", str(world / "schema.toml"), "--target", "1"]
    arguments += ["--training", str(world / "training.parquet"), "--label", "repaid", "--forests", "5000"]
    command = Command(
        "validate", str(world / "customers.parquet"), *arguments, "--output", str(tmp_path / "points.csv")
    )
    command.wait_for(command.workers)
    time.sleep(2.0)
    stop(command, lines=(EARLY,))


def test_a_cluster_without_cpus_is_left_in_one_line(local_ray: Any, tmp_path: Path) -> None:
    with nodes({"num_cpus": 0}) as (there, _, _):
        command = Command("audit", str(small_audit(tmp_path, shared=True)), **there)
        command.wait_for(lambda: list((tmp_path / "run").glob("_claim/*")))
        time.sleep(6.0)
        assert command.process.poll() is None
        stop(command, lines=(EARLY,))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_sigterm_at_any_moment_is_one_line(tmp_path: Path, own_tmp: Path, seed: int) -> None:
    command = Command("audit", str(small_audit(tmp_path)), "--cpus", "2", TMPDIR=str(own_tmp))
    time.sleep(random.Random(seed).uniform(0.8, 20.0))
    if command.process.poll() is None:
        number = signal.SIGINT if seed % 4 == 3 else signal.SIGTERM
        stop(command, number, (EARLY, STOPPED))
    nothing_left(own_tmp, tmp_path / "run")


@pytest.mark.parametrize("command", ["explain", "demo"])
def test_ctrl_c_ends_a_command_that_stores_nothing_at_once(command: str) -> None:
    """`explain` obeyed after a minute, when compiled code returned, and said that work was kept."""
    hard = ["explain", "synthetic-credit", "--row", "0", "--trees", "3000", "--depth", "14", "--certify"]
    started = Command(*(hard if command == "explain" else ["demo", "--retrain", "5000"]))
    time.sleep(8.0)
    assert started.process.poll() is None
    begin = time.monotonic()
    started.process.send_signal(signal.SIGINT)
    code, output = started.finish()
    assert time.monotonic() - begin < 3.0
    assert code == -signal.SIGINT
    assert "kept" not in output
