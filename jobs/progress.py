"""How far a run is: a live bar on a terminal, one JSON line per interval anywhere else."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

INTERVAL = 10.0


class Stage:
    """One stage: rows done of a total, and counts by status."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total, self.done = name, total, 0
        self.counts: Counter[str] = Counter()
        self.begin = time.monotonic()

    def advance(self, rows: int, counts: Mapping[str, int] | None = None) -> None:
        self.done += rows
        self.counts.update(counts or {})
        self.show()

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


@contextmanager
def stage(name: str, total: int) -> Iterator[Stage]:
    """Progress of one stage, on the error stream: the standard output stays clean."""
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
    with Progress(*columns, console=console) as bar:
        yield _BarStage(name, total, bar)
