"""Watch the start of Ray: log its output, and print one line if it fails.

Ray's C++ code may wait forever for a raylet that cannot start workers, or end this process without a
message. Python's main thread cannot prevent either. So a thread ends a start that takes too long, and a
forked child prints the line if this process dies before Ray is up.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ..terminal.progress import keeping_stderr
from .signals import asked_to_stop, stopped_line

LIMIT = 180.0  # seconds; Ray itself gives up on a node after 30 and on a cluster after 60
STOP_LIMIT = 20.0  # seconds that a start may still take after the run was asked to stop


@contextmanager
def watched(log: str) -> Iterator[None]:
    """Send output to `log`.

    Print one line if the start never ends or kills the process.
    """
    line = f"robustcf: Ray did not start on this machine (its log: {log}); check `ulimit -a`\n"
    stderr = os.dup(2)
    ours, theirs = os.pipe()
    speaker = _fork_speaker(ours, theirs, line)
    os.close(ours)
    done = threading.Event()
    threading.Thread(target=_watch, args=(done, stderr, theirs, line), daemon=True).start()
    try:
        with keeping_stderr(), output_to(log):
            yield
    finally:
        done.set()
        os.write(theirs, b"up")
        os.close(theirs)
        os.close(stderr)
        os.waitpid(speaker, 0)


def _fork_speaker(ours: int, theirs: int, line: str) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads: the child uses none
        speaker = os.fork()
    if speaker == 0:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.close(theirs)
        if not os.read(ours, 1):
            os.write(2, line.encode())
        os._exit(0)
    return speaker


def _watch(done: threading.Event, stderr: int, theirs: int, line: str) -> None:
    waited = stopping = 0.0
    while not done.wait(1.0):
        waited += 1.0
        stopping += asked_to_stop()
        if waited < LIMIT and stopping < STOP_LIMIT:
            continue
        os.write(theirs, b"x")
        os.write(stderr, (stopped_line() + "\n" if stopping else line).encode())
        os._exit(143 if stopping else 1)


@contextmanager
def output_to(path: str) -> Iterator[None]:
    """Redirect stdout and stderr of this process and its children to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    with open(path, "ab") as log:
        kept = [os.dup(number) for number in (1, 2)]
        try:
            for number in (1, 2):
                os.dup2(log.fileno(), number)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, number)
                os.close(copy)
