"""The integer program of the 1-LOF problem for one given nearest training row.

Leaves, questions and score rows are those of `solve.milp`. In addition, weights w on the points of each
feature say where in its cells x lies, and distances are linear in w. On a feature without list or step, a
mixture of two points is a value between them. Mixing points that are not neighbours overstates distances.
This can only help the constraints "no other training row is nearer". If a solution does so, the program is
solved again with binaries that forbid it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from robustcf.methods.lof.neighbours import Neighbours
from robustcf.methods.lof.points import Points
from robustcf.problem.problem import Problem
from robustcf.problem.reduction import restrict
from robustcf.solve.contract import Engine, Limits
from robustcf.solve.formulation import Milp, build_model, choice_of, cut_off, first_questions
from robustcf.solve.highs import Highs
from robustcf.solve.milp import Backend, MilpEngine
from robustcf.solve.scale import factor_for
from robustcf.support.tolerances import LOF_BOUND_ROUNDING, LOF_CLOSED, LOF_LEAST_ROOM, WHOLE_WEIGHT


@dataclass
class RowResult:
    """Points found (the best one last), lower bounds, and the solver's nodes.

    `proved` is the bound of finished solves, `seen` the bound of all solves.
    """

    points: list[np.ndarray]
    proved: float = -np.inf
    seen: float = -np.inf
    nodes: int = 0

    def raise_to(self, bound: float, finished: bool) -> None:
        self.seen = max(self.seen, bound)
        if finished:
            self.proved = max(self.proved, bound)


@dataclass(frozen=True)
class _Layout:
    """Positions of the points' weights among the program's columns."""

    point: np.ndarray  # position in `Points` of each weight
    feature: np.ndarray
    group: np.ndarray
    first: int  # column of the first weight
    extra: int  # column of the penalty beyond Δ


def solve_row(
    problem: Problem,
    limit: float,
    points: Points,
    near: Neighbours,
    i: int,
    weight: float,
    upper: float,
    numbers: np.ndarray,
    limits: Limits,
    engine: Engine,
) -> RowResult:
    """Return points better than `upper` with row i the nearest, or a proof of none.

    `problem` has no penalty, and its costs bound the objective from below. A choice that costs more than
    `limit` in it cannot be better.
    """
    limit = limit + LOF_CLOSED * abs(upper)
    small = restrict(problem, problem.cost <= limit, limit)
    if (np.diff(small.tree_start) == 0).any() or (np.diff(small.start) == 0).any():
        return RowResult([], np.inf, np.inf)
    group_of_cell, grouped = _group(small)
    backend: Backend = engine.backend if isinstance(engine, MilpEngine) else Highs()
    end, found = time.monotonic() + limits.seconds, RowResult([])
    slope, factor = weight * float(near.density[i]), factor_for(upper)
    for apart in (False, True):
        model, layout = _model(grouped, group_of_cell, points, near, i, slope, upper, apart)
        model.cost, model.offset = model.cost * factor, model.offset * factor
        while True:
            left = replace(limits, seconds=max(end - time.monotonic(), 0.01))
            result = backend.solve(model, left)
            found.nodes += result.nodes
            if result.status == "infeasible":
                found.raise_to(np.inf, finished=True)
                return found
            found.raise_to(result.bound / factor, result.status == "optimal")
            if result.x is None:
                return found
            choice = choice_of(grouped, result.x)
            if grouped.reaches(choice):
                break
            cut_off(model, grouped, choice)
            if time.monotonic() >= end:
                return found
        point = _point(points, layout, result.x, choice, numbers)
        found.points.append(point)
        reach = near.distances(point)
        nearest = bool(reach[i] <= reach.min() + near.tie)
        if nearest or not points.between.any() or time.monotonic() >= end:
            if result.status == "optimal" and limits.gap == 0.0 and nearest:
                # Exact up to the solver's tolerances: the point's own value is the bound.
                value = _value(points, layout, result.x, slope, near, i)
                found.raise_to(
                    min(value, result.bound / factor + LOF_BOUND_ROUNDING * abs(upper)), finished=True
                )
            return found
    return found


def _group(small: Problem) -> tuple[dict[int, int], Problem]:
    """Merge options that no leaf distinguishes; also return each cell's group."""
    new = np.zeros(len(small.cost) + 1, dtype=bool)
    new[small.start[:-1]] = True
    for e in range(len(small.feature)):
        if small.set[e] < 0:
            base = small.start[small.feature[e]]
            new[base + small.lo[e]] = new[base + small.hi[e] + 1] = True
    for f in range(small.n_features):
        if not small.ordered[f]:
            new[small.start[f] : small.start[f + 1]] = True
    keep = new[:-1]
    grouped = restrict(small, keep, np.inf)
    group = np.cumsum(keep) - 1
    first = group[small.start[:-1]]
    of_feature = np.repeat(np.arange(small.n_features), np.diff(small.start))
    return {int(c): int(group[o] - first[of_feature[o]]) for o, c in enumerate(small.cell)}, grouped


