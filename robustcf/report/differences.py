"""Groups of customers beside all others: what differs, and what chance may explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from robustcf.report import svg
from robustcf.report.figures import Figure
from robustcf.report.words import share

NAMES = {
    "denial_rate": "denied",
    "without_recourse": "without recourse",
    "far_or_none": "far or none",
    "validity": "validity",
}


@dataclass(frozen=True)
class Gap:
    """A share in a group and among all others, and the interval of the difference."""

    share: float | None = None
    others: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def shown(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def text(self) -> str:
        """The share, and the interval of its difference from all others in percentage points.

        >>> Gap(0.5, 0.4, -0.02, 0.21).text
        '50.0 % (−2 to +21)'
        """
        if self.share is None or self.low is None or self.high is None:
            return share(self.share)
        return f"{share(self.share)} ({_points(self.low)} to {_points(self.high)})"


@dataclass(frozen=True)
class GroupGaps:
    """One group under the strictest method: its size and its figures; `small` groups are not tested."""

    cohort: str
    value: str
    denied: int
    small: bool
    median: float | None  # None if most of the denied have no recourse
    gaps: Mapping[str, Gap]

    @property
    def shown(self) -> bool:
        return not self.small and any(gap.shown for gap in self.gaps.values())


@dataclass(frozen=True)
class Differences:
    """All groups of the strictest method; `crossed` are intersections of two columns that differ."""

    method: str
    typical: float | None
    groups: tuple[GroupGaps, ...]
    comparisons: int
    crossed: tuple[GroupGaps, ...] = ()
    crossed_tested: int = 0
    crossed_comparisons: int = 0

    @property
    def cohorts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(group.cohort for group in self.groups))

    @property
    def crossed_labelled(self) -> list[GroupGaps]:
        """The intersections, each with the names of its columns."""
        return [replace(group, value=f"{group.cohort}: {group.value}") for group in self.crossed]

    def of(self, cohort: str) -> list[GroupGaps]:
        return [group for group in self.groups if group.cohort == cohort]


def figure(key: str, found: Differences, cohort: str, name: str = "far_or_none") -> Figure | None:
    """Draw the differences of one figure between each group and all others."""
    rows = [g for g in found.of(cohort) if g.gaps[name].low is not None]
    if not rows:
        return None
    title = f"{cohort}: denied customers who need a far change or have none, beside all others"
    said = "; ".join(f"{g.value}: {g.gaps[name].text}" for g in rows)
    return Figure(
        title,
        _drawing(key, title, said, [(g, g.gaps[name]) for g in rows]),
        (),
        ("group", "denied", "share", "all others", "difference, percentage points"),
        tuple(
            (
                g.value + (" (small)" if g.small else ""),
                f"{g.denied:,}",
                share(g.gaps[name].share),
                share(g.gaps[name].others),
                g.gaps[name].text.partition("(")[2].rstrip(")") or "–",
            )
            for g in rows
        ),
        "Right of the line: a larger share than among all others. Lines are intervals of the difference that "
        "hold together with 95 %. Hollow marks: groups too small to compare.",
    )


def _drawing(key: str, title: str, said: str, rows: Sequence[tuple[GroupGaps, Gap]]) -> Markup:
    ends = [abs(v) for _, gap in rows for v in (gap.low, gap.high) if v is not None]
    most = max([*ends, 0.05])
    at = [t for t in svg.ticks(-most, most) if abs(t) <= 1]
    scale = svg.Scale(at[0], at[-1], svg.LEFT + 6, svg.WIDTH - svg.RIGHT - 8)
    body, y = list[Markup](), 4.0
    for group, gap in rows:
        name = f"{group.value}  ({group.denied:,} denied{', small' if group.small else ''})"
        body.append(svg.text(svg.LEFT, y + svg.LABEL - 4, name, "label"))
        y += svg.LABEL + 5
        value = (gap.share or 0.0) - (gap.others or 0.0)
        body.append(
            svg.tag("line", x1=scale(gap.low or 0.0), x2=scale(gap.high or 0.0), y1=y, y2=y, class_="line s1")
        )
        body.append(svg.shape(1, scale(value), y, group.small))
        y += 15
    grid = [svg.tag("line", x1=scale(t), x2=scale(t), y1=0.0, y2=y, class_="grid") for t in at]
    zero = svg.tag("line", x1=scale(0.0), x2=scale(0.0), y1=0.0, y2=y, class_="zero")
    names = [svg.text(scale(t), y + 12, _points(t), "tick", "middle") for t in at]
    words = svg.text(svg.LEFT, y + 26, "difference from all others, in percentage points", "axis")
    return svg.chart(key, title, said, y + 30, *grid, zero, *body, *names, words)


def _points(value: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    rounded = round(100 * value)
    return f"{'+' if rounded > 0 else '−' if rounded < 0 else ''}{abs(rounded)}"
