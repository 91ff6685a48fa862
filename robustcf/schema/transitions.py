"""Tables of forbidden moves, and of moves with their own cost."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

ANY = "*"  # stands for every value


def checked_table(
    table: Iterable[Sequence[Any]], values: Collection[Any], *, priced: bool
) -> tuple[tuple[Any, ...], ...]:
    """Return the lines `[from, to]` or `[from, to, cost]` of a table as tuples.

    An invalid line raises a ValueError.

    >>> checked_table([["rent", "own", 1], ["*", "rent", 0.5]], ("own", "rent"), priced=True)
    (('rent', 'own', 1.0), ('*', 'rent', 0.5))
    """
    if ANY in values:
        raise ValueError(f'has a value "{ANY}", which a table of moves reads as "any value"')
    form = "[from, to, cost]" if priced else "[from, to]"
    lines: list[tuple[Any, ...]] = []
    for line in table:
        if isinstance(line, str) or not isinstance(line, Sequence) or len(line) != 2 + priced:
            raise ValueError(f"holds {line!r}; a line must have the form {form}")
        for value in line[:2]:
            if value != ANY and value not in values:
                raise ValueError(f"names {value!r}, which is not one of its values")
        if line[0] == line[1] != ANY:
            raise ValueError(f"names a move from {line[0]!r} to itself; staying is free and always allowed")
        if tuple(line[:2]) in [known[:2] for known in lines]:
            raise ValueError(f"names the move {list(line[:2])} twice")
        lines.append((*line[:2], _cost(line[2])) if priced else tuple(line))
    return tuple(lines)


def _cost(cost: Any) -> float:
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not (math.isfinite(cost) and cost >= 0):
        raise ValueError(f"holds the cost {cost!r}; a cost must be a finite number of at least 0")
    return float(cost)