def _model(
    p: Problem,
    group_of_cell: dict[int, int],
    points: Points,
    near: Neighbours,
    i: int,
    slope: float,
    upper: float,
    apart: bool,
) -> tuple[Milp, _Layout]:
    """Build the program; `apart` forbids mixing points that are not neighbours."""
    base = build_model(p)
    kept = np.array([int(c) in group_of_cell for c in points.cell])
    at = np.flatnonzero(kept)
    feature = np.searchsorted(points.start, at, side="right") - 1
    group = np.array([group_of_cell[int(c)] for c in points.cell[at]], dtype=np.int64)
    n_base, n = len(base.cost), len(at)
    layout = _Layout(at, feature, group, n_base, n_base + n)
    least, unit = (
        LOF_LEAST_ROOM * near.unit,
        factor_for(near.unit),
    )  # scales the distances in the rows to about 1
    room = max(upper / slope - float(near.delta[i]), least) if slope > 0 else least  # most of f(x, xᵢ) - Δ
    pieces = _pieces(points, layout) if apart else []
    n_columns = n_base + n + 1 + len(pieces)
    rows: list[tuple[list[int], list[float], float, float]] = _membership(p, layout)
    mine = points.other[i][at] * unit
    weights = list(range(n_base, n_base + n))
    if slope > 0:
        delta = float(near.delta[i]) * unit
        rows.append(([*weights, layout.extra], [*mine.tolist(), -room * unit], -np.inf, delta))
    for j in range(len(near)):
        if j != i:
            rows.append((weights, (mine - points.other[j][at] * unit).tolist(), -np.inf, 0.0))
    rows += _adjacent(p, layout, pieces)
    matrix, lower, high = _matrix(rows, n_columns)
    wide = sp.hstack([base.matrix, sp.csr_matrix((base.matrix.shape[0], n_columns - n_base))], format="csr")
    cost = np.zeros(n_columns)
    cost[n_base : n_base + n] = points.own[at]
    cost[layout.extra] = slope * room
    binary = np.zeros(n_columns, dtype=bool)
    binary[n_base : n_base + n] = ~points.between[feature]
    binary[layout.extra + 1 :] = True
    # The new rows come first, because the score rows must stay last.
    model = Milp(
        cost=cost,
        matrix=sp.csr_matrix(sp.vstack([matrix, wide], format="csr")),
        lower=np.concatenate([lower, base.lower]),
        upper=np.concatenate([high, base.upper]),
        n_binary=base.n_binary,
        links_from=base.links_from,
        offset=slope * float(near.delta[i]),
        also_binary=binary,
    )
    return model, layout


def _indicator(p: Problem, question: np.ndarray, f: int, g: int) -> tuple[list[int], list[float], float]:
    """Return columns, factors and the constant of "feature f lies in group g"."""
    size = int(p.start[f + 1] - p.start[f])
    q = int(question[f])
    if size == 1:
        return [], [], 1.0
    if not p.ordered[f]:
        return [q + g], [1.0], 0.0
    columns, factors = [], []
    if g > 0:
        columns, factors = [q + g - 1], [1.0]
    if g < size - 1:
        columns, factors = [*columns, q + g], [*factors, -1.0]
    return columns, factors, 1.0 if g == 0 else 0.0


