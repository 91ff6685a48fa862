"""The guard: a row that hangs, crashes or eats memory costs that row, and nothing else."""

import ctypes
import faulthandler
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pytest
from robustcf_jobs.cluster.guard import OUTSIDE, Allowance, Stopped, Tick, guarded

Poison = Callable[[], Any]
PATIENT = Allowance(60.0)
LIMIT = 0.5


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The crashes are meant: no pages about them."""
    faulthandler.disable()
    yield
    faulthandler.enable()


def run(
    poison: dict[int, Poison], allowance: Allowance, rows: int = 7, batch: int = 3
) -> tuple[dict[int, Any], float]:
    """Every row's answer (its square, or why not) and the longest time that one took."""

    def work(part: list[int], tick: Tick) -> list[int]:
        for at, row in enumerate(part):
            tick(at)
            poison.get(row, int)()
        tick(OUTSIDE)
        return [row * row for row in part]

    answers: dict[int, Any] = {}
    batches = [range(start, min(start + batch, rows)) for start in range(0, rows, batch)]
    for part, result in guarded(work, batches, allowance):
        for row, value in zip(part, [result] if isinstance(result, Stopped) else result, strict=True):
            assert row not in answers
            answers[row] = value
    assert answers.keys() == set(range(rows))
    stopped = [value for value in answers.values() if isinstance(value, Stopped)]
    assert all(value == row * row for row, value in answers.items() if not isinstance(value, Stopped))
    return answers, max((s.seconds for s in stopped), default=0.0)


def hang_with_the_gil() -> None:
    ctypes.PyDLL(None).sleep(3600)  # as a solver whose C code never lets Python run again


def busy() -> None:
    while True:
        pass


def deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(3600)


@pytest.mark.parametrize(("hang", "at"), [(hang_with_the_gil, 0), (busy, 4), (deaf, 6)])
def test_a_row_that_hangs_is_stopped_at_its_limit(hang: Poison, at: int) -> None:
    begin = time.monotonic()
    answers, seconds = run({at: hang}, Allowance(LIMIT))
    assert answers[at].status == "timeout"
    assert "did not stop" in answers[at].reason
    assert sum(isinstance(value, Stopped) for value in answers.values()) == 1
    assert LIMIT <= seconds < LIMIT + 1
    assert time.monotonic() - begin < LIMIT + 3


@pytest.mark.parametrize(
    ("crash", "how"),
    [
        (os.abort, "SIGABRT"),
        (lambda: ctypes.string_at(0), "SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
        (lambda: os._exit(3), "exit code 3"),
    ],
)
def test_a_row_that_crashes_twice_is_an_error(crash: Poison, how: str) -> None:
    answers, _ = run({2: crash, 3: crash}, PATIENT)
    for row in (2, 3):
        assert answers[row].status == "error"
        assert how in answers[row].reason
    assert sum(isinstance(value, Stopped) for value in answers.values()) == 2


def test_a_row_that_is_shot_once_is_solved_again(tmp_path: Any) -> None:
    def once() -> None:
        if not (tmp_path / "shot").exists():
            (tmp_path / "shot").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    answers, _ = run({1: once}, PATIENT)
    assert answers[1] == 1


def test_a_row_that_eats_memory_is_stopped_at_the_limit() -> None:
    def eat() -> None:
        kept = []
        while True:
            kept.append(np.ones(2**20))

    peak = psutil.virtual_memory().used
    answers, _ = run({5: eat}, Allowance(60.0, psutil.Process().memory_info().rss + 3e8))
    assert answers[5].status == "error"
    assert "memory limit" in answers[5].reason
    assert psutil.virtual_memory().used - peak < 1e9


def test_a_death_while_no_row_is_solved_is_traced_by_halving() -> None:
    def work(part: list[int], tick: Tick) -> list[int]:
        tick(OUTSIDE)
        if 11 in part:
            os.abort()
        return part

    found = list(guarded(work, [range(8), range(8, 16)], PATIENT))
    assert sorted(row for part, _ in found for row in part) == list(range(16))
    assert [part for part, result in found if isinstance(result, Stopped)] == [[11]]


def test_an_error_of_ours_stays_one_and_nobody_is_left_behind() -> None:
    class Unpicklable(Exception):
        pass

    def broken(part: list[int], tick: Tick) -> None:
        raise KeyError("a bug") if part == [0] else Unpicklable("another")

    with pytest.raises(KeyError, match="a bug"):
        list(guarded(broken, [[0]], PATIENT))
    with pytest.raises(RuntimeError, match="Unpicklable: another"):
        list(guarded(broken, [[1]], PATIENT))
    before = psutil.Process().children()  # a Ray that other tests share
    half_way = guarded(lambda part, tick: part, [[k] for k in range(9)], PATIENT)
    next(half_way)
    half_way.close()
    assert set(psutil.Process().children()) <= set(before)


def test_a_child_never_outlives_its_worker(tmp_path: Any) -> None:
    pid = os.fork()
    if pid == 0:

        def work(part: list[int], tick: Tick) -> None:
            (tmp_path / "child").write_text(str(os.getpid()))
            busy()

        list(guarded(work, [[0]], PATIENT))
        os._exit(0)
    end = time.monotonic() + 10
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
    child = psutil.Process(int((tmp_path / "child").read_text()))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    child.wait(5)
    assert not child.is_running()


def test_compiling_does_not_count() -> None:
    def work(part: list[int], tick: Tick) -> int:
        import numba
        from numba.core import event

        with event.trigger_event("numba:compile"):
            time.sleep(2 * LIMIT)
            with event.trigger_event("numba:compile"):
                pass
            time.sleep(LIMIT)
        return numba.get_num_threads()

    ((_, result),) = guarded(work, [[0]], Allowance(LIMIT))
    assert not isinstance(result, Stopped)
