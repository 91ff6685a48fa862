"""Figures of a run for Prometheus, through Ray's own metrics.

Every process of a run adds to them, and each node of the cluster serves them on its metrics port, with Ray's
prefix `ray_`. Ray does not tell a task's attempts apart; its own metric `ray_tasks` counts those that were
started again because a worker or a node was lost (`IsRetry="1"`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

Kind = Literal["Counter", "Gauge", "Histogram"]
SECONDS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0]


@dataclass(frozen=True)
class Figure:
    """One metric: its name in Ray, and the names of its tags."""

    name: str
    kind: Kind
    description: str
    tags: tuple[str, ...] = ()

    @property
    def exported(self) -> str:
        """The name in Prometheus; a histogram's series also end in `_bucket`, `_sum` or `_count`."""
        return f"ray_{self.name}_total" if self.kind == "Counter" else f"ray_{self.name}"


ROWS = Figure("robustcf_rows", "Counter", "Rows (customer and method) that have a status.", ("status",))
SOLVING = Figure("robustcf_solve_seconds", "Histogram", "Seconds of solving a row.")
RETRIES = Figure("robustcf_retries", "Counter", "What was tried again after a failure.", ("what",))
PENDING = Figure("robustcf_pending_tasks", "Gauge", "Tasks that run or wait for a CPU.")
FIGURES = (ROWS, SOLVING, RETRIES, PENDING)


def count_rows(counts: Mapping[str, int]) -> None:
    """Count the rows of a shard by status."""
    for status, rows in counts.items():
        if rows and (metric := _metric(ROWS)) is not None:
            metric.inc(rows, {"status": status})


def observe_solving(seconds: Iterable[float]) -> None:
    """Add the seconds of solved rows."""
    if (metric := _metric(SOLVING)) is not None:
        for value in seconds:
            metric.observe(value)


def count_retry(what: Literal["row", "storage"]) -> None:
    """Count a row whose solver's process died, or a task or call that met a temporary storage error."""
    if (metric := _metric(RETRIES)) is not None:
        metric.inc(1, {"what": what})


def set_pending(tasks: int) -> None:
    """Store the number of pending tasks."""
    if (metric := _metric(PENDING)) is not None:
        metric.set(tasks)


def _metric(figure: Figure) -> Any:
    """Return Ray's metric; None in a process that does not use Ray."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    return _made(figure)


@cache
def _made(figure: Figure) -> Any:
    from ray.util import metrics

    options: dict[str, Any] = {"description": figure.description, "tag_keys": figure.tags}
    if figure.kind == "Histogram":
        options["boundaries"] = SECONDS
    return getattr(metrics, figure.kind)(figure.name, **options)
