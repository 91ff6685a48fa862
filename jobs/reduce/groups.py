"""The table `groups` of an audit's summary, from the counts of its shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from ..run.groups import SCHEMA, GroupCounts, group_lines
from .partial import GROUP, Group, Part, Validity


def groups_table(total: Mapping[Group, Part]) -> pa.Table:
    """Return the differences between each group and all other customers, by method."""
    return pa.Table.from_pylist(group_lines(list(_counts(total))), schema=SCHEMA)


def _counts(total: Mapping[Group, Part]) -> Iterator[GroupCounts]:
    for group, part in total.items():
        key = dict(zip(GROUP, group, strict=True))
        names = sorted(part.scenarios_reached, key=lambda name: (name != "same-data", name))
        found = part.scenarios_reached[names[0]] if names else Validity()
        customers = part.rows - part.statuses["invalid_input"]
        yield GroupCounts(
            (key["method"], key["alpha"], key["beta"], key["parameter"]),
            key["cohort"],
            key["cohort_value"],
            customers,
            customers - part.statuses["already_favourable"],
            part.reached,
            part.distances,
            names[0] if names else None,
            found.valid,
            found.pairs,
        )
