"""Draw figures over a sequence of runs: lines with intervals, and marks where something changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from robustcf.report.method_line import Estimate
from robustcf.report.svg import RIGHT, WIDTH, Scale, chart, shape, tag, text, ticks

HEIGHT, TOP, BOTTOM, START = 190.0, 20.0, 36.0, 42.0
MOST_NAMES = 10  # numbers of runs under the axis


@dataclass(frozen=True)
class Line:
    """One series: its number, which decides colour and shape, and an estimate for each run."""

    series: int
    values: Sequence[Estimate]


def timeline(
    key: str,
    title: str,
    description: str,
    lines: Sequence[Line],
    changes: Sequence[tuple[int, str]],
    percent: bool,
) -> Markup:
    """Draw lines over the runs 1, 2, ...; `changes` has the index of a run and the letters of its change."""
    count = max((len(line.values) for line in lines), default=0)
    known = [e for line in lines for e in line.values if e.value is not None]
    lows = [min(v for v in (e.value, e.low) if v is not None) for e in known]
    highs = [max(v for v in (e.value, e.high) if v is not None) for e in known]
    low = min(lows, default=0.0) if percent else 0.0
    up = ticks(max(low, 0.0), min(max(highs, default=1.0), 1.0) if percent else max(highs, default=1.0))
    x = Scale(0.0, max(count - 1, 1), START + 8, WIDTH - RIGHT - 8)
    y = Scale(up[0], up[-1], HEIGHT - BOTTOM, TOP)
    drawn = [tag("line", x1=START, x2=float(WIDTH - RIGHT), y1=y(t), y2=y(t), class_="grid") for t in up]
    names = [f"{100 * t:g} %" if percent else f"{t:g}" for t in up]
    drawn += [text(START - 4, y(t) + 4, name, "tick", "end") for t, name in zip(up, names, strict=True)]
    for at, letters in changes:
        drawn.append(tag("line", x1=x(at), x2=x(at), y1=TOP - 4, y2=HEIGHT - BOTTOM, class_="change"))
        drawn.append(text(x(at), TOP - 8, letters, "tick", "middle"))
    step = max(1, -(-count // MOST_NAMES))
    drawn += [text(x(k), HEIGHT - BOTTOM + 14, str(k + 1), "tick", "middle") for k in range(0, count, step)]
    drawn.append(text(WIDTH - RIGHT, HEIGHT - 4, "run", "axis", "end"))
    for line in lines:
        drawn += _drawn(line, x, y)
    return chart(key, title, description, HEIGHT, *drawn)


def _drawn(line: Line, x: Scale, y: Scale) -> list[Markup]:
    """Return intervals, the line (with gaps where nothing is known) and marks."""
    style, drawn, marks = f"line s{line.series}", list[Markup](), list[Markup]()
    piece: list[str] = []
    pieces = [piece]
    for k, found in enumerate(line.values):
        if found.value is None:
            pieces.append(piece := [])
            continue
        piece.append(f"{x(k):.1f},{y(found.value):.1f}")
        if found.low is not None and found.high is not None:
            drawn.append(tag("line", x1=x(k), x2=x(k), y1=y(found.low), y2=y(found.high), class_=style))
        marks.append(shape(line.series, x(k), y(found.value)))
    joined = [
        tag("polyline", points=" ".join(own), class_=f"path s{line.series}") for own in pieces if len(own) > 1
    ]
    return [*drawn, *joined, *marks]
