"""Propagation drops only options that no cheaper choice uses, and closes only nodes without such a choice."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from robustcf.problem.problem import Problem
from robustcf.problem.reduction import reduce
from robustcf.solve.factors import build_factors, vote_units
from robustcf.solve.propagation import propagate, scratch_for
from robustcf.solve.search import new_stack, start_search
from tests.helpers.early_stops import with_conditions
from tests.helpers.problems import random_problem


def cheaper_choices(problem: Problem, upper: float) -> list[np.ndarray]:
    """All choices that reach every demand and cost less than `upper`, by brute force."""
    sizes = [range(n) for n in np.diff(problem.start)]
    choices = (np.array(c) for c in itertools.product(*sizes))
    return [c for c in choices if problem.reaches(c) and problem.objective(c) < upper - 1e-9]


def most_votes_with(problem: Problem, alive: np.ndarray, option: int) -> np.ndarray:
    """The most votes per condition and tree, summed, among the leaves that the options alive reach."""
    f = int(np.searchsorted(problem.start, option, side="right")) - 1
    here = alive.copy()
    here[problem.start[f] : problem.start[f + 1]] = False
    here[option] = True
    total = np.zeros(len(problem.demand), dtype=np.int64)
    for first, last in itertools.pairwise(problem.tree_start):
        reached = [leaf for leaf in range(first, last) if _open(problem, here, leaf)]
        total += problem.votes[:, reached].max(axis=1) if reached else -(2**40)
    return total


def _open(problem: Problem, alive: np.ndarray, leaf: int) -> bool:
    for e in range(problem.entry_start[leaf], problem.entry_start[leaf + 1]):
        f = problem.feature[e]
        options = np.arange(problem.start[f + 1] - problem.start[f])
        if problem.set[e] >= 0:
            inside = problem.member[problem.set[e], options]
        else:
            inside = (problem.lo[e] <= options) & (options <= problem.hi[e])
        if not (alive[problem.start[f] : problem.start[f + 1]] & inside).any():
            return False
    return True


@pytest.mark.parametrize("conditions", [0, 1, 2])
def test_what_is_dropped_is_in_no_cheaper_choice(conditions: int) -> None:
    rng, closed, dropped, kept = np.random.default_rng(conditions), 0, 0, 0
    for _ in range(400):
        problem = random_problem(rng)
        if conditions:
            problem = with_conditions(rng, problem, conditions)
        problem = reduce(problem, math.inf)
        if not problem.n_leaves or (np.diff(problem.tree_start) == 0).any():
            continue
        dearest = np.maximum.reduceat(problem.cost, problem.start[:-1]).sum()
        upper = math.inf if rng.random() < 0.3 else float(rng.random() * dearest)
        F = build_factors(problem, vote_units(problem))
        stack = new_stack(F, 1)
        start_search(stack, np.ones(len(F.cost), dtype=bool), -math.inf)
        alive, most = stack.alive[0], np.empty((len(problem.demand), len(F.cost)), dtype=np.int64)
        floor = propagate(
            F, problem, alive, stack.changed[0], stack.segalive[0], stack.dirty[0], stack.tree_most[0],
            stack.seg_most[0], stack.stale[0], most, scratch_for(F), upper,
        )  # fmt: skip
        cheaper = cheaper_choices(problem, upper)
        if floor == math.inf:
            assert not cheaper
            closed += 1
            continue
        assert all(alive[problem.start[:-1] + choice].all() for choice in cheaper)
        dropped += int((~alive).sum())
        kept += int(alive.sum())
        for option in np.flatnonzero(alive):  # nothing more can be dropped: a fixpoint
            assert (most[:, option] == most_votes_with(problem, alive, option)).all()
            assert (most[:, option] >= problem.demand).all()
    assert min(closed, dropped, kept) > 50
