"""The processes below this one: Ray's must be gone before its folder is removed.

A worker that is just starting while Ray shuts down outlives its raylet for a moment, and makes Ray's
folder again, open to all. While a Ray of ours runs, orphans below us become our children (Linux), so
that none of them is lost sight of.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

END_LIMIT = 5.0  # seconds for processes to end by themselves
LOOK = 0.05
_SET_CHILD_SUBREAPER = 36  # of Linux' prctl


@contextmanager
def outliving_descendants() -> Iterator[None]:
    """At the end, wait until every process that was started below this one meanwhile is gone."""
    if sys.platform != "linux":
        yield
        return
    before = descendants()
    prctl = ctypes.CDLL(None).prctl
    prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        end = time.monotonic() + END_LIMIT
        while left := descendants() - before:
            if time.monotonic() > end:
                for pid in left:
                    with suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(LOOK)
        prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def descendants() -> set[int]:
    """Processes below this one that still run."""
    parents = {int(path.name): _parent(path) for path in Path("/proc").glob("[0-9]*")}
    found: set[int] = set()
    newest = {os.getpid()}
    while newest:
        newest = {pid for pid, parent in parents.items() if parent in newest} - found
        found |= newest
    return found


def _parent(process: Path) -> int | None:
    """None if the process is gone, or has ended and only waits to be collected."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[1])
