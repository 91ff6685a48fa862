"""SIGTERM ends a run as Ctrl-C does: what is done stays, and nothing is left running."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
