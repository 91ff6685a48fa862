"""How a run ends early: signals are noted and looked at, and runs side by side end together.

A signal handler must not raise inside Ray. It notes the signal; `stop_if_asked`, called in every loop
that waits, raises where it is safe.
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
SIGNALS = (signal.SIGTERM, signal.SIGINT)
_ASKED = threading.Event()  # a run beside this one has ended
_reason: list[BaseException] = []  # why this process is to stop, the first reason first
_masked = [False]


class Terminated(BaseException):
    """systemd, Kubernetes or a scheduler wants the job to end."""


@contextmanager
def stoppable() -> Iterator[None]:
    """While this lasts, SIGTERM and Ctrl-C are noted, and raised by `stop_if_asked` or at the end."""
    if not _in_main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    listen()
    try:
        yield
        stop_if_asked()
    except BaseException as error:
        if _reason and error is not _reason[0]:
            raise _reason[0] from error  # whoever stopped us may have stopped Ray's processes too
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        _reason.clear()


def listen() -> None:
    """Take the signals (back: Ray installs handlers of its own)."""
    if _in_main_thread():
        for number in SIGNALS:
            signal.signal(number, _note)


@contextmanager
def signals_held_back() -> Iterator[None]:
    """While this lasts, SIGTERM and Ctrl-C wait; processes that are started meanwhile do not inherit this."""
    if not _in_main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    _masked[0] = True
    try:
        yield
    finally:
        listen()
        _masked[0] = False
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ask_to_stop(reason: BaseException) -> None:
    """Let `stop_if_asked` raise this, in whatever thread calls it next."""
    _reason.append(reason)


def side_by_side(runs: Iterable[Callable[[], T]], at_once: int) -> Iterator[T]:
    """Results of functions that run in threads, a few at once; the first that fails ends all of them.

    Each must call `stop_if_asked` now and then while it waits.
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


def stop_if_asked() -> None:
    """Raise if a signal came, if the run lost its folder, or if a run beside this one has ended."""
    if _reason:
        raise _reason[0]
    if _ASKED.is_set():
        raise Terminated


def _note(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGINT and any(isinstance(r, KeyboardInterrupt) for r in _reason):
        raise KeyboardInterrupt  # the second Ctrl-C: somebody does not want to wait
    _reason.append(KeyboardInterrupt() if number == signal.SIGINT else Terminated())


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _unmask() -> None:
    if _masked[0]:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unmask)