def _membership(p: Problem, layout: _Layout) -> list[tuple[list[int], list[float], float, float]]:
    """Return the rows: a group's weights sum to 1 if x lies in it, else to 0."""
    question, _ = first_questions(p)
    rows = []
    for f in range(p.n_features):
        for g in range(int(p.start[f + 1] - p.start[f])):
            mine = (layout.first + np.flatnonzero((layout.feature == f) & (layout.group == g))).tolist()
            columns, factors, constant = _indicator(p, question, f, g)
            rows.append(([*mine, *columns], [1.0] * len(mine) + [-x for x in factors], constant, constant))
    return rows


def _pieces(points: Points, layout: _Layout) -> list[tuple[int, int]]:
    """Return pairs of neighbouring points that may be mixed."""
    pieces = []
    for k in range(len(layout.point) - 1):
        same = layout.feature[k] == layout.feature[k + 1] and layout.group[k] == layout.group[k + 1]
        if same and points.between[layout.feature[k]]:
            pieces.append((k, k + 1))
    return pieces


def _adjacent(
    p: Problem, layout: _Layout, pieces: list[tuple[int, int]]
) -> list[tuple[list[int], list[float], float, float]]:
    """Return the rows: one piece of x's group is chosen; only its ends have weight."""
    question, _ = first_questions(p)
    rows: list[tuple[list[int], list[float], float, float]] = []
    touching: dict[int, list[int]] = {}
    of_group: dict[tuple[int, int], list[int]] = {}
    for number, (a, b) in enumerate(pieces):
        column = layout.extra + 1 + number
        touching.setdefault(a, []).append(column)
        touching.setdefault(b, []).append(column)
        of_group.setdefault((int(layout.feature[a]), int(layout.group[a])), []).append(column)
    for k, columns in touching.items():
        rows.append(([layout.first + k, *columns], [1.0] + [-1.0] * len(columns), -np.inf, 0.0))
    for (f, g), columns in of_group.items():
        those, factors, constant = _indicator(p, question, f, g)
        rows.append(([*columns, *those], [1.0] * len(columns) + [-x for x in factors], constant, constant))
    return rows


def _matrix(
    rows: list[tuple[list[int], list[float], float, float]], n_columns: int
) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray]:
    counts = np.repeat(np.arange(len(rows)), [len(r[0]) for r in rows])
    columns = np.concatenate([np.array(r[0], dtype=np.int64) for r in rows])
    values = np.concatenate([np.array(r[1], dtype=np.float64) for r in rows])
    matrix = sp.csr_matrix((values, (counts, columns)), shape=(len(rows), n_columns))
    return matrix, np.array([r[2] for r in rows]), np.array([r[3] for r in rows])


def _point(
    points: Points, layout: _Layout, x: np.ndarray, choice: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """Return the numbers that the weights stand for."""
    point = numbers.copy()
    weight = np.clip(x[layout.first : layout.first + len(layout.point)], 0.0, 1.0)
    for f, g in enumerate(choice):
        mine = np.flatnonzero((layout.feature == f) & (layout.group == g))
        values = points.number[layout.point[mine]]
        if len(mine) == 0 or np.isnan(values).any():
            continue
        share = (
            weight[mine] / weight[mine].sum() if weight[mine].sum() > 0 else np.ones(len(mine)) / len(mine)
        )
        top = int(share.argmax())
        if share[top] >= 1.0 - WHOLE_WEIGHT or not points.between[f]:
            point[f] = values[top]
        else:
            point[f] = min(max(float(share @ values), values.min()), values.max())
    return point


def _value(points: Points, layout: _Layout, x: np.ndarray, slope: float, near: Neighbours, i: int) -> float:
    """Return the objective at the given weights."""
    weight = x[layout.first : layout.first + len(layout.point)]
    reach = max(float(near.delta[i]), float(weight @ points.other[i][layout.point]))
    return float(weight @ points.own[layout.point]) + slope * reach
