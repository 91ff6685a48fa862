"""One customer's moves: the cheapest allowed value in each cell, and its cost.

The ends of cells, which the geometry holds, decide most moves. Features with bounds relative to the own
value, or with tables of forbidden or priced moves, are corrected afterwards.

A feature has no reason to move inside its own cell, unless a rule across features may force it or a penalty
rewards it (1-LOF). Such a feature is *split*: it gets two more places within its own cell, one below and one
above the own value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robustcf.problem.cells import DECREASE, FIXED, INCREASE, Geometry
from robustcf.schema.actionability import may_become, move_costs, next_on_step, reach
from robustcf.support.jit import compiled


@dataclass(frozen=True, eq=False)
class Moves:
    """One customer's moves, cell by cell in the order of `Geometry.low`.

    If `allowed[c]`, a move into cell `c` sets the feature to `number[c]` at cost `cost[c]`. `own[f]` is the
    current cell of feature `f`, where the customer's own value costs nothing. `missing[f]` marks a missing
    value; it stays missing, because its distance to a value is undefined. After all cells come two more
    places for each feature in `split`: below and above the own value within the own cell.
    """

    allowed: np.ndarray
    number: np.ndarray
    cost: np.ndarray
    own: np.ndarray
    missing: np.ndarray
    split: tuple[int, ...] = ()


def moves_of(
    geometry: Geometry, numbers: np.ndarray, encoded: np.ndarray, *, split_ruled: bool = False
) -> Moves:
    """Return the cells that a customer may move to, with their cheapest values.

    `split_ruled` splits every feature in a rule, not only those that a rule may force to move.
    """
    features = geometry.schema.features
    filled = np.array([feature.fills_missing for feature in features])
    unknown = np.isnan(numbers)
    missing = unknown & ~filled  # the trees see a number where a pipeline fills one in
    own = geometry.cell_of(encoded, numbers)
    personal = [j for j in geometry.personal if not unknown[j]]
    limits = geometry.limits.copy() if personal else geometry.limits
    for j in personal:
        if features[j].ordered:
            limits[j] = reach(features[j], float(numbers[j]))
    allowed, number, cost = _moves(
        numbers,
        own,
        geometry.start,
        geometry.low,
        geometry.high,
        geometry.action,
        geometry.ordered,
        geometry.span,
        geometry.weight,
        limits,
    )
    moves = Moves(allowed, number, cost, own, missing)
    for j in personal:
        if not geometry.listed[j]:
            _up_to_the_bounds(geometry, moves, j, float(numbers[j]), limits[j])
        elif features[j].forbidden is not None or features[j].cost_table is not None:
            _by_tables(geometry, moves, j, float(numbers[j]))
    split = geometry.ruled if split_ruled else geometry.pushed
    return _split(geometry, moves, numbers, tuple(j for j in split if not unknown[j]))


@compiled
def _moves(numbers, own, start, low, high, action, ordered, span, weight, limits):
    allowed = np.zeros(start[-1], dtype=np.bool_)
    number = np.full(start[-1], np.nan)
    cost = np.full(start[-1], np.inf)
    for f in range(len(numbers)):
        x, act, width = numbers[f], action[f], span[f, 1] - span[f, 0]
        if np.isnan(x):
            act = FIXED
        for c in range(start[f], start[f + 1]):
            step = c - start[f] - own[f]
            if step == 0:
                allowed[c], number[c], cost[c] = True, x, 0.0
                continue
            if act == FIXED or (act == INCREASE and step < 0) or (act == DECREASE and step > 0):
                continue
            v = low[c] if step > 0 else high[c]
            if np.isnan(v) or v < min(limits[f, 0], x) or v > max(limits[f, 1], x):
                continue
            if ordered[f]:
                price = weight[f] * abs((v - span[f, 0]) / width - (x - span[f, 0]) / width)
            else:
                price = 2.0 * weight[f]
            allowed[c], number[c], cost[c] = True, v, price
    return allowed, number, cost


def _up_to_the_bounds(geometry: Geometry, moves: Moves, j: int, x: float, limits: np.ndarray) -> None:
    """Allow a bound itself if the usual value of its cell lies just beyond the bound.

    Without a step, the usual value is a float32, and a bound may round to the same float32.
    """
    feature, first = geometry.schema.features[j], geometry.start[j]
    if feature.step is not None:
        return
    cells = geometry.cells_of(j, limits)
    for bound, cell in zip(limits, cells, strict=True):
        if not moves.allowed[first + cell]:
            moves.allowed[first + cell], moves.number[first + cell] = True, bound
            moves.cost[first + cell] = feature.costs(bound, x)


def _by_tables(geometry: Geometry, moves: Moves, j: int, x: float) -> None:
    """Choose the cheapest listed value of every other cell; the nearest one on a tie."""
    feature, first = geometry.schema.features[j], geometry.start[j]
    numbers, cells = geometry.listed[j]
    costs = move_costs(feature, x, numbers)
    order = np.lexsort((numbers, np.abs(numbers - x), costs))
    order = order[may_become(feature, x, numbers)[order] & (cells[order] != moves.own[j])]
    there, nth = np.unique(cells[order], return_index=True)
    best = order[nth]
    others = np.arange(geometry.start[j + 1] - first) != moves.own[j]
    for array, nothing, found in (
        (moves.allowed, False, True),
        (moves.number, np.nan, numbers[best]),
        (moves.cost, np.inf, costs[best]),
    ):
        array[first : geometry.start[j + 1]][others] = nothing
        array[first + there] = found


def _split(geometry: Geometry, moves: Moves, numbers: np.ndarray, split: tuple[int, ...]) -> Moves:
    """Return the moves with two more places for each feature in `split`."""
    if not split:
        return moves
    number = np.full((len(split), 2), np.nan)
    for k, j in enumerate(split):
        for upwards in (False, True):
            number[k, int(upwards)] = _beside(geometry, j, int(moves.own[j]), float(numbers[j]), upwards)
    cost = np.full(number.shape, np.inf)
    for k, j in enumerate(split):
        there = ~np.isnan(number[k])
        cost[k, there] = move_costs(geometry.schema.features[j], float(numbers[j]), number[k, there])
    return Moves(
        np.concatenate([moves.allowed, ~np.isnan(number.ravel())]),
        np.concatenate([moves.number, number.ravel()]),
        np.concatenate([moves.cost, cost.ravel()]),
        moves.own,
        moves.missing,
        split,
    )


def _beside(geometry: Geometry, j: int, own: int, x: float, upwards: bool) -> float:
    """Return the cheapest other value on one side within the own cell, or NaN.

    A range without step has no nearest other value. Links may not force such a feature to move.
    """
    feature = geometry.schema.features[j]
    if geometry.listed[j]:
        numbers, cells = geometry.listed[j]
        side = (numbers > x) if upwards else (numbers < x)
        numbers = numbers[side & (cells == own) & may_become(feature, x, numbers)]
        if not len(numbers):
            return np.nan
        return float(numbers[np.lexsort((np.abs(numbers - x), move_costs(feature, x, numbers)))[0]])
    if feature.step is None:
        return np.nan
    number = next_on_step(feature.step, x, upwards)
    low, high = reach(feature, x)
    inside = low <= number <= high and geometry.cells_of(j, np.array([number]))[0] == own
    return number if inside else np.nan
