"""Draw inline SVG charts: stacked bars, bars by series, dots with intervals, a scatter plot.

A chart is 400 units wide, with its labels above the bars, so that it is readable on a phone.
Colours and fonts come from the page's style sheet by class. Series differ in shape and in colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH = 400
LEFT, RIGHT = 8, 12
LABEL, BAR = 14, 12  # heights of a line of text and of a bar
LONGEST = 50  # characters of a label; the table under the figure shows it in full


@dataclass(frozen=True)
class Part:
    """One piece of a stacked bar."""

    value: float
    style: str


@dataclass(frozen=True)
class Mark:
    """A point with an optional interval; hollow if it is uncertain."""

    series: int
    value: float
    low: float | None = None
    high: float | None = None
    hollow: bool = False
    y: float = 0.0
    y_low: float | None = None
    y_high: float | None = None
    label: str = ""


def tag(name: str, *inside: str, **attributes: object) -> Markup:
    """Return an element; attribute `class_` becomes class, and underscores become dashes."""
    pairs = (
        Markup(' {}="{}"').format(k.rstrip("_").replace("_", "-"), _plain(v)) for k, v in attributes.items()
    )
    return Markup("<{0}{1}>{2}</{0}>").format(
        Markup(name), Markup("").join(pairs), Markup("").join(escape(i) for i in inside)
    )


def _plain(value: object) -> object:
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> Markup:
    short = words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
    return tag("text", short, x=float(x), y=float(y), class_=style, text_anchor=anchor)


def chart(key: str, title: str, description: str, height: float, *inside: Markup) -> Markup:
    """Return the drawing with a title and a description for screen readers."""
    return tag(
        "svg",
        tag("title", title, id=f"{key}-title"),
        tag("desc", description, id=f"{key}-desc"),
        *inside,
        viewBox=f"0 0 {WIDTH} {math.ceil(height)}",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
    )


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers that span a range.

    >>> ticks(0.0, 0.23)
    [0.0, 0.05, 0.1, 0.15, 0.2, 0.25]
    """
    raw = max(high - low, 1e-12) / most
    size = 10.0 ** math.floor(math.log10(raw))
    step = next((m * size for m in (1, 2, 2.5, 5) if m * size >= raw * 0.999), 10 * size)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


