"""Wait for Ray's processes to end before Ray's folder is removed.

A worker that starts while Ray shuts down outlives its raylet for a moment. It then creates Ray's
folder again, readable by everyone. So this process adopts orphaned descendants while its own Ray runs
(Linux only), and can wait for all of them.
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

END_LIMIT = 5.0  # seconds until the remaining processes are killed
LOOK = 0.05
_SET_CHILD_SUBREAPER = 36  # of Linux' prctl


@contextmanager
def outliving_descendants() -> Iterator[None]:
    """On exit, wait until all descendants started in this context have ended."""
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
    """Return the ids of this process's running descendants."""
    parents = {int(path.name): _parent(path) for path in Path("/proc").glob("[0-9]*")}
    found: set[int] = set()
    newest = {os.getpid()}
    while newest:
        newest = {pid for pid, parent in parents.items() if parent in newest} - found
        found |= newest
    return found


def _parent(process: Path) -> int | None:
    """Return a process's parent, or None if the process has ended (zombies included)."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[1])
