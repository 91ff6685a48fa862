"""Runs side by side: all of them, or an end for all."""

import os
import signal
import threading
import time

import pytest
from robustcf_jobs.cluster.signals import Terminated, side_by_side, stop_if_asked, stoppable
from robustcf_jobs.terminal.progress import _Display, stage

LONG = 60.0


def waiting() -> int:
    """A run that would wait for long; it looks around meanwhile."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        stop_if_asked()
        time.sleep(0.01)
    return 0


def test_results_of_all_a_few_at_once() -> None:
    now, most, lock = [0], [0], threading.Lock()

    def run(number: int) -> int:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.02)
        with lock:
            now[0] -= 1
        return number

    assert sorted(side_by_side([lambda n=n: run(n) for n in range(9)], 3)) == list(range(9))  # type: ignore[misc]
    assert 1 < most[0] <= 3


def test_one_that_fails_ends_the_others() -> None:
    def failing() -> int:
        time.sleep(0.05)
        raise ValueError("of mine")

    begin = time.monotonic()
    with pytest.raises(ValueError, match="of mine"):
        list(side_by_side([waiting, failing, waiting, waiting], 2))
    assert time.monotonic() - begin < LONG / 4
    stop_if_asked()  # the next run is not stopped
    assert list(side_by_side([lambda: 1], 1)) == [1]


def test_sigterm_ends_all() -> None:
    begin = time.monotonic()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(Terminated), stoppable():
        list(side_by_side([waiting, waiting, waiting], 2))
    assert time.monotonic() - begin < LONG / 4


def test_stages_side_by_side_share_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def run(name: str, seconds: float) -> int:
        with stage(name, 3) as progress:
            for _ in range(3):
                progress.advance(1, {"optimal": 1})
            time.sleep(seconds)
        return 0

    assert list(side_by_side([lambda: run("first [/b]", 0.1), lambda: run("second", 0.5)], 2)) == [0, 0]
    assert _Display.bar is None
    assert "first [/b]: 3 done" in capfd.readouterr().err
