"""The differences between groups on the report, from the table `groups`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robustcf.methods.registry import title_of
from robustcf.report.differences import NAMES, Differences, Gap, GroupGaps

from ..run.folder import RunFolder
from ..run.reader import read_shard
from ..run.rows import Key
from .parts import METHOD

MOST = 40  # groups of a column, and intersections, on the page; groups.csv has all of them


def differences(run: RunFolder, key: Key | None) -> Differences | None:
    """Return the groups of one method; None for runs without groups, and for those of older versions."""
    if key is None or not run.exists("summary/groups.parquet"):
        return None
    table = read_shard(run, "summary", "groups.parquet").to_pylist()
    own = [line for line in table if tuple(line[name] for name in METHOD) == key]
    single = [line for line in own if line["cohort_2"] is None]
    crossed = [line for line in own if line["cohort_2"] is not None]
    if not single:
        return None
    kept: list[dict[str, Any]] = []
    for cohort in dict.fromkeys(line["cohort"] for line in single):
        mine = [line for line in single if line["cohort"] == cohort]
        most = sorted(mine, key=lambda line: -line["customers"])[:MOST]
        kept += [line for line in mine if line in most]
    found = [gaps for gaps in map(_gaps, crossed) if gaps.shown]
    return Differences(
        title_of(*key),
        single[0]["typical_distance"],
        tuple(map(_gaps, kept)),
        single[0]["comparisons"],
        tuple(found[:MOST]),
        sum(not line["small"] for line in crossed),
        crossed[0]["comparisons"] if crossed else 0,
    )


def _gaps(line: Mapping[str, Any]) -> GroupGaps:
    """Return one group; the interval of a small one is not corrected."""
    cohort, value = line["cohort"], _value(line["cohort_value"])
    if line["cohort_2"] is not None:
        cohort = f"{cohort} and {line['cohort_2']}"
        value = f"{value}, {_value(line['cohort_2_value'])}"
    end = "" if line["small"] else "_all"
    return GroupGaps(
        cohort,
        value,
        line["denied"],
        line["small"],
        line["median_distance"],
        {
            name: Gap(line[name], line[f"{name}_others"], line[f"{name}_low{end}"], line[f"{name}_high{end}"])
            for name in NAMES
        },
    )


def _value(value: str | None) -> str:
    return "(missing)" if value is None else value
