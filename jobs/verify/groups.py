"""Recompute the table `groups` from the rows, and compare it with the stored one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np

from robustcf.verify import Tally
from robustcf.verify.findings import short
from robustcf.verify.summary import GROUP

from ..run.groups import FIGURES, PARTS, GroupCounts, crossed_name, crossed_value, group_lines
from .records import Records
from .summary import read_table

_NAMES = ("method", "alpha", "beta", "parameter", "cohort", "cohort_value", "cohort_2", "cohort_2_value")
_CLOSE = 1e-9


def with_intersections(cohorts: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the values of the cohort columns and of the intersections of any two, one per row."""
    found = dict(cohorts)
    for (one, mine), (other, theirs) in combinations(cohorts.items(), 2):
        pairs = [crossed_value(a, b) for a, b in zip(mine, theirs, strict=True)]
        found[crossed_name(one, other)] = np.array(pairs, dtype=object)
    return found


def check_groups(records: Records, tally: Tally) -> None:
    """Check every line of `summary/groups.parquet`; runs of older versions have none."""
    findings, file = records.findings, "summary/groups.parquet"
    if not records.cohorts or not records.run.exists(file):
        return
    stored = read_table(records.run, "groups", (*_NAMES, *(n + p for n in FIGURES for p in PARTS)), findings)
    if stored is None:
        return
    wanted = {_name(line): line for line in group_lines(list(_counts(tally)))}
    seen = set()
    for line in stored:
        name = _name(line)
        where = f"{file}: {short(' '.join(str(v) for v in name if v is not None))}"
        if name in seen or name not in wanted:
            findings.add("summary", f"{where}: the line is repeated or unknown")
            continue
        seen.add(name)
        for column, value in wanted[name].items():
            if not _same(line.get(column), value):
                findings.add(
                    "summary",
                    f"{where}: {column}: stored {short(line.get(column))}, recomputed {short(value)}",
                )
    for name in wanted.keys() - seen:
        findings.add("summary", f"{file}: {short(str(name))}: the line is missing")


def _name(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in _NAMES)


def _same(stored: Any, wanted: Any) -> bool:
    if isinstance(stored, float) and isinstance(wanted, int | float):
        return abs(stored - wanted) <= _CLOSE
    return type(stored) is type(wanted) and stored == wanted


def _counts(tally: Tally) -> Iterator[GroupCounts]:
    """Yield the counts of every method and group, recomputed from the rows."""
    scenarios: dict[Any, list[str]] = {}
    for group, scenario in tally.validity:
        scenarios.setdefault(group, []).append(scenario)
    for group, statuses in tally.statuses.items():
        key = dict(zip(GROUP, group, strict=True))
        customers = statuses.total() - statuses["invalid_input"]
        names = sorted(scenarios.get(group, ()), key=lambda name: (name != "same-data", name))
        counts = tally.validity[group, names[0]] if names else None
        yield GroupCounts(
            (key["method"], key["alpha"], key["beta"], key["parameter"]),
            key["cohort"],
            key["cohort_value"],
            customers,
            customers - statuses["already_favourable"],
            int(tally.sums[group]["n_reached"]),
            tally.distances[group],
            names[0] if names else None,
            0 if counts is None else int(counts["valid_reached"]),
            0 if counts is None else int(counts["pairs_reached"]),
        )
