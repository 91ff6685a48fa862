"""One customer's whole grid of thresholds, solved together.

The optimum at a higher demand is feasible at every lower one, and the optimum at a lower demand
is a lower bound at every higher one, so the grid is climbed upwards with one pool of points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robustcf.problem import Problem, choice_within, inside, reduce
from robustcf.solve.contract import BestScore, Engine, Limits, Solution, cheapest, settle
from robustcf.solve.engine import OwnEngine
from robustcf.solve.incumbent import find_incumbent, improve
from robustcf.solve.shared import Shared


@dataclass
class Pool:
    """Points found so far, as choices of one problem, with their votes and costs."""

    problem: Problem
    choices: list[np.ndarray]

    def add(self, choice: np.ndarray) -> None:
        self.choices.append(choice)

    def best(self, demand: np.ndarray) -> np.ndarray | None:
        """The cheapest point that reaches a demand."""
        reaching = [c for c in self.choices if (self.problem.votes_of(c) >= demand).all()]
        return min(reaching, key=self.problem.objective, default=None)


def solve_grid(
    problem: Problem,
    demands: Sequence[int],
    engine: Engine,
    limits: Limits,
    known: Sequence[np.ndarray] = (),
) -> list[Solution]:
    """The nearest choice at each demand (of the first condition), in the order given.

    `problem.demand[0]` is ignored; the solutions' choices are positions in `problem`, as are those
    of `known` (choices to start from, good or not).
    """
    solutions: dict[int, Solution] = {}
    pool = Pool(problem, list(known))
    at = {demand: problem._replace(demand=_with_first(problem, demand)) for demand in sorted(set(demands))}
    for p in at.values():
        if settle(p) is None and (found := find_incumbent(p, cheapest(p))) is not None:
            pool.add(found)
    shared = _shared(problem, at.values(), pool) if isinstance(engine, OwnEngine) else None
    lower = 0.0
    for demand, p in at.items():
        solution = _solve_one(p, pool, engine, limits, lower, shared)
        if solution.status == "infeasible":  # and so is every higher demand
            solutions |= {d: solution for d in at if d >= demand}
            break
        solutions[demand] = solution
        if solution.choice is not None:
            pool.add(solution.choice)
        lower = max(lower, solution.lower_bound)
    return [solutions[demand] for demand in demands]


def _shared(problem: Problem, demands: Iterable[Problem], pool: Pool) -> Shared | None:
    """A relaxation for all of several demands that something is known to reach."""
    reached = [best for p in demands if (best := pool.best(p.demand)) is not None]
    return Shared(problem, [problem.objective(best) for best in reached]) if len(reached) > 1 else None


def _with_first(problem: Problem, demand: int) -> np.ndarray:
    return np.concatenate([[demand], problem.demand[1:]]).astype(np.int64)


def _solve_one(
    p: Problem, pool: Pool, engine: Engine, limits: Limits, lower: float, shared: Shared | None = None
) -> Solution:
    if (settled := settle(p)) is not None:
        return settled
    incumbent = pool.best(p.demand)
    if incumbent is not None:
        incumbent = improve(p, incumbent)
        objective = p.objective(incumbent)
        if objective <= lower * (1 + 1e-12):
            return Solution("optimal", incumbent, objective, objective)
    reduced = reduce(p, math.inf if incumbent is None else p.objective(incumbent))
    start = inside(reduced, p, incumbent)
    if shared is not None and isinstance(engine, OwnEngine):
        shared.ask(p.demand)
        solution = engine.nearest(reduced, limits, start, lower, shared)
    else:
        solution = engine.nearest(reduced, limits, start, lower)
    return _in_terms_of(p, reduced, solution, incumbent, lower)


def _in_terms_of(
    p: Problem, reduced: Problem, solution: Solution, incumbent: np.ndarray | None, lower: float
) -> Solution:
    """A reduced problem's solution as one of the whole problem, joined with what was known."""
    choice = None
    if solution.choice is not None:
        choice = choice_within(p, reduced.cell[reduced.start[:-1] + solution.choice])
        if choice is None or not p.reaches(choice):
            raise RuntimeError("an engine's choice does not reach the demand of the whole problem")
    if incumbent is not None and (choice is None or p.objective(incumbent) < p.objective(choice)):
        choice = incumbent
    if choice is None:
        return replace(solution, lower_bound=max(lower, solution.lower_bound))
    objective = p.objective(choice)
    if solution.status in ("optimal", "infeasible"):  # nothing cheaper than the incumbent is left
        return Solution("optimal", choice, objective, objective, solution.nodes)
    bound = min(max(lower, solution.lower_bound), objective)
    return Solution("feasible", choice, objective, bound, solution.nodes)


def highest_score(problem: Problem, engine: Engine, limits: Limits) -> BestScore:
    """The most votes of the first condition that any choice reaches, costs aside."""
    reduced = reduce(problem._replace(cost=np.zeros_like(problem.cost)), math.inf)
    best = engine.best_score(reduced, limits)
    folded = int(problem.demand[0] - reduced.demand[0])  # votes of trees that had one outcome left
    if best.choice is None:
        return BestScore(None, 0, best.at_most + folded)
    choice = choice_within(problem, reduced.cell[reduced.start[:-1] + best.choice])
    return BestScore(choice, best.votes + folded, best.at_most + folded)
