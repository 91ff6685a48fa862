"""Solve rows in a child process.

A hang, a crash or a memory leak then costs one row only.

The worker forks, so the child already has the libraries and the compiled forest. The child solves one
batch after another. The worker watches the current row, its start time and the child's memory. A row
whose child the worker killed is not retried. A row whose child died by itself is retried (see `retries`).
Outside Linux there is no fork, and rows are solved in the worker, unguarded.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import signal
import sys
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any, Literal

import numpy as np

from .metrics import count_retry
from .retries import ROW_RETRIES

GUARDED = sys.platform == "linux"
OUTSIDE = -1  # no row is being solved: the child reads or checks the batch
OUTSIDE_SECONDS = 60.0
LOOK = 0.05  # seconds between two checks of the child

Tick = Callable[[int], None]  # takes the batch position of the row that starts, or OUTSIDE


@dataclass(frozen=True)
class Allowance:
    """The limits of a row: seconds for all its methods, and bytes of its process."""

    seconds: float
    memory: float | None = None

    @classmethod
    def of(cls, time_limit: float, methods: int, gigabytes: float | None) -> Allowance:
        """Return the limits, with 10 % and one second more for the solver to stop."""
        return cls(1.1 * time_limit * methods + 1.0, None if gigabytes is None else gigabytes * 1e9)


@dataclass(frozen=True)
class Stopped:
    """The status of a row whose process was stopped or died."""

    status: Literal["timeout", "error"]
    reason: str
    seconds: float


def advance(tick: Tick, positions: Sequence[int], done: int) -> None:
    """Call `tick` for the row after the first `done` ones (used as `progress`)."""
    tick(positions[done] if done < len(positions) else OUTSIDE)


class _Died(Exception):
    """The child has ended; `stopped` is set if the worker killed it."""

    def __init__(self, at: int, seconds: float, how: str, stopped: Stopped | None = None) -> None:
        self.at, self.seconds, self.how, self.stopped = at, seconds, how, stopped


def guarded(
    work: Callable[[list[int], Tick], Any], batches: Iterable[Sequence[int]], allowance: Allowance
) -> Iterator[tuple[list[int], Any]]:
    """Yield each batch with its result, or `Stopped` for a row that failed.

    `work` runs in the child, calls `tick` when it starts a row, and returns a value that can be
    pickled. A batch in which a row was stopped is returned in several parts.
    """
    todo = deque(list(batch) for batch in batches if len(batch))
    if not GUARDED:
        yield from ((batch, work(batch, lambda at: None)) for batch in todo)
        return
    deaths: Counter[int] = Counter()
    while todo:
        with closing(_Child(work, list(todo), allowance)) as child:
            try:
                for result in child.results():
                    yield todo.popleft(), result
            except _Died as died:
                batch = todo.popleft()
                at = died.at if died.at != OUTSIDE else 0 if len(batch) == 1 else None
                if at is None:
                    half = len(batch) // 2
                    todo.extendleft([batch[half:], batch[:half]])
                    continue
                row, others = batch[at], [part for part in (batch[at + 1 :], batch[:at]) if part]
                deaths[row] += 1
                if died.stopped is None and deaths[row] <= ROW_RETRIES:
                    count_retry("row")
                    todo.extendleft([*others, [row]])
                    continue
                todo.extendleft(others)
                crashed = Stopped("error", f"the solver's process died twice: {died.how}", died.seconds)
                yield [row], died.stopped or crashed


class _Child:
    """A forked process that works through the batches, and the memory shared with it."""

    def __init__(self, work: Callable[..., Any], batches: list[list[int]], allowance: Allowance) -> None:
        self.allowance = allowance
        self.left = len(batches)
        # row, its start, seconds spent compiling, start of compiling: each write is atomic
        self.now = np.frombuffer(mmap.mmap(-1, 32), dtype=np.float64)
        self.now[:] = 0.0, time.monotonic(), 0.0, 0.0
        self.pipe, inner = Pipe(duplex=False)
        parent = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads: the child uses none
            self.pid = os.fork()
        if self.pid == 0:
            _live(work, batches, self.now, inner, parent)
        inner.close()

    def results(self) -> Iterator[Any]:
        while self.left:
            while not self.pipe.poll(LOOK):
                self._look()
            try:
                fine, value = self.pipe.recv()
            except (EOFError, OSError):
                raise self._died() from None
            if not fine:
                raise value
            self.left -= 1
            yield value

    def _look(self) -> None:
        compiling_since, compiled, since, at = (float(v) for v in self.now[::-1])
        now = time.monotonic()
        seconds = now - since - compiled - (now - compiling_since if compiling_since else 0.0)
        more = OUTSIDE_SECONDS if at == OUTSIDE else 0.0
        if seconds > self.allowance.seconds + more:
            reason = f"the solver did not stop at its time limit and was stopped after {seconds:.1f} s"
            raise self._died(Stopped("timeout", reason, seconds))
        limit = self.allowance.memory
        if limit is not None and (used := _private_bytes(self.pid)) > limit:
            reason = f"memory limit: the solver's process held {used / 1e9:.2f} GB of {limit / 1e9:g} GB"
            raise self._died(Stopped("error", reason, seconds))

    def _died(self, stopped: Stopped | None = None) -> _Died:
        if stopped is not None:
            os.kill(self.pid, signal.SIGKILL)
        _, code = os.waitpid(self.pid, 0)
        self.pid = 0
        how = f"exit code {os.WEXITSTATUS(code)}"
        if os.WIFSIGNALED(code):
            how = signal.Signals(os.WTERMSIG(code)).name
        return _Died(int(self.now[0]), time.monotonic() - float(self.now[1]), how, stopped)

    def close(self) -> None:
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        self.pipe.close()


def _live(
    work: Callable[..., Any], batches: list[list[int]], now: np.ndarray, pipe: Connection, parent: int
) -> None:
    """Run the child. It must not use Ray, whose threads were not forked."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: never outlive the worker
        gc.freeze()  # only the worker may destroy the worker's objects
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        _stop_the_clock_while_compiling(now)

        def tick(at: int) -> None:
            now[1] = time.monotonic()
            now[2] = 0.0
            now[0] = at

        for batch in batches:
            tick(0)
            if os.getppid() != parent:
                break
            pipe.send((True, work(batch, tick)))
        code = 0
    except BaseException as error:
        _send_error(pipe, error)
    finally:
        os._exit(code)


def _send_error(pipe: Connection, error: BaseException) -> None:
    try:
        pipe.send((False, error))
    except Exception:  # the error cannot be pickled
        pipe.send((False, RuntimeError(f"{type(error).__name__}: {error}")))


def _stop_the_clock_while_compiling(now: np.ndarray) -> None:
    """Exclude numba's compilation from the row's time.

    It can exceed a small time limit.
    """
    from numba.core import event

    begins: list[float] = []

    class Clock(event.Listener):
        def on_start(self, _: Any) -> None:
            begins.append(time.monotonic())
            if len(begins) == 1:  # nested events: a kernel compiles the kernels it calls
                now[3] = begins[0]

        def on_end(self, _: Any) -> None:
            begin = begins.pop()
            if not begins:
                now[2] += time.monotonic() - begin
                now[3] = 0.0

    event.register("numba:compile", Clock())  # type: ignore[no-untyped-call]


def _private_bytes(pid: int) -> int:
    """Return a process's private memory, without mapped files and Ray's object store."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            resident, shared = (int(v) for v in file.read().split()[1:3])
    except (OSError, ValueError):  # the process has ended; reading the pipe reports it
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
