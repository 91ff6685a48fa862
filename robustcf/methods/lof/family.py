"""The family of the 1-LOF penalty.

It minimises f(x, x0) + λ · lrd(xᵢ) · max(Δ(xᵢ), f(x, xᵢ)).

There is one problem per training row xᵢ considered, in which xᵢ is the row nearest to x. For a fixed share
μ ∈ [0, 1] of the penalty's slope, it is bounded below by a problem without penalty and with other costs,

    min Σ_f [f(x, x0) + μ λ lrd f(x, xᵢ)] + (1 - μ) λ lrd Δ,

which the engines solve. Every point found is a candidate. Rows that these bounds leave open are solved as
integer programs (`milp.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from robustcf.methods.family import Answer, Customer, Tools
from robustcf.methods.lof.milp import solve_row
from robustcf.methods.lof.neighbours import Neighbours, neighbours_of
from robustcf.methods.lof.points import Points, points_of
from robustcf.methods.threshold_family import Thresholds, concluded, numbers_at
from robustcf.methods.training import Training
from robustcf.problem.build import build_problem
from robustcf.problem.moves import Moves, moves_of
from robustcf.problem.problem import Problem
from robustcf.schema.check import distance
from robustcf.solve.contract import CutShort, Finished, Limits, Outcome, Solution
from robustcf.solve.grid import solve_grid
from robustcf.support.tolerances import COST_ROUNDING, LOF_CLOSED

if TYPE_CHECKING:
    from robustcf.methods.lof.method import LocalOutlierFactor

SHARES = 4  # values of μ tried between 0 and 1


class Outlier:
    """The threshold family with an additional 1-LOF penalty."""

    def __init__(self, thresholds: Thresholds, training: Training) -> None:
        self.thresholds, self.training = thresholds, training
        for target in training.targets:
            if len(training.predicted(target)) < 2:
                raise ValueError(
                    "LocalOutlierFactor needs two distinct training rows that the forest predicts "
                    f"as {target!r}"
                )

    def neighbours(self, row: Customer, method: LocalOutlierFactor) -> Neighbours:
        rows = self.training.predicted(row.target)
        return neighbours_of(self.thresholds.schema, rows, row.numbers, method.neighbours)

    def answers(self, row: Customer, methods: Sequence[LocalOutlierFactor], tools: Tools) -> list[Answer]:
        without_penalty = self.thresholds.answers(row, methods, tools)
        return [
            answer
            if answer.status not in ("optimal", "feasible")
            else self._answer(row, method, answer, tools)
            for method, answer in zip(methods, without_penalty, strict=True)
        ]

    def penalty(self, row: Customer, method: LocalOutlierFactor, point: np.ndarray) -> float:
        return method.weight * self.neighbours(row, method).outlier_factor(point)

    def complaints(
        self, row: Customer, method: LocalOutlierFactor, answer: Answer, encoded: np.ndarray
    ) -> list[str]:
        return []

    def _answer(self, row: Customer, method: LocalOutlierFactor, nearest: Answer, tools: Tools) -> Answer:
        near = self.neighbours(row, method)
        search = _Search(self.thresholds, row, method, near, tools)
        assert nearest.numbers is not None
        search.consider(nearest.numbers)
        outcome = search.run(nearest).outcome(search.upper)
        solution = Solution(outcome, search.best, search.upper, nearest.nodes + search.nodes)
        return concluded(solution, search.best)


@dataclass
class _Bounds:
    """Lower bounds per training row: `proved` by finished searches, `seen` by any."""

    proved: np.ndarray
    seen: np.ndarray

    def raise_to(self, i: int, bound: float, finished: bool) -> None:
        self.seen[i] = max(self.seen[i], bound)
        if finished:
            self.proved[i] = max(self.proved[i], bound)

    def outcome(self, upper: float) -> Outcome:
        """Return how the search ended; only `proved` bounds prove the best value."""
        if float(self.proved.min()) >= upper - LOF_CLOSED * abs(upper):
            return Finished()
        return CutShort(float(self.seen.min()))


@dataclass
class _Search:
    """The search for one customer and weight, with the best point so far."""

    thresholds: Thresholds
    row: Customer
    method: LocalOutlierFactor
    near: Neighbours
    tools: Tools
    upper: float = math.inf
    best: np.ndarray | None = None
    nodes: int = 0
    end: float = field(init=False)
    moves: Moves = field(init=False)
    points: Points = field(init=False)
    demand: int = field(init=False)

    def __post_init__(self) -> None:
        self.end = time.monotonic() + self.tools.limits.seconds
        geometry = self.thresholds.geometry
        self.moves = moves_of(geometry, self.row.numbers, self.row.encoded, split_ruled=True)
        self.points = points_of(geometry, self.moves, self.row.numbers, self.near)
        (self.demand,) = self.thresholds.demands(self.row.target, [self.method])

    def consider(self, point: np.ndarray) -> float:
        """Record a point that reaches the threshold; return its objective."""
        moved = distance(self.thresholds.schema, self.row.numbers, point)
        value = moved + self.method.weight * self.near.outlier_factor(point)
        if value < self.upper:
            self.upper, self.best = value, point
        return value

    def closed(self, bound: float) -> bool:
        """Whether a bound leaves nothing better, up to the allowed gap."""
        return bound >= self.upper - max(LOF_CLOSED, self.method.gap) * abs(self.upper)

    def run(self, nearest: Answer) -> _Bounds:
        """Search all training rows, the most promising first; return their bounds."""
        bounds = _Bounds(
            proved=self._at_least(nearest.objective if nearest.status == "optimal" else 0.0),
            seen=self._at_least(nearest.lower_bound),
        )
        open_, shares = [], {}
        for i in np.argsort(bounds.seen, kind="stable"):
            if not self.closed(bounds.proved[i]):
                shares[i] = self._bound(int(i), bounds)
                open_.append(i)
        for i in sorted(open_, key=lambda i: float(bounds.seen[i])):
            if not self.closed(bounds.proved[i]) and time.monotonic() < self.end:
                self._integer_program(int(i), shares[i], bounds)
        return bounds

    def _at_least(self, nearest: float) -> np.ndarray:
        """Return a lower bound on the objective for each training row.

        The threshold alone costs f(x, x0) ≥ nearest, and f(x, xᵢ) ≥ f(x0, xᵢ) - f(x, x0).
        """
        slope = self.method.weight * self.near.density
        if any(f.cost_table is not None for f in self.thresholds.schema.features):
            flat: np.ndarray = nearest + slope * self.near.delta  # table costs need not be a metric
            return flat
        apart = self.near.distances(self.row.numbers)
        turn = np.where(slope > 1.0, np.maximum(nearest, apart - self.near.delta), nearest)
        least: np.ndarray = turn + slope * np.maximum(self.near.delta, apart - turn)
        return least

    def _bound(self, i: int, bounds: _Bounds) -> float:
        """Raise row i's bounds by a few problems without penalty; return the best share μ."""
        slope, delta = self.method.weight * self.near.density[i], self.near.delta[i]
        best_share, low, high, share = 0.0, 0.0, 1.0, 1.0
        for _ in range(SHARES + 1):
            problem, moves, fixed = self.bounding_problem(i, share)
            solution = solve_grid(problem, [int(problem.demand[0])], self.tools.engine, self._limits())[0]
            self.nodes += solution.nodes
            if solution.lower_bound + fixed > bounds.seen[i]:
                best_share = share
            bounds.raise_to(i, solution.lower_bound + fixed, solution.finished)
            if solution.choice is None:
                break
            point = numbers_at(problem, solution.choice, moves, self.row.numbers)
            self.consider(point)
            reach = float(self.near.distances(point)[i])
            if self.closed(bounds.proved[i]) or abs(reach - delta) <= COST_ROUNDING * delta:
                break
            if time.monotonic() >= self.end:
                break
            if reach > delta:  # the penalty increases here: a larger share bounds better
                low = share
            else:
                high = share
            if low >= 1.0 or slope == 0.0:
                break
            share = (low + high) / 2
        return best_share

    def bounding_problem(self, i: int, share: float) -> tuple[Problem, Moves, float]:
        """Return the problem without penalty that bounds row i at a share μ.

        Also returns its moves and the constant (1 - μ) λ lrd Δ.
        """
        slope = self.method.weight * float(self.near.density[i])
        moves = self.points.moves(self.moves, self.points.own + share * slope * self.points.other[i])
        more = self.thresholds.leads(self.row.target, [self.demand])
        votes = np.vstack([self.thresholds.votes[self.row.target], more.votes])
        problem = build_problem(self.thresholds.geometry, moves, votes, self.demand, *more.demand)
        return problem, moves, (1 - share) * slope * float(self.near.delta[i])

    def _integer_program(self, i: int, share: float, bounds: _Bounds) -> None:
        problem, _, fixed = self.bounding_problem(i, share)
        found = solve_row(
            problem,
            self.upper - fixed,
            self.points,
            self.near,
            i,
            self.method.weight,
            self.upper,
            self.row.numbers,
            replace(self._limits(), gap=self.method.gap),
            self.tools.engine,
        )
        self.nodes += found.nodes
        for point in found.points:
            self.consider(point)
        if self.points.complete:
            bounds.raise_to(i, found.proved, finished=True)
            bounds.raise_to(i, found.seen, finished=False)

    def _limits(self) -> Limits:
        return replace(self.tools.limits, seconds=max(self.end - time.monotonic(), 0.01))
