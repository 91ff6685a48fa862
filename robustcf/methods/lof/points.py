"""The points of a 1-LOF problem: the numbers where a distance to some row bends.

Between two neighbouring points of one cell, the distances to the customer and to all training rows considered
are linear. A sum of distances is therefore least at a point. Only several conditions together can require a
value between points, and only on features without list or step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robustcf.methods.lof.neighbours import Neighbours
from robustcf.problem.cells import FIXED, Geometry
from robustcf.problem.moves import Moves
from robustcf.schema.actionability import may_become, move_costs, on_step, reach
from robustcf.schema.schema import Feature

MOST_STEPS = 1000  # most multiples of a step that are listed one by one


@dataclass(frozen=True, eq=False)
class Points:
    """Points of all features, one after the other.

    - `cell`: the geometry's cell.
    - `own`, `other[i]`: distances to the customer and to row i.
    - `between`: per feature, whether numbers between its points are allowed.
    - `complete`: whether the points, and the numbers between them, are all allowed values.
    """

    start: np.ndarray
    number: np.ndarray
    cell: np.ndarray
    own: np.ndarray
    other: np.ndarray
    between: np.ndarray
    complete: bool

    def moves(self, moves: Moves, price: np.ndarray) -> Moves:
        """Return the cheapest point of each cell at the given prices, as moves."""
        cost = np.full(len(moves.cost), np.inf)
        np.minimum.at(cost, self.cell, price)
        number = np.full(len(moves.cost), np.nan)
        at = price <= cost[self.cell]
        number[self.cell[at]] = self.number[at]
        return Moves(np.isfinite(cost), number, cost, moves.own, moves.missing, moves.split)


def points_of(geometry: Geometry, moves: Moves, numbers: np.ndarray, near: Neighbours) -> Points:
    """Return all points of one customer."""
    lists, cells, own, other, between, complete = [], [], [], [], [], True
    for j, feature in enumerate(geometry.schema.features):
        first, last = geometry.start[j], geometry.start[j + 1]
        values = near.rows[:, j]
        unseen = not feature.n_columns and j not in moves.split
        if np.isnan(numbers[j]) or geometry.action[j] == FIXED or unseen:
            mine, mixed = numbers[j : j + 1], False
        elif not feature.ordered:
            mine, mixed = np.flatnonzero(moves.allowed[first:last]).astype(np.float64), False
        else:
            mine, mixed, all_there = _numbers(feature, geometry, j, numbers[j], values)
            complete &= all_there
        where = first + _cells(geometry, j, mine, int(moves.own[j]))
        if j in moves.split:
            below = int(geometry.start[-1]) + 2 * moves.split.index(j)
            mine, where = _told_apart(mine, where, float(numbers[j]), first + moves.own[j], below, mixed)
        lists.append(mine)
        cells.append(where)
        if np.isnan(numbers[j]):
            own.append(np.zeros(1))
            other.append(np.zeros((len(near), 1)))
        else:
            own.append(move_costs(feature, float(numbers[j]), mine))
            other.append(np.stack([feature.costs(mine, float(v)) for v in values]))
        between.append(mixed)
    start = np.concatenate([[0], np.cumsum([len(x) for x in lists])])
    return Points(
        start, np.concatenate(lists), np.concatenate(cells), np.concatenate(own),
        np.hstack(other), np.array(between), complete,
    )  # fmt: skip


def _cells(geometry: Geometry, j: int, numbers: np.ndarray, own: int) -> np.ndarray:
    feature = geometry.schema.features[j]
    if np.isnan(numbers).any() or not feature.n_columns:
        return np.full(len(numbers), own)
    return geometry.cells_of(j, numbers) if feature.ordered else numbers.astype(np.int64)


def _told_apart(
    numbers: np.ndarray, cells: np.ndarray, x: float, own: int, below: int, mixed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Give the points of the own cell below and above the own value their own places.

    If numbers between points are allowed, the own value belongs to all three places. Counting it as an
    infinitely small move allows nothing more.
    """
    above = below + 1
    places = np.where((cells == own) & (numbers < x), below, cells)
    places = np.where((cells == own) & (numbers > x), above, places)
    if not mixed:
        return numbers, places
    at = int(np.flatnonzero(numbers == x)[0])
    return np.insert(numbers, [at, at + 1], x), np.insert(places, [at, at + 1], [below, above])


def _numbers(
    feature: Feature, geometry: Geometry, j: int, x: float, values: np.ndarray
) -> tuple[np.ndarray, bool, bool]:
    """Return an ordered feature's numbers.

    Also returns whether numbers between them are allowed, and whether the list is complete.
    """
    low, high = reach(feature, x)
    if geometry.listed[j]:
        listed = geometry.listed[j][0]
        return np.union1d(listed[may_become(feature, x, listed)], [x]), False, True
    ends = slice(geometry.start[j], geometry.start[j + 1])
    bends = np.concatenate([[low, high, x], values, geometry.low[ends], geometry.high[ends]])
    bends = np.unique(bends[(bends >= low) & (bends <= high)])  # NaN is neither
    step = feature.step
    if step is None:
        return bends, True, True
    if (high - low) / step <= MOST_STEPS:
        multiples = np.arange(np.floor(low / step) - 1, np.ceil(high / step) + 2)
    else:  # the nearest on both sides of every bend: enough for sums, not for several conditions
        multiples = np.unique(np.concatenate([np.floor(bends / step) + i for i in (-1, 0, 1, 2)]))
    stepped = on_step(step, multiples)
    whole = (high - low) / step <= MOST_STEPS
    return np.union1d(stepped[(stepped >= low) & (stepped <= high)], [x]), False, whole
