"""The walk over all cheaper choices, against brute force on bare problems of two conditions."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from robustcf.problem.problem import Problem
from robustcf.solve import Limits, get_engine
from robustcf.solve.walk import cheapest_choice
from tests.helpers.problems import random_problem


def two_conditions(rng: np.random.Generator) -> Problem:
    """A random problem whose later trees vote for a second condition."""
    p = random_problem(rng)
    cut = p.tree_start[int(rng.integers(p.n_trees + 1))]
    votes = np.zeros((2, p.n_leaves), dtype=np.int64)
    votes[0, :cut], votes[1, cut:] = p.votes[0, :cut], p.votes[0, cut:]
    highest = [sum(v[a:b].max() for a, b in pairwise(p.tree_start)) for v in votes]
    demand = [int(rng.integers(h + 1)) if h > 0 else 0 for h in highest]
    return p._replace(votes=votes, demand=np.array(demand))


def test_the_walk_finds_what_brute_force_finds() -> None:
    rng, oracle, seen = np.random.default_rng(0), get_engine("oracle"), {"optimal": 0, "infeasible": 0}
    for k in range(400):
        problem = two_conditions(rng)
        truth = oracle.nearest(problem, Limits())
        upper = math.inf if k % 2 else truth.objective * 1.5 + 0.1
        choice, ended = cheapest_choice(problem, upper, 10**9)
        if not ended:
            assert not problem.n_trees or (np.diff(problem.start) == 1).all()  # nothing to walk
            continue
        seen[truth.status] += 1
        if truth.status == "infeasible":
            assert choice is None
        else:
            assert choice is not None
            assert problem.reaches(choice)
            assert problem.objective(choice) == pytest.approx(truth.objective, abs=1e-9)
            again, ended = cheapest_choice(problem, truth.objective, 10**9)
            assert ended
            assert again is None  # nothing is cheaper than the cheapest
    assert min(seen.values()) >= 20, seen


def test_a_walk_says_when_it_has_not_seen_everything() -> None:
    rng = np.random.default_rng(1)
    ends = [cheapest_choice(two_conditions(rng), math.inf, 1)[1] for _ in range(20)]
    assert not any(ends)


def test_trees_that_vote_for_two_conditions_are_left_to_others() -> None:
    problem = two_conditions(np.random.default_rng(2))
    both = problem._replace(votes=np.ones_like(problem.votes))
    assert cheapest_choice(both, math.inf, 10**9) == (None, False)
