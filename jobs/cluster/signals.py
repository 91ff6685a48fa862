"""How a run ends early: signals are noted and looked at, and runs side by side end together.

A signal handler must not raise inside Ray, and Ray installs handlers of its own while it starts. So a
command blocks SIGTERM and SIGINT before any library has started a thread, and a thread of ours waits for
them: no handler ever runs. `stop_if_asked`, called in every loop that waits, raises where it is safe.
Where threads are there already (a notebook, a test), a handler notes the signals instead.
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
LOOK = 0.2  # seconds between two looks whether the waiting thread is still needed
_ASKED = threading.Event()  # a run beside this one has ended
_reason: list[BaseException] = []  # why this process is to stop, the first reason first
_blocked = threading.Event()  # this process has blocked the signals; its children must not


class Terminated(BaseException):
    """systemd, Kubernetes or a scheduler wants the job to end."""


@contextmanager
def stoppable() -> Iterator[None]:
    """While this lasts, SIGTERM and Ctrl-C are noted, and raised by `stop_if_asked` or at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _waiting_for_signals() if _blocked.is_set() or _alone() else _handling_signals():
        try:
            yield
            stop_if_asked()
        except BaseException as error:
            if _reason and error is not _reason[0]:
                raise _reason[0] from error  # whoever stopped us may have stopped Ray's processes too
            raise
        finally:
            _reason.clear()


@contextmanager
def _waiting_for_signals() -> Iterator[None]:
    if _blocked.is_set():  # a command within a command
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
        for number, handler in handlers.items():  # Ray has put its own in their place
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _wait() -> None:
    while _blocked.is_set():
        found = signal.sigtimedwait(SIGNALS, LOOK)
        if found is None:
            continue
        if found.si_signo == signal.SIGINT and any(isinstance(r, KeyboardInterrupt) for r in _reason):
            os._exit(130)  # the second Ctrl-C: somebody does not want to wait
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
    """Take the signals back where they are handled: Ray has installed handlers of its own."""
    if threading.current_thread() is threading.main_thread() and not _blocked.is_set():
        for number in SIGNALS:
            signal.signal(number, _note)


def _note(number: int, frame: FrameType | None) -> None:
    _reason.append(KeyboardInterrupt() if number == signal.SIGINT else Terminated())


def _alone() -> bool:
    """Whether this process has one thread only, so that none takes a signal that is blocked here."""
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
