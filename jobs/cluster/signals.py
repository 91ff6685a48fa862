"""Stop a run early: record signals and raise them where it is safe.

A signal handler must not raise inside Ray, and Ray installs its own handlers when it starts. So a
command blocks SIGTERM and SIGINT before any library starts a thread. One thread of this module waits
for them, and no handler ever runs. Every loop that waits calls `stop_if_asked`, which raises where it
is safe. If threads already exist (in a notebook or a test), a handler records the signals instead.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")
STOPPED = "robustcf: stopped; finished work is kept; run the same command to resume"
STOPPED_EARLY = "robustcf: stopped; nothing was stored"
SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOK = 0.2  # seconds between two checks whether the waiting thread is still needed
_ASKED = threading.Event()  # a parallel run has failed
_reason: list[BaseException] = []  # why this process must stop, in order of arrival
_kept = threading.Event()  # a later run of the same command can resume
_blocked = threading.Event()  # this process blocks the signals; its children must not


class Terminated(BaseException):
    """SIGTERM arrived: systemd, Kubernetes or a scheduler stops the job."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Record SIGTERM and Ctrl-C in this context.

    `stop_if_asked` or the exit raises them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _waiting_for_signals() if _blocked.is_set() or _alone() else _handling_signals():
        try:
            yield
            stop_if_asked()
        except BaseException as error:
            if _reason and error is not _reason[0]:
                raise _reason[0] from error  # the error may only follow from Ray's stopped processes
            raise
        finally:
            _reason.clear()


@contextmanager
def at_once() -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end the process in this context, also inside compiled code.

    It is for work that stores nothing before it ends: Python's own handler would wait until a solver returns.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def work_is_kept() -> None:
    """Note that finished work is stored, so that the same command can resume it."""
    _kept.set()


def stopped_line() -> str:
    """Return the line that a stopped command prints."""
    return STOPPED if _kept.is_set() else STOPPED_EARLY


@contextmanager
def _waiting_for_signals() -> Iterator[None]:
    if _blocked.is_set():  # a nested call
        yield
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    _blocked.set()
    waiting = threading.Thread(target=_wait, name="signals", daemon=True)
    waiting.start()
    try:
        yield
    finally:
        _blocked.clear()
        waiting.join()
        for number, handler in handlers.items():  # Ray has replaced them
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _wait() -> None:
    while _blocked.is_set():
        found = signal.sigtimedwait(SIGNALS, LOOK)
        if found is None:
            continue
        if found.si_signo == signal.SIGINT and any(isinstance(r, KeyboardInterrupt) for r in _reason):
            os._exit(130)  # the second Ctrl-C ends the process at once
        _note(found.si_signo, None)


@contextmanager
def _handling_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    listen()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def listen() -> None:
    """Install the handlers again, because Ray has replaced them."""
    if threading.current_thread() is threading.main_thread() and not _blocked.is_set():
        for number in SIGNALS:
            signal.signal(number, _note)


def _note(number: int, frame: FrameType | None) -> None:
    _reason.append(KeyboardInterrupt() if number == signal.SIGINT else Terminated())


def _alone() -> bool:
    """Whether this process has one thread.

    Then no other thread can receive the signals.
    """
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def _unblock() -> None:
    if _blocked.is_set():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unblock)


def ask_to_stop(reason: BaseException) -> None:
    """Let the next call of `stop_if_asked`, in any thread, raise this exception."""
    _reason.append(reason)


def side_by_side(runs: Iterable[Callable[[], T]], at_once: int) -> Iterator[T]:
    """Run functions in `at_once` threads and yield their results.

    The first failure stops all.

    Each function must call `stop_if_asked` regularly while it waits.
    """
    pool = ThreadPoolExecutor(at_once)
    try:
        for future in as_completed([pool.submit(run) for run in runs]):
            yield future.result()
    except BaseException:
        _ASKED.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        _ASKED.clear()


def asked_to_stop() -> bool:
    """Whether `stop_if_asked` would raise because of a signal or a lost folder."""
    return bool(_reason)


def stop_if_asked() -> None:
    """Raise if a signal arrived, the run lost its folder, or a parallel run failed."""
    if _reason:
        raise _reason[0]
    if _ASKED.is_set():
        raise Terminated
