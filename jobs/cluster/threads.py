"""Limit the threads of a worker's solver, BLAS, OpenMP and numba."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
_held: list[IO[str]] = []  # locks on CPUs, held until the process ends


def environment(threads: int) -> dict[str, str]:
    """Return the environment variables that limit a new process's threads."""
    return {name: str(threads) for name in VARIABLES}


@contextmanager
def pinned(threads: int, affinity: bool = False) -> Iterator[None]:
    """Limit the threads of all loaded libraries during a task."""
    import numba
    from threadpoolctl import threadpool_limits

    if affinity and not _held:
        take_cpus(threads)
    numba.set_num_threads(min(threads, int(getattr(numba.config, "NUMBA_NUM_THREADS", 1))))
    with threadpool_limits(limits=threads):
        yield


def take_cpus(count: int) -> list[int]:
    """Bind this process to CPUs that no other worker on this machine uses."""
    folder = Path(tempfile.gettempdir()) / f"robustcf-cpus-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    mine: list[int] = []
    for cpu in sorted(os.sched_getaffinity(0)):
        lock = (folder / str(cpu)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        _held.append(lock)
        mine.append(cpu)
        if len(mine) == count:
            break
    if mine:
        os.sched_setaffinity(0, mine)
    return mine
