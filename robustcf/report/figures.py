"""The report's figures: each has a drawing, a legend and a table of the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from robustcf.report import svg
from robustcf.report.content import SMALL, Population, Survival
from robustcf.report.method_line import Estimate, MethodLine, Outcomes
from robustcf.report.words import count, number, share, share_of, with_interval

MOST_LEVERS = 10
Line = tuple[str, ...]


@dataclass(frozen=True)
class Figure:
    """A drawing and its text alternative."""

    title: str
    drawing: Markup
    legend: tuple[tuple[Markup, str], ...]
    head: Line
    lines: tuple[Line, ...]
    note: str = ""


def _swatch(style: str) -> Markup:
    inside = svg.tag("rect", x=1.0, y=1.0, width=12.0, height=12.0, class_=style)
    return svg.tag("svg", inside, viewBox="0 0 14 14", class_="key", aria_hidden="true")


def outcomes(key: str, rows: Sequence[Outcomes]) -> Figure:
    """Draw the denied customers by outcome, one bar per question."""
    names: Line = ("has an answer", "proved to have none", "unresolved", "not certified")
    styles: Line = ("part good", "part none", "part open", "part lost")
    kinds = len(names) if any(o.uncertified for o in rows) else 3
    names, styles = names[:kinds], styles[:kinds]
    numbers = [(o.reached, o.none, o.unresolved, o.uncertified)[:kinds] for o in rows]
    drawn = [
        (
            f"{o.question}: {count(o.reached)} of {count(o.total)}",
            [svg.Part(v, s) for v, s in zip(own, styles, strict=True)],
        )
        for o, own in zip(rows, numbers, strict=True)
    ]
    said = "; ".join(
        f"{o.question}: " + ", ".join(f"{name}: {count(v)}" for name, v in zip(names, own, strict=True))
        for o, own in zip(rows, numbers, strict=True)
    )
    title = "Denied customers by outcome"
    return Figure(
        title,
        svg.stacked(key, title, said, drawn),
        tuple(zip(map(_swatch, styles), names, strict=True)),
        ("question", *names, "all denied"),
        tuple((o.question, *map(count, own), count(o.total)) for o, own in zip(rows, numbers, strict=True)),
    )


def price(key: str, methods: Sequence[MethodLine], scenario: str) -> Figure | None:
    """Draw mean distance against measured validity, with the Pareto front."""
    shown = []
    for i, m in enumerate(methods):
        v = m.under(scenario)
        if v is not None and v.all.value is not None and m.distance.value is not None:
            shown.append((i, m, v))
    if not shown:
        return None
    marks = [
        svg.Mark(
            i,
            m.distance.value or 0.0,
            m.distance.low,
            m.distance.high,
            y=v.all.value or 0.0,
            y_low=v.all.low,
            y_high=v.all.high,
            label=str(i + 1),
        )
        for i, m, v in shown
    ]
    front = [k for k, (_, _, v) in enumerate(shown) if v.pareto]
    title = f"Distance against validity, scenario “{scenario}”"
    said = "; ".join(
        f"{m.title}: distance {number(m.distance.value)}, valid in {share(v.all.value)}" for _, m, v in shown
    )
    return Figure(
        title,
        svg.scatter(
            key,
            title,
            said,
            marks,
            front,
            ("mean distance (nearer is better)", "still valid after retraining"),
        ),
        tuple((svg.key_of(i), f"{i + 1}  {m.title}") for i, m, _ in shown),
        ("method", "mean distance", "validity", "on the front"),
        tuple(
            (
                m.title,
                with_interval(m.distance),
                with_interval(v.all, "share"),
                "yes" if v.pareto else "no",
            )
            for _, m, v in shown
        ),
        "Bars are 95 % intervals. The dashed line joins the methods that no other method dominates, on the "
        "customers whom all methods answer.",
    )


def distances(key: str, methods: Sequence[MethodLine]) -> Figure | None:
    """Draw the mean distance per method, for runs without measured validity."""
    shown = [(i, m) for i, m in enumerate(methods) if m.distance.value is not None]
    if not shown:
        return None
    title = "Mean distance by method"
    rows = [(m.title, [_mark(i, m.distance)]) for i, m in shown]
    said = "; ".join(f"{m.title}: {with_interval(m.distance)}" for _, m in shown)
    return Figure(
        title,
        svg.dots(key, title, said, rows, "mean distance, with 95 % interval"),
        (),
        ("method", "mean distance"),
        tuple((m.title, with_interval(m.distance)) for _, m in shown),
    )


def _mark(series: int, estimate: Estimate, hollow: bool = False) -> svg.Mark:
    return svg.Mark(series, estimate.value or 0.0, estimate.low, estimate.high, hollow)


def levers(key: str, population: Population) -> Figure | None:
    """Draw the features changed most, for naive and the headline method."""
    wanted = population.compared
    index = {m.title: i for i, m in enumerate(population.methods)}
    used = [x for x in population.levers if any(u.answers for u in x.uses if u.method in wanted)]
    most = used[:MOST_LEVERS]
    if not most:
        return None
    rows, lines = [], []
    for lever in most:
        uses = [u for u in lever.uses if u.method in wanted]
        rows.append((lever.label, [(index[u.method], u.share, share(u.share, 0)) for u in uses]))
        lines += [(lever.label, u.method, count(u.answers), share(u.share), u.typical) for u in uses]
    title = "Features changed, as a share of answers"
    said = "; ".join(
        f"{label}: " + ", ".join(f"{words} of {population.methods[s].title}" for s, _, words in series)
        for label, series in rows
    )
    top = max((value for _, series in rows for _, value, _ in series), default=1.0)
    return Figure(
        title,
        svg.bars(key, title, said, rows, top),
        tuple((_swatch(f"fill s{index[m]}"), m) for m in wanted),
        ("feature", "method", "answers", "share of answers", "typical change"),
        tuple(lines),
    )


def changed(key: str, methods: Sequence[MethodLine]) -> Figure | None:
    """Draw the mean number of features that an answer changes."""
    shown = [(i, m) for i, m in enumerate(methods) if m.changed is not None]
    if not shown:
        return None
    title = "Mean number of features changed per answer"
    rows = [(m.title, [(i, m.changed or 0.0, f"{m.changed:.1f}")]) for i, m in shown]
    lines = tuple((m.title, f"{m.changed:.2f}") for _, m in shown)
    said = "; ".join(f"{name}: {value}" for name, value in lines)
    top = max(m.changed or 0.0 for _, m in shown)
    return Figure(title, svg.bars(key, title, said, rows, top), (), ("method", "features changed"), lines)


def calibration(key: str, methods: Sequence[MethodLine], scenario: str) -> Figure | None:
    """Draw predicted validity beside the validity measured by retraining."""
    shown = []
    for i, m in enumerate(methods):
        v = m.under(scenario)
        if v is not None and v.all.value is not None and m.predicted is not None:
            shown.append((i, m, v.all))
    if not shown:
        return None
    title = f"Predicted against measured validity, scenario “{scenario}”"
    rows = [
        (m.title, [_mark(i, measured), svg.Mark(i, m.predicted or 0.0, hollow=True)])
        for i, m, measured in shown
    ]
    lines = tuple(
        (m.title, share(m.predicted), with_interval(measured, "share"), _aim(m)) for _, m, measured in shown
    )
    said = "; ".join(f"{name}: predicted {p}, measured {q}" for name, p, q, _ in lines)
    return Figure(
        title,
        svg.dots(key, title, said, rows, "share of retrained forests that accept the answer", percent=True),
        (),
        ("method", "predicted", "measured", "target 1 − α"),
        lines,
        "Filled marks are measured by retraining, with their 95 % intervals. Hollow marks are predicted from "
        "the explained forest alone; these predictions tend to be optimistic.",
    )


def _aim(method: MethodLine) -> str:
    return "–" if method.alpha is None else share(1 - method.alpha, 0)


def cohorts(key: str, population: Population, cohort: str) -> Figure | None:
    """Draw the mean distance of each group; marks of small groups are hollow."""
    wanted = population.compared
    index = {m.title: i for i, m in enumerate(population.methods)}
    known = ([g for g in gs if g.distance.value is not None] for gs in population.groups_by(cohort))
    by_value = {gs[0].value: gs for gs in known if gs}
    if not by_value:
        return None
    rows = [
        (
            f"{value}  (n = {count(max(g.answers for g in gs))}{', small' if gs[0].small else ''})",
            [_mark(index[g.method], g.distance, g.small) for g in gs],
        )
        for value, gs in by_value.items()
    ]
    title = f"Mean distance by {cohort}"
    said = "; ".join(
        f"{value}: " + ", ".join(f"{g.method} {number(g.distance.value)}" for g in gs)
        for value, gs in by_value.items()
    )
    return Figure(
        title,
        svg.dots(key, title, said, rows, "mean distance, with 95 % interval"),
        tuple((svg.key_of(index[m]), m) for m in wanted),
        ("group", "method", "answers", "mean distance"),
        tuple(
            (value, g.method, count(g.answers) + (" (small)" if g.small else ""), with_interval(g.distance))
            for value, gs in by_value.items()
            for g in gs
        ),
        f"Hollow marks: fewer than {SMALL} answers.",
    )


def survival(key: str, rows: Sequence[Survival]) -> Figure | None:
    """Draw the share of the previous run's recourses that the new forest accepts."""
    shown = [r for r in rows if r.given]
    if not shown:
        return None
    title = "Earlier recourses that still work with the new forest"
    said = "; ".join(f"{r.method}: {count(r.survived)} of {count(r.given)} still work" for r in shown)
    drawn = [
        (
            f"{r.method}: {share_of(r.survived, r.given)} of {count(r.given)}",
            [svg.Part(r.survived, "part good"), svg.Part(r.given - r.survived, "part lost")],
        )
        for r in shown
    ]
    return Figure(
        title,
        svg.stacked(key, title, said, drawn),
        ((_swatch("part good"), "still works"), (_swatch("part lost"), "no longer works")),
        ("method", "earlier recourses", "still work", "share"),
        tuple(
            (r.method, count(r.given), count(r.survived), with_interval(r.interval, "share")) for r in shown
        ),
    )
