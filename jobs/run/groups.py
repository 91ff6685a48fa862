"""Differences between groups of customers, from counts: shares, and intervals that hold together.

Each figure is a share for which lower is better for the customers (validity: higher). A group is compared
with all other customers. Customers without recourse are counted in the cost, because a mean over the others
would hide them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from robustcf.stats import LEVEL, Quantiles, difference_interval

from .figures import SMALL

if TYPE_CHECKING:
    from .rows import Key

FIGURES = ("denial_rate", "without_recourse", "far_or_none", "validity")
PARTS = ("", "_others", "_difference", "_low", "_high", "_low_all", "_high_all")
CROSSED = "\x1f"  # begins the name of an intersection of two cohort columns
SCHEMA = pa.schema(
    [
        ("method", pa.string()),
        ("alpha", pa.float64()),
        ("beta", pa.float64()),
        ("parameter", pa.float64()),
        ("cohort", pa.string()),
        ("cohort_value", pa.string()),
        ("cohort_2", pa.string()),
        ("cohort_2_value", pa.string()),
        ("customers", pa.int64()),
        ("denied", pa.int64()),
        ("reached", pa.int64()),
        ("small", pa.bool_()),
        ("median_distance", pa.float64()),
        ("typical_distance", pa.float64()),
        ("scenario", pa.string()),
        ("comparisons", pa.int64()),
        *((name + part, pa.float64()) for name in FIGURES for part in PARTS),
    ]
)


@dataclass
class GroupCounts:
    """The counts of one method in one group; `cohort` is empty for everybody.

    `distances` counts the changes that work by bin (see `robustcf.stats.bin_of`). `valid` and `pairs` count
    the pairs of such a change and a retrained forest of `scenario`.
    """

    key: Key
    cohort: str
    value: str | None
    customers: int
    denied: int
    reached: int
    distances: Counter[int] = field(default_factory=Counter)
    scenario: str | None = None
    valid: int = 0
    pairs: int = 0


def crossed_name(one: str, other: str) -> str:
    """Return the name of the intersection of two cohort columns, in the counts."""
    return CROSSED + json.dumps([one, other])


def crossed_value(one: str | None, other: str | None) -> str:
    """Return the name of a group in an intersection.

    >>> crossed_value("north", None)
    '["north", null]'
    """
    return json.dumps([one, other], ensure_ascii=False)


def group_lines(counts: Sequence[GroupCounts]) -> list[dict[str, Any]]:
    """Return the lines of the table `groups`: each method's groups, then the intersections of two columns."""
    lines: list[dict[str, Any]] = []
    for whole in (c for c in counts if not c.cohort):
        own = [c for c in counts if c.key == whole.key and c.cohort]
        for crossed in (False, True):
            family = [c for c in own if c.cohort.startswith(CROSSED) == crossed]
            lines += _family(whole, sorted(family, key=lambda c: (c.cohort, c.value is None, c.value or "")))
    return lines


def _family(whole: GroupCounts, groups: Sequence[GroupCounts]) -> Iterator[dict[str, Any]]:
    """Yield the lines of groups whose corrected intervals hold together with 95 %."""
    typical = Quantiles(whole.distances).quantile(0.5)
    comparisons = len(FIGURES) * sum(not _small(whole, g) for g in groups)
    for group in groups:
        line = dict(zip(("method", "alpha", "beta", "parameter"), group.key, strict=True))
        line |= _names(group)
        line |= {
            "customers": group.customers,
            "denied": group.denied,
            "reached": group.reached,
            "small": _small(whole, group),
            "median_distance": _median(group),
            "typical_distance": None if math.isnan(typical) else typical,
            "scenario": group.scenario,
            "comparisons": comparisons,
        }
        mine, all_ = _shares(group, whole), _shares(whole, whole)
        for name in FIGURES:
            line |= _compared(name, mine[name], all_[name], None if _small(whole, group) else comparisons)
        yield line


def _small(whole: GroupCounts, group: GroupCounts) -> bool:
    return min(group.denied, whole.denied - group.denied) < SMALL


def _names(group: GroupCounts) -> dict[str, str | None]:
    if not group.cohort.startswith(CROSSED):
        return {
            "cohort": group.cohort, "cohort_value": group.value, "cohort_2": None, "cohort_2_value": None
        }  # fmt: skip
    (one, other), (value, second) = json.loads(group.cohort[1:]), json.loads(group.value or "")
    return {"cohort": one, "cohort_value": value, "cohort_2": other, "cohort_2_value": second}


def _median(group: GroupCounts) -> float | None:
    """Return the median distance, with a customer without recourse farther than all; None if it is one."""
    wanted = max(1, math.ceil(group.denied / 2))
    if not group.reached or wanted > group.reached:
        return None
    return Quantiles(group.distances).quantile(wanted / group.reached)


def _shares(group: GroupCounts, whole: GroupCounts) -> dict[str, tuple[float, float]]:
    """Return each figure's numerator and denominator, the unit being the customer."""
    middle = _middle_bin(whole.distances)
    near = sum(n for b, n in group.distances.items() if middle is not None and b <= middle)
    valid = group.reached * group.valid / group.pairs if group.pairs else 0.0
    return {
        "denial_rate": (group.denied, group.customers),
        "without_recourse": (group.denied - group.reached, group.denied),
        "far_or_none": (group.denied - near, group.denied),
        "validity": (valid, group.reached if group.pairs else 0),
    }


def _middle_bin(distances: Counter[int]) -> int | None:
    """Return the bin of the median distance of everybody with recourse."""
    left = math.ceil(distances.total() / 2)
    for number in sorted(distances):
        left -= distances[number]
        if left <= 0:
            return number
    return None


def _compared(
    name: str, mine: tuple[float, float], all_: tuple[float, float], comparisons: int | None
) -> dict[str, float | None]:
    """Return a figure's columns: the group's share, that of all others, and the intervals of the difference.

    Validity is a mean over customers of a share of forests. It varies at most as much as a share of
    customers, so its interval is not too short, conditional on the retrained forests.
    """
    others = (all_[0] - mine[0], all_[1] - mine[1])
    values: list[float | None] = [None] * len(PARTS)
    if mine[1]:
        values[0] = mine[0] / mine[1]
    if others[1]:
        values[1] = min(1.0, max(0.0, others[0] / others[1]))
    if values[0] is not None and values[1] is not None:
        asked = (values[0], mine[1], values[1], others[1])
        values[2] = values[0] - values[1]
        values[3], values[4] = difference_interval(*asked)
        if comparisons:
            values[5], values[6] = difference_interval(*asked, 1 - (1 - LEVEL) / comparisons)
    return {name + part: value for part, value in zip(PARTS, values, strict=True)}
