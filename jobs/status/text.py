"""The state of a run as lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from ..terminal.progress import duration
from .status import Status


def lines(found: Status) -> Iterator[str]:
    """Yield the lines that `robustcf status` prints."""
    yield f"{found.kind} {found.run}: {_state(found)}"
    if not found.shards:
        return
    validated = "" if found.validated is None else f", {found.validated:,} validated"
    yield f"  shards: {found.explained:,} of {found.shards:,} explained{validated}"
    total = "" if found.customers is None else f" of {found.customers:,}"
    yield f"  customers explained: {found.customers_done:,}{total}{_rate(found)}"
    if found.rows:
        yield "  rows: " + ", ".join(f"{name} {count:,}" for name, count in found.rows.items())
    if found.failures:
        yield "  without an answer: " + ", ".join(f"{name} {n:,}" for name, n in found.failures.items())
    if found.slowest:
        yield "  slowest: " + ", ".join(f"{name} {seconds:.2g} s" for name, seconds in found.slowest)


def _state(found: Status) -> str:
    if found.state == "complete":
        return "complete"
    if found.state == "running":
        return f"running, {found.stage} ({found.holder})"
    return f"stopped while {found.stage}; run the same command to resume"


def _rate(found: Status) -> str:
    if found.customers_per_second is None:
        return ""
    left = "" if found.seconds_left is None else f", about {duration(found.seconds_left)} left, an estimate"
    return f" ({found.customers_per_second:,.3g} per second{left})"
