"""The page of a history: key figures of many audits in a row, what changed, and which promises broke."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robustcf.report import svg
from robustcf.report.figures import Figure
from robustcf.report.method_line import Estimate
from robustcf.report.page import rendered
from robustcf.report.svg_time import Line, timeline
from robustcf.report.words import count, share_of, with_interval

SHARES = ("denial_rate", "without_recourse", "unproved", "validity", "survival")
TITLES = {
    "denial_rate": "Customers who were denied",
    "without_recourse": "Denied customers without recourse",
    "validity": "Changes that still work after retraining (validity)",
    "survival": "Earlier promises that still work with the new model",
    "distance": "Mean distance of a change",
    "seconds": "Time of work, in seconds",
}
OWN = ("denial_rate", "seconds")  # figures of a run, not of a method
CHANGES = {"M": "the model was retrained or replaced", "S": "the schema changed (columns or rules)"}


@dataclass(frozen=True)
class Night:
    """One run: when it began, what changed since the run before, and its figures by method."""

    run: str
    when: str
    customers: int
    denied: int
    model_changed: bool
    schema_change: str  # "", "scaling", "rules" or "columns"
    alarms: str | None  # "ok", "warn", "fail", or None without limits
    figures: Mapping[str, Mapping[str, Estimate]]  # by method, then by figure

    @property
    def letters(self) -> str:
        """The changes as letters of `CHANGES`; a refitted scaler alone is part of a new model."""
        return "M" * self.model_changed + "S" * (self.schema_change in ("rules", "columns"))


@dataclass(frozen=True)
class Broken:
    """The promises of one method that a new model broke; `customers` names some of them."""

    number: int
    run: str
    method: str
    given: int
    broken: int
    customers: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True)
class History:
    """All values of the page; `methods` are those that it follows, the strictest one first."""

    made: str
    methods: tuple[str, ...]
    nights: tuple[Night, ...]
    broken: tuple[Broken, ...]

    @property
    def retrainings(self) -> int:
        return sum(night.model_changed for night in self.nights)


def render_history(history: History) -> str:
    """Return the page as text: one HTML document that needs no network."""
    return rendered(
        "history.html.j2", history=history, figures=_figures(history), changes=CHANGES, said=broken_share
    )


def _figures(history: History) -> list[Figure]:
    made = []
    for name in TITLES:
        methods = history.methods[:1] if name in OWN else history.methods
        lines = [
            Line(k, [night.figures.get(method, {}).get(name, Estimate()) for night in history.nights])
            for k, method in enumerate(methods)
        ]
        lines = [line for line in lines if any(e.value is not None for e in line.values)]
        if lines:
            made.append(_figure(name, history, [methods[line.series] for line in lines], lines))
    return made


def _figure(name: str, history: History, methods: Sequence[str], lines: Sequence[Line]) -> Figure:
    title, form = TITLES[name], "share" if name in SHARES else "number"
    rows = tuple(
        (
            f"{k + 1}  {night.when}",
            night.letters or "–",
            *(_said(name, line.values[k], form) for line in lines),
        )
        for k, night in enumerate(history.nights)
    )
    marks = [(k, night.letters) for k, night in enumerate(history.nights) if night.letters]
    said = "; ".join(f"run {row[0]}: {', '.join(row[2:])}" for row in rows)
    heads = ("value",) if name in OWN else tuple(methods)
    keys = zip([svg.key_of(line.series) for line in lines], methods, strict=True)
    return Figure(
        title,
        timeline(f"h-{name}", title, said, lines, marks, form == "share"),
        () if name in OWN else tuple(keys),
        ("run", "changed", *heads),
        rows,
    )


def _said(name: str, estimate: Estimate, form: str) -> str:
    if name == "seconds":
        return "–" if estimate.value is None else f"{estimate.value:,.1f}"
    return with_interval(estimate, form)


def broken_share(row: Broken) -> str:
    """Return how many promises broke, in words."""
    return f"{count(row.broken)} of {count(row.given)} ({share_of(row.broken, row.given)})"
