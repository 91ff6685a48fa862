"""Solve one customer's whole grid of thresholds together.

The optimum at a higher demand is feasible at every lower demand. The optimum at a lower demand is a lower
bound at every higher demand. The grid is therefore solved in increasing order, with one pool of points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.problem.reduction import choice_within, inside, reduce
from robustcf.solve.contract import BestScore, CutShort, Engine, Finished, Limits, Solution, cheapest, settle
from robustcf.solve.engine import OwnEngine
from robustcf.solve.incumbent import find_incumbent, improve
from robustcf.solve.shared import Shared
from robustcf.support.tolerances import COST_ROUNDING


@dataclass
class Pool:
    """Points found so far, as choices of one problem, with their votes and costs."""

    problem: Problem
    points: list[tuple[np.ndarray, np.ndarray, float]] = field(default_factory=list)

    def add(self, choice: np.ndarray) -> None:
        self.points.append((choice, self.problem.votes_of(choice), self.problem.objective(choice)))

    def best(self, demand: np.ndarray) -> tuple[np.ndarray | None, float]:
        """Return the cheapest point that reaches a demand, and its cost."""
        reaching = [(choice, cost) for choice, votes, cost in self.points if (votes >= demand).all()]
        return min(reaching, key=lambda point: point[1], default=(None, math.inf))


@dataclass(frozen=True)
class Lower:
    """Bounds from lower demands: `proved` by finished searches, `seen` by any."""

    proved: float = 0.0
    seen: float = 0.0

    def raised(self, solution: Solution) -> Lower:
        proved = solution.objective if solution.finished else 0.0
        return Lower(max(self.proved, proved), max(self.seen, solution.lower_bound))


def solve_grid(
    problem: Problem,
    demands: Sequence[int],
    engine: Engine,
    limits: Limits,
    known: Sequence[np.ndarray] = (),
    lower: float = 0.0,
) -> list[Solution]:
    """Return the nearest choice at each demand of the first condition.

    `problem.demand[0]` is ignored. Choices are positions in `problem`. `known` are choices to start
    from; they need not reach a demand. `lower` is a proved bound on the cost at every demand.
    """
    solutions: dict[int, Solution] = {}
    pool = Pool(problem)
    for choice in known:
        pool.add(choice)
    at = {demand: problem._replace(demand=_with_first(problem, demand)) for demand in sorted(set(demands))}
    settled = {demand: settle(p) for demand, p in at.items()}
    for demand, p in at.items():
        if settled[demand] is None and (found := find_incumbent(p, cheapest(p))) is not None:
            pool.add(found)
    nearest, shared = engine.nearest, None
    costs = [cost for p in at.values() if math.isfinite(cost := pool.best(p.demand)[1])]
    if isinstance(engine, OwnEngine) and len(costs) > 1:
        shared = Shared(problem, costs)
        nearest = partial(engine.nearest, shared=shared)
    bounds = Lower(lower, lower)
    for demand, p in at.items():
        if shared is not None:
            shared.set_demand(p.demand)
        solution = settled[demand] or _solve_one(p, pool, nearest, limits, bounds)
        if solution.status == "infeasible":  # every higher demand is infeasible too
            solutions |= {d: solution for d in at if d >= demand}
            break
        solutions[demand] = solution
        if solution.choice is not None:
            pool.add(solution.choice)
        bounds = bounds.raised(solution)
    return [solutions[demand] for demand in demands]


def _with_first(problem: Problem, demand: int) -> np.ndarray:
    return np.concatenate([[demand], problem.demand[1:]]).astype(np.int64)


def _solve_one(
    p: Problem, pool: Pool, nearest: Callable[..., Solution], limits: Limits, lower: Lower
) -> Solution:
    incumbent, _ = pool.best(p.demand)
    if incumbent is not None:
        incumbent = improve(p, incumbent)
        objective = p.objective(incumbent)
        if objective <= lower.proved * (1 + COST_ROUNDING):
            return Solution(Finished(), incumbent, objective)
    reduced = reduce(p, math.inf if incumbent is None else p.objective(incumbent))
    solution = nearest(reduced, limits, inside(reduced, p, incumbent), lower.seen)
    return _in_terms_of(p, reduced, solution, incumbent, lower.seen)


def _in_terms_of(
    p: Problem, reduced: Problem, solution: Solution, incumbent: np.ndarray | None, lower: float
) -> Solution:
    """Turn a reduced problem's solution into one of the whole problem.

    The result is the better of the solution and the incumbent. The reduced problem holds every choice that
    is cheaper than the incumbent, so a finished search of it proves this result.
    """
    choice = None
    if solution.choice is not None:
        choice = choice_within(p, reduced.cell[reduced.start[:-1] + solution.choice])
        if choice is None or not p.reaches(choice):
            raise RuntimeError("an engine's choice does not reach the demand of the whole problem")
    if incumbent is not None and (choice is None or p.objective(incumbent) < p.objective(choice)):
        choice = incumbent
    outcome = solution.outcome
    if isinstance(outcome, CutShort):
        outcome = CutShort(max(lower, outcome.bound))
    if choice is None:
        return replace(solution, outcome=outcome)
    return Solution(outcome, choice, p.objective(choice), solution.nodes)


def is_reachable(problem: Problem, engine: Engine, limits: Limits) -> bool | None:
    """Return whether any choice reaches the demand; None if the search was cut short."""
    settled = settle(problem)
    if settled is not None:
        return settled.choice is not None
    if find_incumbent(problem, cheapest(problem)) is not None:
        return True
    solution = engine.nearest(reduce(problem, math.inf), limits)
    return None if solution.status == "unknown" else solution.choice is not None


def highest_score(problem: Problem, engine: Engine, limits: Limits) -> BestScore:
    """Return the most votes of the first condition, at any cost."""
    reduced = reduce(problem._replace(cost=np.zeros_like(problem.cost)), math.inf)
    best = engine.best_score(reduced, limits)
    folded = int(problem.demand[0] - reduced.demand[0])  # votes of trees with a single outcome
    if best.choice is None:
        return BestScore(None, 0, best.at_most + folded)
    choice = choice_within(problem, reduced.cell[reduced.start[:-1] + best.choice])
    return BestScore(choice, best.votes + folded, best.at_most + folded)
