"""A run is never silent: each stage speaks soon and again, also while nothing advances."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from robustcf_jobs.audit.audit import AuditWork
from robustcf_jobs.cluster.startup import output_to
from robustcf_jobs.terminal import progress
from robustcf_jobs.terminal.progress import keeping_stderr, outer_stage, stage

from tests.helpers.jobworld import ROOT, customers, make_audit, run_audit, same_rows


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST", 0.1)
    monkeypatch.setattr(progress, "INTERVAL", 0.4)
    monkeypatch.setattr(progress._OuterStage, "patience", 0.4)


def said(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().err.splitlines()]


def test_a_stage_in_which_nothing_ends_speaks_all_the_same(
    hurried: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """`reading 169/?` stood still for 15 minutes, while the first rows were timed."""
    with stage("solving", 10, "customers") as going:
        time.sleep(2.0)
        going.advance(4, {"optimal": 8})
    lines = said(capfd)
    assert len(lines) >= 3
    assert lines[0] == {
        "stage": "solving", "done": 0, "total": 10, "unit": "customers", "per_second": 0.0,
        "estimated_seconds_left": None,
    }  # fmt: skip
    last = lines[-1]
    assert (last["done"], last["answers"]) == (4, {"optimal": 8}), "customers and answers are told apart"
    assert last["estimated_seconds_left"] == pytest.approx(6 / last["per_second"], rel=0.05)


def test_an_outer_stage_speaks_only_when_no_inner_one_does(
    hurried: None, capfd: pytest.CaptureFixture[str]
) -> None:
    with outer_stage("audit"):
        with stage("reading", 0):
            time.sleep(1.2)
        inner = {line["stage"] for line in said(capfd)}
        time.sleep(2.0)
    assert inner == {"reading"}
    assert {line["stage"] for line in said(capfd)} == {"audit"}


def test_progress_reaches_the_terminal_while_ray_writes_to_its_log(
    hurried: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    with keeping_stderr(), outer_stage("starting Ray"), output_to(str(log)):
        time.sleep(1.5)
    assert said(capfd)[0]["stage"] == "starting Ray"
    assert log.read_text() == ""


def test_the_pilot_keeps_its_answers(local_ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were thrown away, and their customers were solved again."""
    kept: list[Any] = []
    pilot = AuditWork._pilot

    def watching(work: AuditWork, run: Any, plan: Any) -> float:
        seconds = pilot(work, run, plan)
        kept.append(work.pilots)
        return seconds

    monkeypatch.setattr(AuditWork, "_pilot", watching)
    sizes: list[dict[str, Any]] = [{"seconds": 20.0}, {"rows": 20}]
    for name, shard in zip(("timed", "sized"), sizes, strict=True):
        config = make_audit(tmp_path / name, customers(60), shard=shard, training=None)
        assert run_audit(config) == 0
    same_rows(tmp_path / "timed/run", tmp_path / "sized/run")
    (table,) = kept
    rows = pd.read_parquet(tmp_path / "timed/run/counterfactuals")
    found = rows.set_index("seconds").loc[table["seconds"].to_pylist()]
    assert len(found) == len(table) > 6
    assert found["objective"].to_list() == table["objective"].to_pylist()


@pytest.mark.slow
def test_an_audit_speaks_within_seconds_and_is_never_silent(tmp_path: Path) -> None:
    config = make_audit(tmp_path, customers(200), shard={"seconds": 5.0}, validation={"forests": 20})
    begin = time.monotonic()
    command = [sys.executable, "-m", "robustcf_jobs.cli", "audit", str(config)]
    with subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        times = [begin, *(time.monotonic() for _ in process.stderr), time.monotonic()]
    assert process.returncode == 0
    gaps = [b - a for a, b in pairwise(times)]
    assert gaps[0] < 4.0, "Python itself takes a part of it on a busy machine"
    assert max(gaps) < 10.0
