"""The claim on a run folder: one holder, dead ones recognised, nothing of anyone else's removed."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from robustcf_jobs.cluster.signals import stop_if_asked, stoppable
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.run import claim, holder
from robustcf_jobs.run.claim import ClaimLost, claimed
from robustcf_jobs.run.folder import RunFolder


def leave_claim(run: Path, age: float = 0.0, **facts: Any) -> Path:
    """A claim as another run would have left it."""
    path = run / "_claim" / f"{time.time_ns():020d}-{'0' * 16}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"host": "elsewhere", "pid": 7, "since": "then", "place": ["elsewhere"], "started": "1"}
    path.write_text(json.dumps(about | facts))
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_many_at_once_and_exactly_one_holds(tmp_path: Path) -> None:
    for attempt in range(20):
        held, refused = contest(str(tmp_path / f"run{attempt}"), 8)
        assert (held, len(refused)) == (1, 7)
        assert f"pid {os.getpid()} on {socket.gethostname()} since 2" in refused[0]
        assert not list(tmp_path.glob("run*/*"))


def contest(address: str, runs: int) -> tuple[int, list[str]]:
    """Let so many runs claim a folder at once; the winner holds it until all others have given up."""
    begin, end = threading.Barrier(runs), threading.Event()
    held: list[int] = []
    refused: list[str] = []

    def contend() -> None:
        begin.wait()
        try:
            with claimed(RunFolder(address)):
                held.append(1)
                end.wait(30)
        except BadInput as error:
            refused.append(error.format_message())
            if len(refused) == runs - 1:
                end.set()

    threads = [threading.Thread(target=contend) for _ in range(runs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(held), refused


def test_a_claim_of_a_live_process_is_respected_and_of_a_dead_one_taken_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        started = holder.started_at(other.pid)
        left = leave_claim(tmp_path, pid=other.pid, place=holder.process_scope(), started=started, age=10_000)
        with pytest.raises(BadInput, match=f"in use by another run .pid {other.pid} on"):
            claimed(RunFolder(str(tmp_path))).__enter__()
        assert left.exists()
        other.communicate(b"\n")
    with claimed(RunFolder(str(tmp_path))):
        assert not left.exists()
        assert len(list(tmp_path.glob("_claim/*.json"))) == 1
    assert capsys.readouterr().err.count("taking over from a run that died") == 1
    assert tmp_path.exists()
    assert not (tmp_path / "_claim").exists()


def test_a_process_number_that_was_given_again_is_another_process(tmp_path: Path) -> None:
    leave_claim(tmp_path, pid=os.getppid(), place=holder.process_scope(), started="1")
    with claimed(RunFolder(str(tmp_path))):
        pass


def test_a_claim_of_another_machine_lapses_by_the_storage_s_clock(tmp_path: Path) -> None:
    left = leave_claim(tmp_path, age=holder.LAPSE - 60)
    with pytest.raises(BadInput, match="if that run is dead, try again in 5 minutes"):
        claimed(RunFolder(str(tmp_path))).__enter__()
    os.utime(left, (time.time() - holder.LAPSE - 60,) * 2)
    with claimed(RunFolder(str(tmp_path))):
        assert not left.exists()


def test_a_holder_that_was_taken_over_is_told_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "BEAT", 0.05)

    def run() -> None:
        with stoppable(), claimed(RunFolder(str(tmp_path))):
            own = next(tmp_path.glob("_claim/*.json"))
            leave_claim(tmp_path)
            own.unlink()
            end = time.monotonic() + 10
            while time.monotonic() < end:
                stop_if_asked()
                time.sleep(0.01)

    with pytest.raises(ClaimLost, match="took over the folder"):
        run()


def test_a_claim_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "BEAT", 0.05)
    with claimed(RunFolder(str(tmp_path))):
        own = next(tmp_path.glob("_claim/*.json"))
        os.utime(own, (0, 0))
        end = time.monotonic() + 10
        while own.stat().st_mtime < time.time() - 60:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_folder_that_went_away_is_not_made_again(tmp_path: Path) -> None:
    run = RunFolder(str(tmp_path / "run"))

    def publish() -> None:
        with claimed(run):
            (tmp_path / "run").rename(tmp_path / "elsewhere")
            run.publish("counterfactuals/a.parquet", b"x")

    with pytest.raises(claim.OutputMoved, match="was moved away"):
        publish()
    assert not (tmp_path / "run").exists()
    run.publish("counterfactuals/a.parquet", b"x")  # no run is going on any more
    assert (tmp_path / "run/counterfactuals/a.parquet").exists()
