"""What every engine takes and gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from robustcf.problem import Problem


class SolverError(RuntimeError):
    """A solver that is not there, has no licence that admits the problem, or failed."""


@dataclass(frozen=True)
class Limits:
    """Set explicitly on every solver: wall-clock seconds, threads, seed and relative gap.

    `nodes` bounds our own engine's search by work instead of time, so that what is handed over to
    another engine does not depend on how busy the machine is.
    """

    seconds: float = 60.0
    threads: int = 1
    seed: int = 0
    gap: float = 0.0
    nodes: float = math.inf


@dataclass(frozen=True)
class Solution:
    """The best choice found and what is proved about it.

    `optimal`: no choice is cheaper. `feasible`: the limit came first; the optimum lies between
    `lower_bound` and `objective`. `infeasible`: proved that no choice reaches the demand.
    `unknown`: the limit came before anything was found or proved.
    """

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    choice: np.ndarray | None
    objective: float
    lower_bound: float
    nodes: int = 0


@dataclass(frozen=True)
class BestScore:
    """The most votes (of the first condition) that any choice reaches: found, and at most."""

    choice: np.ndarray | None
    votes: int
    at_most: int


class Engine(Protocol):
    """Nearest choice that reaches the demand, and the highest score of any choice."""

    name: str

    def nearest(
        self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None, lower_bound: float = 0.0
    ) -> Solution: ...

    def best_score(
        self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None
    ) -> BestScore: ...


def cheapest(problem: Problem) -> np.ndarray:
    """Each feature's cheapest option."""
    pairs = zip(problem.start[:-1], problem.start[1:], strict=True)
    return np.array([problem.cost[a:b].argmin() for a, b in pairs], dtype=np.int64)


def settle(problem: Problem) -> Solution | None:
    """The answer, where it is plain without a search: nothing can reach, or nothing need move."""
    if (np.diff(problem.tree_start) == 0).any():  # a tree without an open leaf
        return Solution("infeasible", None, np.inf, np.inf)
    highest = np.zeros(len(problem.demand), dtype=np.int64)
    if problem.n_trees:
        highest = np.maximum.reduceat(problem.votes, problem.tree_start[:-1], axis=1).sum(axis=1)
    if (highest < problem.demand).any():
        return Solution("infeasible", None, np.inf, np.inf)
    choice = cheapest(problem)
    if problem.reaches(choice):
        return Solution("optimal", choice, problem.objective(choice), problem.objective(choice))
    return None