@dataclass(frozen=True)
class Scale:
    """A function that maps values to positions on an axis."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)


def stacked(key: str, title: str, description: str, rows: Sequence[tuple[str, Sequence[Part]]]) -> Markup:
    """Draw bars of equal length, each divided into parts."""
    drawn: list[Markup] = []
    y = 0.0
    for label, parts in rows:
        drawn.append(text(LEFT, y + LABEL - 3, label, "label"))
        x, whole = float(LEFT), sum(p.value for p in parts) or 1.0
        for part in parts:
            width = part.value / whole * (WIDTH - LEFT - RIGHT)
            if part.value:
                shown = max(width - 1, 1.5)
                drawn.append(
                    tag("rect", x=x, y=y + LABEL + 2, width=shown, height=float(BAR + 4), class_=part.style)
                )
            x += width
        y += LABEL + BAR + 16
    return chart(key, title, description, y, *drawn)


def bars(
    key: str,
    title: str,
    description: str,
    rows: Sequence[tuple[str, Sequence[tuple[int, float, str]]]],
    top: float,
) -> Markup:
    """Draw, for each label, one bar per (series, value, text of the value)."""
    drawn: list[Markup] = []
    y, scale = 0.0, Scale(0.0, top or 1.0, 0.0, WIDTH - LEFT - RIGHT - 50)
    for label, series in rows:
        drawn.append(text(LEFT, y + LABEL - 3, label, "label"))
        y += LABEL + 1
        for number, value, words in series:
            width = max(scale(value), 0.5)
            drawn.append(
                tag("rect", x=float(LEFT), y=y, width=width, height=9.0, rx=1.5, class_=f"fill s{number}")
            )
            drawn.append(text(LEFT + width + 4, y + 8.5, words, "value"))
            y += 11
        y += 9
    return chart(key, title, description, y, *drawn)


def dots(
    key: str,
    title: str,
    description: str,
    rows: Sequence[tuple[str, Sequence[Mark]]],
    axis: str,
    percent: bool = False,
) -> Markup:
    """Draw, for each label, the marks of its series on separate lines of one axis from 0."""
    ends = [v for _, marks in rows for m in marks for v in (m.value, m.high) if v is not None]
    at = ticks(0.0, max(ends, default=1.0) or 1.0)
    scale = Scale(at[0], at[-1], LEFT + 6, WIDTH - RIGHT - 8)
    body: list[Markup] = []
    y = 4.0
    for label, marks in rows:
        body.append(text(LEFT, y + LABEL - 4, label, "label"))
        y += LABEL + 5
        for mark in marks:
            body += _with_ends(mark, scale, y)
            y += 12
        y += 3
    grid = [tag("line", x1=scale(t), x2=scale(t), y1=0.0, y2=y, class_="grid") for t in at]
    names = [text(scale(t), y + 12, f"{100 * t:g} %" if percent else f"{t:g}", "tick", "middle") for t in at]
    return chart(key, title, description, y + 30, *grid, *body, *names, text(LEFT, y + 26, axis, "axis"))


def _with_ends(mark: Mark, scale: Scale, y: float) -> list[Markup]:
    drawn = []
    if mark.low is not None and mark.high is not None:
        x1, x2 = scale(mark.low), scale(mark.high)
        drawn.append(tag("line", x1=x1, x2=x2, y1=y, y2=y, class_=f"line s{mark.series}"))
    return [*drawn, shape(mark.series, scale(mark.value), y, mark.hollow)]


def shape(series: int, x: float, y: float, hollow: bool = False) -> Markup:
    """Return a circle, square, triangle or diamond, so that series differ without colour."""
    style = f"{'hollow' if hollow else 'fill'} s{series}"
    kind = series % 4
    if kind == 0:
        return tag("circle", cx=x, cy=y, r=4.5, class_=style)
    if kind == 1:
        return tag("rect", x=x - 4, y=y - 4, width=8.0, height=8.0, class_=style)
    corners = (
        [(x, y - 5), (x + 5, y + 4), (x - 5, y + 4)]
        if kind == 2
        else [(x, y - 5.5), (x + 5.5, y), (x, y + 5.5), (x - 5.5, y)]
    )
    return tag("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners), class_=style)


def key_of(series: int) -> Markup:
    """Return the shape of a series for a legend."""
    return tag("svg", shape(series, 7.0, 7.0), viewBox="0 0 14 14", class_="key", aria_hidden="true")


def scatter(
    key: str,
    title: str,
    description: str,
    marks: Sequence[Mark],
    front: Sequence[int],
    axes: tuple[str, str],
) -> Markup:
    """Draw validity (a share) over distance, and the Pareto front as a line."""
    height, top, bottom, left = 300.0, 18.0, 42.0, 40.0
    ends = [v for m in marks for v in (m.value, m.high) if v is not None]
    lows = [v for m in marks for v in (m.y, m.y_low) if v is not None]
    across = ticks(0.0, max(ends, default=1.0) or 1.0)
    up = [t for t in ticks(min(lows, default=0.0), 1.0) if t <= 1.0 + 1e-9]
    x, y = Scale(across[0], across[-1], left, WIDTH - RIGHT - 4), Scale(up[0], up[-1], height - bottom, top)
    drawn = [tag("line", x1=left, x2=x(across[-1]), y1=y(t), y2=y(t), class_="grid") for t in up]
    drawn += [text(left - 5, y(t) + 4, f"{100 * t:g} %", "tick", "end") for t in up]
    drawn += [text(x(t), height - bottom + 15, f"{t:g}", "tick", "middle") for t in across]
    drawn.append(tag("line", x1=left, x2=left, y1=top, y2=height - bottom, class_="grid"))
    drawn += [text(WIDTH - RIGHT - 4, height - 8, axes[0], "axis", "end"), text(4, 10, axes[1], "axis")]
    members = sorted((marks[i] for i in front), key=lambda m: m.value)
    if len(members) > 1:
        path = " ".join(f"{x(m.value):.1f},{y(m.y):.1f}" for m in members)
        drawn.append(tag("polyline", points=path, class_="front"))
    for mark in marks:
        style = f"line s{mark.series}"
        if mark.low is not None and mark.high is not None:
            drawn.append(
                tag("line", x1=x(mark.low), x2=x(mark.high), y1=y(mark.y), y2=y(mark.y), class_=style)
            )
        if mark.y_low is not None and mark.y_high is not None:
            at = x(mark.value)
            drawn.append(tag("line", x1=at, x2=at, y1=y(mark.y_low), y2=y(mark.y_high), class_=style))
    placed: list[tuple[float, float]] = []
    for mark in marks:
        drawn.append(shape(mark.series, x(mark.value), y(mark.y)))
        at, under = x(mark.value) + 7, y(mark.y) + 13
        while any(abs(at - a) < 10 and abs(under - b) < 10 for a, b in placed):
            under += 10  # two labels would overlap
        placed.append((at, under))
        drawn.append(text(at, under, mark.label, "value"))
    return chart(key, title, description, height, *drawn)
