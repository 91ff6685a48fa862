"""Show progress: a live bar on a terminal, otherwise JSON lines.

A stage says something within `FIRST` seconds and then at least every `INTERVAL` seconds, also while nothing
advances. A thread of its own does this, so that a driver that waits is not silent.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from ..cluster.signals import stop_if_asked
from ..inputs.errors import one_line

FIRST, INTERVAL = 1.0, 4.0  # seconds until the first line, and between two lines
PATIENCE = 2.0  # seconds that the line of an outer stage waits longer than those of the stages in it


class _Lines:
    """The lines of this process on stderr, and when the last one was written."""

    lock = threading.Lock()
    last = 0.0
    kept: TextIO | None = None  # the real stderr while fd 2 leads to a log

    @classmethod
    def write(cls, line: str) -> None:
        with cls.lock:
            cls.last = time.monotonic()
            print(line, file=cls.kept or sys.stderr, flush=True)


@contextmanager
def keeping_stderr() -> Iterator[None]:
    """Let progress lines reach stderr although fd 2 is about to lead to a log."""
    with open(os.dup(2), "w", encoding="utf-8") as real:
        _Lines.kept = real
        try:
            yield
        finally:
            _Lines.kept = None


class Stage:
    """One stage of a run: how much is done of the total, in `unit`, and the answers by status."""

    def __init__(self, name: str, total: int, unit: str = "") -> None:
        self.name, self.total, self.done, self.unit = name, total, 0, unit
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
            "total": self.total or None,
            **({"unit": self.unit} if self.unit else {}),
            "per_second": round(self.rate, 2),
            "estimated_seconds_left": None if left is None else round(max(left, 0.0), 1),
            **({"answers": dict(sorted(self.counts.items()))} if self.counts else {}),
        }


class _JsonStage(Stage):
    """Writes a line when it is time, also while nothing advances."""

    patience = 0.0

    def show(self, last: bool = False) -> None:
        if last or time.monotonic() - max(_Lines.last, self.begin) >= INTERVAL + self.patience:
            _Lines.write(json.dumps(self.record()))

    @contextmanager
    def ticking(self) -> Iterator[None]:
        ended = threading.Event()
        thread = threading.Thread(target=self._tick, args=(ended,), name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _tick(self, ended: threading.Event) -> None:
        if not ended.wait(FIRST):
            self.show(last=not self.patience or _Lines.last < self.begin)
        while not ended.wait(0.5):
            self.show()


class _OuterStage(_JsonStage):
    """Speaks only while the stages in it are silent."""

    patience = PATIENCE

    def record(self) -> dict[str, Any]:
        return {"stage": self.name, "seconds": round(time.monotonic() - self.begin, 1)}


class _BarStage(Stage):
    def __init__(self, name: str, total: int, unit: str, bar: Progress) -> None:
        super().__init__(name, total, unit)
        self.bar, self.task = bar, bar.add_task(name, total=total or None, counts="", rate=unit)

    def show(self, last: bool = False) -> None:
        most = self.counts.most_common(4)
        counts = "answers: " + ", ".join(f"{k} {v:,}" for k, v in most) if most else ""
        rate = f"{self.unit} {self.rate:,.1f}/s".strip()
        self.bar.update(self.task, completed=self.done, counts=counts, rate=rate)

    def leave(self) -> None:
        """Print a finished stage as one line while other stages still run."""
        with _Display.lock:
            if _Display.stages > 1:
                self.bar.remove_task(self.task)
                self.bar.console.print(f"{self.name}: {self.done:,} done", markup=False, highlight=False)


class _TimeLeft(ProgressColumn):
    """The time left, labelled as the estimate that it is."""

    def render(self, task: Task) -> Text:
        if not task.total or not task.completed or task.finished or task.elapsed is None:
            return Text("")
        left = task.elapsed * (task.total - task.completed) / task.completed
        return Text(f"about {duration(left)} left (estimate)", style="dim")


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
            _Lines.write(json.dumps({"waiting_for": lacking, "pending": pending}))


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
def stage(name: str, total: int, unit: str = "") -> Iterator[Stage]:
    """Show the progress of one stage on stderr, so that stdout holds only results."""
    stop_if_asked()
    console = Console(stderr=True)
    if not console.is_terminal:
        quiet = _JsonStage(name, total, unit)
        with quiet.ticking():
            yield quiet
        quiet.show(last=True)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        _TimeLeft(),
        TextColumn("{task.fields[counts]}", style="dim", markup=False),
    )
    with _shared_display(Progress(*columns, console=console)) as bar:
        made = _BarStage(name, total, unit, bar)
        yield made
        made.leave()


@contextmanager
def outer_stage(name: str) -> Iterator[None]:
    """Say what is happening while no stage in this context does."""
    stop_if_asked()
    if Console(stderr=True).is_terminal:
        if _Display.bar is None:
            _Lines.write(f"{name} ...")
        yield
        return
    with _OuterStage(name, 0).ticking():
        yield


def duration(seconds: float) -> str:
    """Return a duration for people.

    >>> duration(1), duration(40), duration(3000), duration(10_000)
    ('1 second', '40 seconds', '50 minutes', '2.8 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} second{'' if round(seconds) == 1 else 's'}"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
