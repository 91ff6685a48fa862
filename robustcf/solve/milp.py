"""Solve the problem by any solver of mixed-integer programs, with an exact check.

Solvers work with tolerances. The score rows are therefore relaxed slightly, and the votes of every solution
are counted again as integers. If a solution falls short, a cut excludes all choices with the same leaves,
and the solver runs again. What is called optimal is thus optimal in exact arithmetic.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.solve.contract import (
    BestScore,
    CutShort,
    Finished,
    Limits,
    Solution,
    cheapest,
    most_votes,
    settle,
)
from robustcf.solve.formulation import Milp, build_model, choice_of, cut_off, point_of, vote_unit
from robustcf.solve.scale import factor_for, scaled
from robustcf.support.tolerances import COARSE_COST, SOLVER_GAP


@dataclass(frozen=True)
class MilpResult:
    """A solver's unchecked result."""

    status: str  # "optimal", "infeasible" or "limit"
    x: np.ndarray | None
    bound: float
    nodes: int


class Backend(Protocol):
    name: str

    def solve(self, model: Milp, limits: Limits) -> MilpResult: ...


class MilpEngine:
    """An `Engine` on top of any MILP solver."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.name = backend.name

    def nearest(
        self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None, lower_bound: float = 0.0
    ) -> Solution:
        if (settled := settle(problem)) is not None:
            return settled
        end, nodes = time.monotonic() + limits.seconds, 0
        best = np.inf if incumbent is None else problem.objective(incumbent)
        factor = factor_for(float(problem.cost.max()) if incumbent is None else best)
        model = build_model(scaled(problem, factor))
        while True:
            model.start = None if incumbent is None else point_of(problem, incumbent)
            left = replace(limits, seconds=max(end - time.monotonic(), 0.0))
            result = self.backend.solve(model, left)
            nodes += result.nodes
            bound = result.bound / factor
            choice = None if result.x is None else choice_of(problem, result.x)
            if choice is not None and problem.reaches(choice):
                if problem.objective(choice) < best:
                    incumbent, best = choice, problem.objective(choice)
            elif choice is not None:
                cut_off(model, problem, choice)
                if result.status == "optimal":
                    lower_bound = max(lower_bound, min(bound, best))
                if time.monotonic() < end:
                    continue
                result = MilpResult("limit", None, result.bound, 0)
            if result.status == "limit":
                return Solution(CutShort(max(lower_bound, bound)), incumbent, best, nodes)
            if result.status == "infeasible" and incumbent is not None:  # the solver lost a known point
                return Solution(CutShort(lower_bound), incumbent, best, nodes)
            if (
                0.0 < best * factor < COARSE_COST
            ):  # tolerances were too coarse for this cost: rescale and repeat
                ratio = factor_for(best * factor)
                model.cost, model.offset, factor = model.cost * ratio, model.offset * ratio, factor * ratio
                continue
            if result.status == "optimal" and bound < best - SOLVER_GAP * abs(best):  # stopped at a gap
                return Solution(CutShort(max(lower_bound, bound)), incumbent, best, nodes)
            return Solution(Finished(), incumbent, best, nodes)

    def best_score(self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None) -> BestScore:
        if not problem.n_leaves:
            return BestScore(cheapest(problem), 0, 0)
        model = build_model(problem)
        unit = vote_unit(problem, 0)
        n_questions = model.n_binary
        model.cost = np.concatenate([np.zeros(n_questions), -problem.votes[0] / unit])
        model.offset = 0.0
        model.lower[-len(problem.demand)] = -np.inf  # the score is now the objective
        model.start = None if incumbent is None else point_of(problem, incumbent)
        end, found, choice = time.monotonic() + limits.seconds, -(2**62), incumbent
        if incumbent is not None:
            votes = problem.votes_of(incumbent)
            if (votes[1:] >= problem.demand[1:]).all():
                found = int(votes[0])
            else:
                choice = None
        while True:
            left = replace(limits, seconds=max(end - time.monotonic(), 0.0))
            result = self.backend.solve(model, left)
            candidate = None if result.x is None else choice_of(problem, result.x)
            if candidate is None:
                break
            votes = problem.votes_of(candidate)
            if (votes[1:] >= problem.demand[1:]).all():
                if int(votes[0]) > found:
                    found, choice = int(votes[0]), candidate
                break
            cut_off(model, problem, candidate)  # another condition is missed by the solver's tolerance
            model.start = None
            if time.monotonic() >= end:
                result = MilpResult("limit", None, result.bound, 0)
                break
        at_most = int(most_votes(problem)[0])
        if result.status != "infeasible" and np.isfinite(result.bound):
            at_most = min(at_most, int(np.floor((SOLVER_GAP - result.bound) * unit)))
        if choice is None:
            return BestScore(None, 0, at_most)
        if result.status == "optimal" and at_most <= found + 2 * SOLVER_GAP * unit:
            at_most = found
        return BestScore(choice, found, max(at_most, found))
