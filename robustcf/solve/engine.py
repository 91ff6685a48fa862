"""robustcf's own exact engine: `branch_and_bound` behind the interface of all engines."""

from __future__ import annotations

import math
import time
from functools import cache

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.problem.reduction import choice_within, inside, reduce, restrict
from robustcf.solve.bounds import quick_prices
from robustcf.solve.branch_and_bound import Search, deep_stack, reach_search, without_costs
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
from robustcf.solve.factors import build_factors, vote_units
from robustcf.solve.incumbent import climb_votes, find_incumbent, improve
from robustcf.solve.prices import Relaxation
from robustcf.solve.scale import factor_for, scaled
from robustcf.solve.search import CHEAPEST, MOST
from robustcf.solve.shared import Shared
from robustcf.solve.strong_branching import OpenSubtree
from robustcf.support.tolerances import MISSING_VOTES


@cache
def compile_kernels() -> None:
    """Compile every kernel (once per machine) and load it (once per process).

    Compilation then does not count towards a row's time limit.
    """
    whole = Problem(
        start=np.array([0, 3, 6]),
        cost=np.array([0.0, 1.0, 2.0, 0.0, 0.5, 0.5]),
        cell=np.arange(6),
        ordered=np.array([True, False]),
        tree_start=np.array([0, 3, 5]),
        votes=np.array([[0, 1, 0, 1, 0]]),
        demand=np.array([2]),
        entry_start=np.array([0, 2, 4, 5, 6, 7]),
        feature=np.array([0, 1, 0, 1, 0, 1, 1]),
        lo=np.array([0, 0, 0, 0, 2, 0, 0]),
        hi=np.array([1, 2, 1, 2, 2, 2, 2]),
        set=np.array([-1, 0, -1, 1, -1, 2, 3]),
        member=np.array([[1, 0, 0], [0, 1, 1], [0, 1, 0], [1, 0, 1]], dtype=bool),
    )
    problem = restrict(whole, np.ones(6, dtype=bool), math.inf)
    find_incumbent(problem, cheapest(problem))
    inside(problem, whole, cheapest(whole))
    choice_within(problem, problem.cell[:2])
    units, never = vote_units(problem), time.monotonic() + 1e9
    for goal in (MOST, CHEAPEST):
        search = Search(math.inf, goal, units, never)
        reduced = reduce(problem, math.inf)
        F = build_factors(reduced, units)
        quick_prices(F, np.array([1.0]), 1, search.by_votes)
        everything = np.ones(len(F.cost), dtype=bool)
        relaxation = Relaxation(reduced, F, search.by_votes)
        relaxation.bound(everything, 1e9)
        relaxation.undecided(1)
        search.round_relaxation(reduced, relaxation)
        node, stack = OpenSubtree(everything, -math.inf, relaxation.prices()), deep_stack(F)
        search.filter_options(F, stack, node)
        search.search_subtree(reduced, F, stack, node, 9)
    climb_votes(problem, improve(problem, np.array([1, 1])))


class OwnEngine:
    """robustcf's own branch and bound, the default engine."""

    name = "engine"

    def __init__(self) -> None:
        compile_kernels()

    def nearest(
        self,
        problem: Problem,
        limits: Limits,
        incumbent: np.ndarray | None = None,
        lower_bound: float = 0.0,
        shared: Shared | None = None,
    ) -> Solution:
        """Solve as `Engine.nearest`; `shared` is the relaxation of the problem's grid."""
        if (settled := settle(problem)) is not None:
            return settled
        end, units, nodes = time.monotonic() + limits.seconds, vote_units(problem), 0
        if incumbent is None:  # find any choice that reaches the demand first
            reach = reach_search(problem, units, end, limits.nodes)
            outcome, nodes = reach.solve(without_costs(problem)), reach.nodes
            if reach.cells is None:
                return Solution(
                    outcome if isinstance(outcome, Finished) else CutShort(lower_bound), nodes=nodes
                )
            reached = choice_within(problem, reach.cells)
            assert reached is not None
            incumbent = improve(problem, reached)
        factor = factor_for(problem.objective(incumbent))
        if shared is not None:
            shared.scale(factor)
        search = Search(
            problem.objective(incumbent) * factor, CHEAPEST, units, end, limits.nodes, shared=shared
        )
        outcome = search.solve(scaled(problem, factor))
        choice = incumbent if search.cells is None else choice_within(problem, search.cells)
        assert choice is not None
        choice = improve(problem, choice)  # the search ignores savings below LEAST_SAVING
        if isinstance(outcome, CutShort):
            outcome = CutShort(max(outcome.bound / factor, lower_bound))
        return Solution(outcome, choice, problem.objective(choice), nodes + search.nodes)

    def best_score(self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None) -> BestScore:
        if problem.has_closed_tree:
            return BestScore(None, 0, 0)
        units, demand = vote_units(problem), int(problem.demand[0])
        search = Search(math.inf, MOST, units, time.monotonic() + limits.seconds, limits.nodes)
        search.try_choice(
            problem, climb_votes(problem, cheapest(problem) if incumbent is None else incumbent)
        )
        outcome = search.solve(without_costs(problem))
        choice = None if search.cells is None else choice_within(problem, search.cells)
        votes = 0 if choice is None else int(problem.votes_of(choice)[0])
        if isinstance(outcome, Finished):
            return BestScore(choice, votes, votes)
        at_most = int(most_votes(problem)[0])
        if math.isfinite(outcome.bound):
            at_most = min(at_most, demand - math.ceil((outcome.bound - MISSING_VOTES) * units[0]))
        return BestScore(choice, votes, max(votes, at_most))
