"""The figures of an audit that `[limits]` watch, computed from counts.

All figures are about the strictest method of the run, the one that the report calls strict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from robustcf.methods.registry import certifies
from robustcf.stats import LEVEL, difference_interval

if TYPE_CHECKING:
    from .rows import Key  # `verify` does not load the modules that make rows

SMALL = 30  # denied customers below which a group is not compared
SAA = ("direct-saa", "robust-saa")


@dataclass(frozen=True)
class Counted:
    """The counts of one method for everybody (`cohort` is empty) or for one group.

    `proved` counts denied customers whose answer is proved. `validity` has a share for each scenario, over
    the answers that reach the threshold.
    """

    key: Key
    cohort: str
    value: str | None
    denied: int
    reached: int
    proved: int
    threshold: float | None = None
    validity: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """A figure's value and what it is about; without a value, why it was not measured."""

    value: float | None
    about: str


def strictest(thresholds: Mapping[Key, float | None]) -> Key | None:
    """Return the certified method with the least α, else the SAA method with the highest threshold."""
    certified = [key for key in thresholds if certifies(key[0])]
    if certified:
        return min(certified, key=lambda key: (key[1] or 0.0, key[3] or 0.0))
    saa = [key for key in thresholds if key[0] in SAA]
    return max(saa, key=lambda key: thresholds[key] or 0.0, default=None)


def watched(thresholds: Mapping[Key, float | None]) -> Key:
    """Return the strictest method; if the run has none, the one with the highest threshold."""
    return strictest(thresholds) or max(thresholds, key=lambda key: thresholds[key] or 0.0)


def figures(counted: Sequence[Counted], manifest: Mapping[str, Any]) -> tuple[Key, dict[str, Measured]]:
    """Return the watched method and its figures, from the counts of all methods and groups."""
    whole = {c.key: c for c in counted if not c.cohort}
    key = watched({k: c.threshold for k, c in whole.items()})
    own = whole[key]
    groups = [c for c in counted if c.key == key and c.cohort]
    return key, {
        "validity": _validity(own),
        "without_recourse": _of_denied(own, own.denied - own.reached),
        "unproved": _of_denied(own, own.denied - own.proved),
        "survival": _survival(key, manifest),
        "group_difference": _group_difference(own, groups),
        "seconds": Measured(manifest.get("seconds"), "without pauses"),
    }


def _validity(own: Counted) -> Measured:
    """Return the validity in the scenario where it is lowest."""
    if not own.validity:
        return Measured(None, "no denied customer has a change that was tested on retrained forests")
    scenario = min(own.validity, key=lambda name: (own.validity[name], name))
    return Measured(own.validity[scenario], f"scenario {scenario}")


def _of_denied(own: Counted, count: int) -> Measured:
    if not own.denied:
        return Measured(None, "no customer was denied")
    return Measured(count / own.denied, f"{count:,} of {own.denied:,}")


def _survival(key: Key, manifest: Mapping[str, Any]) -> Measured:
    for row in manifest.get("survival") or []:
        if (row["method"], row["alpha"], row["beta"], row["parameter"]) == key and row["given"]:
            return Measured(row["survived"] / row["given"], f"{row['survived']:,} of {row['given']:,}")
    if "survival" not in manifest:
        return Measured(None, str(manifest.get("previous", "no earlier run was compared")))
    return Measured(None, "the earlier run has no recourse of this method")


def _group_difference(own: Counted, groups: Sequence[Counted]) -> Measured:
    """Return the largest difference that is shown: the end nearest to 0 of a corrected interval.

    All intervals hold together with 95 % confidence, so that chance alone rarely raises an alarm, however
    many groups there are.
    """
    pairs = [(g, own.denied - g.denied) for g in groups if min(g.denied, own.denied - g.denied) >= SMALL]
    if not pairs:
        return Measured(None, f"no group, or not {SMALL} denied customers in a group and outside it")
    level = 1 - (1 - LEVEL) / len(pairs)
    shown, about = 0.0, f"none is shown among {len(pairs)} {'group' if len(pairs) == 1 else 'groups'}"
    for group, others in pairs:
        lacking, elsewhere = group.denied - group.reached, own.denied - own.reached
        mine, theirs = lacking / group.denied, (elsewhere - lacking) / others
        low, high = difference_interval(mine, group.denied, theirs, others, level)
        least = max(low, -high, 0.0)
        if least > shown:
            name = f"{group.cohort} {'(missing)' if group.value is None else group.value}"
            shown, about = least, f"{name}: {100 * mine:.1f} %, all others {100 * theirs:.1f} %"
    return Measured(shown, about)
