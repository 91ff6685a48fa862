"""Brute force over every choice, for tests and for problems with few choices."""

from __future__ import annotations

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.solve.contract import BestScore, Finished, Limits, Solution, SolverError

MOST_CHOICES = 2_000_000


class Oracle:
    """Reference for all other engines on small problems.

    It uses only the definition of `Problem`.
    """

    name = "oracle"

    def nearest(
        self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None, lower_bound: float = 0.0
    ) -> Solution:
        choices, votes = _all_choices(problem)
        reaching = (votes >= problem.demand).all(axis=1)
        if not reaching.any():
            return Solution(Finished(), nodes=len(choices))
        costs = problem.cost[problem.start[:-1] + choices[reaching]].sum(axis=1)
        choice = choices[reaching][costs.argmin()]
        return Solution(Finished(), choice, problem.objective(choice), len(choices))

    def best_score(self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None) -> BestScore:
        choices, votes = _all_choices(problem)
        allowed = (votes[:, 1:] >= problem.demand[1:]).all(axis=1)
        if not allowed.any():
            return BestScore(None, 0, 0)
        best = int(votes[allowed, 0].max())
        return BestScore(choices[allowed][votes[allowed, 0].argmax()], best, best)


def _all_choices(p: Problem) -> tuple[np.ndarray, np.ndarray]:
    sizes = np.diff(p.start)
    count = int(np.prod(sizes.astype(float)))
    if count > MOST_CHOICES:
        raise SolverError(f"the oracle tries at most {MOST_CHOICES} choices, and this problem has {count}")
    if p.n_trees and (np.diff(p.tree_start) == 0).any():  # a tree without an open leaf
        return np.zeros((0, len(sizes)), dtype=np.int64), np.zeros((0, len(p.demand)), dtype=np.int64)
    choices = np.indices(tuple(sizes.tolist())).reshape(len(sizes), -1).T
    votes = np.zeros((len(choices), len(p.demand)), dtype=np.int64)
    for leaf in range(p.n_leaves):
        inside = np.ones(len(choices), dtype=bool)
        for e in range(p.entry_start[leaf], p.entry_start[leaf + 1]):
            option = choices[:, p.feature[e]]
            if p.set[e] >= 0:
                inside &= p.member[p.set[e], option]
            else:
                inside &= (p.lo[e] <= option) & (option <= p.hi[e])
        votes[inside] += p.votes[:, leaf]
    return choices, votes
