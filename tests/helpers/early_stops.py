"""A clock that strikes and a node budget that runs out, anywhere; and what an answer may claim then."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import robustcf as rc
from robustcf.methods.isolation import first_points as starts
from robustcf.problem.problem import Problem
from robustcf.problem.reduction import restrict
from robustcf.solve import Limits, branch_and_bound, grid
from robustcf.solve.formulation import Milp
from robustcf.solve.highs import Highs
from robustcf.solve.milp import MilpResult
from tests.helpers.plausible_by_hand import Expected


@contextmanager
def clock_that_strikes(look: int) -> Iterator[None]:
    """After so many looks at the clock, a million seconds have passed, for every module and for HiGHS."""
    real, solve, seen = time.monotonic, Highs.solve, 0

    def monotonic() -> float:
        nonlocal seen
        seen += 1
        return real() + (1e6 if seen > look else 0.0)

    def solve_in_time(self: Highs, model: Milp, limits: Limits) -> MilpResult:
        return MilpResult("limit", None, -math.inf, 0) if seen > look else solve(self, model, limits)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", monotonic)
        patch.setattr(Highs, "solve", solve_in_time)
        yield


@contextmanager
def impatient(settings: dict[str, float]) -> Iterator[None]:
    """Engine settings under which small problems take every path of the search."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setattr(branch_and_bound, name, value)
        yield


@contextmanager
def without_first_points(chosen: bool) -> Iterator[None]:
    """If chosen: no first point, and no walk over all cheaper choices, so that all must be searched for."""
    with pytest.MonkeyPatch.context() as patch:
        if chosen:
            patch.setattr(grid, "find_incumbent", lambda problem, start: None)
            patch.setattr(starts, "find_incumbent", lambda problem, start: None)
            patch.setattr(starts, "WORDS", 0)
        yield


def with_conditions(rng: np.random.Generator, problem: Problem, count: int) -> Problem:
    """The problem with further conditions on the same leaves; some demands equal the most possible votes."""
    extra = rng.integers(-3, 9, (count, problem.votes.shape[1]))
    votes = np.vstack([problem.votes, extra]).astype(np.int64)
    most = np.maximum.reduceat(votes, problem.tree_start[:-1], axis=1).sum(axis=1)
    least = np.minimum.reduceat(votes, problem.tree_start[:-1], axis=1).sum(axis=1)
    demand = np.concatenate(
        [problem.demand, (least[1:] + rng.random(count) * (most - least)[1:]).astype(np.int64)]
    )
    if rng.random() < 0.5:
        demand[0] = most[0]
    wider = problem._replace(votes=votes, demand=demand)
    return restrict(wider, np.ones(len(problem.cost), dtype=bool), math.inf)


def check_claims(answer: rc.Counterfactual, truth: Expected) -> None:
    """Nothing that an answer says is refuted by brute force, whenever it was stopped."""
    low, high = truth.objective
    slack = 1e-7 * max(1.0, abs(high)) if math.isfinite(high) else 0.0
    if answer.status == "optimal":
        assert truth.status == "optimal"
        assert low - slack <= answer.objective <= high + slack
    elif answer.status == "no_recourse":
        assert truth.status == "no_recourse"
        if not math.isnan(answer.best_score):
            assert answer.best_score <= truth.best_score + 1e-9
            assert truth.best_score <= answer.best_score + answer.best_score_gap + 1e-9
    elif answer.status == "relaxed":
        assert truth.status == "relaxed"
        assert answer.relaxation >= truth.relaxation - 1e-7
    elif answer.status == "heuristic":
        assert truth.status == "heuristic"
        assert answer.objective >= low - 1e-9
    elif answer.status == "feasible":
        assert truth.status == "optimal"
        assert answer.objective >= low - slack
        assert answer.lower_bound <= high + slack
    else:
        assert answer.status == "timeout", answer
        if truth.status == "optimal" and not math.isnan(answer.lower_bound):
            assert answer.lower_bound <= high + slack
    if answer.point is not None:
        assert answer.verified, answer.reason


def with_nodes(explainer: rc.Explainer, nodes: float) -> None:
    """Limit the explainer's searches to so many nodes."""
    explainer.limits = replace(explainer.limits, nodes=nodes)
    explainer._best.clear()
