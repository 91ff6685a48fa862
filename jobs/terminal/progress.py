"""Show progress: a live bar on a terminal, otherwise one JSON line per interval."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..cluster.signals import stop_if_asked
from ..inputs.errors import one_line

INTERVAL = 10.0


class Stage:
    """One stage of a run: rows done, total, and counts by status."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total, self.done = name, total, 0
        self.counts: Counter[str] = Counter()
        self.begin = time.monotonic()

    def advance(self, rows: int, counts: Mapping[str, int] | None = None) -> None:
        self.done += rows
        self.counts.update(counts or {})
        self.show()
        stop_if_asked()

    def show(self, last: bool = False) -> None:
        pass

    @property
    def rate(self) -> float:
        return self.done / max(time.monotonic() - self.begin, 1e-9)

    def record(self) -> dict[str, Any]:
        left = (self.total - self.done) / self.rate if self.done and self.total else None
        return {
            "stage": self.name,
            "done": self.done,
            "total": self.total,
            "per_second": round(self.rate, 2),
            "seconds_left": None if left is None else round(max(left, 0.0), 1),
            "counts": dict(sorted(self.counts.items())),
        }


class _JsonStage(Stage):
    _shown = 0.0

    def show(self, last: bool = False) -> None:
        now = time.monotonic()
        if last or now - max(self._shown, self.begin) >= INTERVAL:
            self._shown = now
            print(json.dumps(self.record()), file=sys.stderr, flush=True)


class _BarStage(Stage):
    def __init__(self, name: str, total: int, bar: Progress) -> None:
        super().__init__(name, total)
        self.bar, self.task = bar, bar.add_task(name, total=total or None, counts="", rate="")

    def show(self, last: bool = False) -> None:
        counts = " ".join(f"{k} {v:,}" for k, v in self.counts.most_common(4))
        self.bar.update(self.task, completed=self.done, counts=counts, rate=f"{self.rate:,.1f}/s")

    def leave(self) -> None:
        """Print a finished stage as one line while other stages still run."""
        with _Display.lock:
            if _Display.stages > 1:
                self.bar.remove_task(self.task)
                self.bar.console.print(f"{self.name}: {self.done:,} done", markup=False, highlight=False)


class _Display:
    """The process's only live display; it exists while any stage is shown."""

    lock = threading.RLock()
    bar: Progress | None = None
    stages = 0


def warn(message: str) -> None:
    """Print a warning on stderr, as one line without secrets."""
    print(f"robustcf: warning: {one_line(message)}", file=sys.stderr, flush=True)


def say_waiting(lacking: str, pending: int) -> None:
    """Say on stderr what the run waits for, above the live display if there is one."""
    with _Display.lock:
        if _Display.bar is not None:
            line = f"waiting for {lacking} ({pending:,} tasks pending)"
            _Display.bar.console.print(line, markup=False, highlight=False)
        else:
            print(json.dumps({"waiting_for": lacking, "pending": pending}), file=sys.stderr, flush=True)


@contextmanager
def _shared_display(fresh: Progress) -> Iterator[Progress]:
    """Share one live display among concurrent stages; rich allows only one per terminal."""
    with _Display.lock:
        if _Display.bar is None:
            _Display.bar = fresh
            fresh.start()
        bar, _Display.stages = _Display.bar, _Display.stages + 1
    try:
        yield bar
    finally:
        with _Display.lock:
            _Display.stages -= 1
            if not _Display.stages:
                bar.stop()
                _Display.bar = None


@contextmanager
def stage(name: str, total: int) -> Iterator[Stage]:
    """Show the progress of one stage on stderr, so that stdout holds only results."""
    stop_if_asked()
    console = Console(stderr=True)
    if not console.is_terminal:
        quiet = _JsonStage(name, total)
        yield quiet
        quiet.show(last=True)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[counts]}", style="dim", markup=False),
    )
    with _shared_display(Progress(*columns, console=console)) as bar:
        made = _BarStage(name, total, bar)
        yield made
        made.leave()
