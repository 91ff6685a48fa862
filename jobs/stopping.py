"""How a run ends early: SIGTERM as Ctrl-C, and runs side by side that end together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")
_ASKED = threading.Event()


class Terminated(BaseException):
    """systemd, Kubernetes or a scheduler wants the job to end."""


@contextmanager
def terminable() -> Iterator[None]:
    """While this lasts, SIGTERM raises `Terminated`: Ray's own handler prints a crash instead."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


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
    """Raise `Terminated` where a run beside this one has failed or was stopped."""
    if _ASKED.is_set():
        raise Terminated


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
