"""Run one engine briefly, then a second one for the remaining time.

The own engine's prices are weak on problems with isolation trees, which HiGHS can prove. The second engine
starts from the first one's point and bound.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.solve.contract import BestScore, Engine, Limits, Solution

FIRST_NODES = 64  # node limit of the first engine; a time limit would make runs differ


class HandOver:
    """An engine that tries `first` briefly and then runs `second`."""

    def __init__(self, first: Engine, second: Engine) -> None:
        self.first, self.second, self.name = first, second, first.name

    def nearest(
        self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None, lower_bound: float = 0.0
    ) -> Solution:
        end = time.monotonic() + limits.seconds
        tried = self.first.nearest(problem, _short(limits), incumbent, lower_bound)
        if tried.finished:
            return tried
        known = incumbent if tried.choice is None else tried.choice
        bound = max(lower_bound, tried.lower_bound)
        solved = self.second.nearest(problem, _left(limits, end), known, bound)
        return replace(solved, nodes=tried.nodes + solved.nodes)

    def best_score(self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None) -> BestScore:
        end = time.monotonic() + limits.seconds
        tried = self.first.best_score(problem, _short(limits), incumbent)
        if tried.choice is not None and tried.votes >= tried.at_most:
            return tried
        known = incumbent if tried.choice is None else tried.choice
        solved = self.second.best_score(problem, _left(limits, end), known)
        if solved.choice is None:
            return solved if tried.choice is None else tried
        return replace(solved, at_most=max(solved.votes, min(solved.at_most, tried.at_most)))


def _short(limits: Limits) -> Limits:
    return replace(limits, nodes=FIRST_NODES)


def _left(limits: Limits, end: float) -> Limits:
    return replace(limits, seconds=max(end - time.monotonic(), 0.01))
