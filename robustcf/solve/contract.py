"""What every engine takes and gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from robustcf.problem.problem import Problem


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
class Finished:
    """The search ran to its end: a better choice than the one it returns does not exist."""


@dataclass(frozen=True)
class CutShort:
    """A limit stopped the search. `bound` describes how far it came and proves nothing."""

    bound: float


Outcome = Finished | CutShort


@dataclass(frozen=True)
class Solution:
    """The best choice found, and how the search for it ended.

    `status` is derived here and nowhere else, so that only a search that finished can prove anything:

    - `optimal`: finished with a choice. No choice is cheaper.
    - `infeasible`: finished without a choice. No choice reaches the demand.
    - `feasible`: cut short with a choice. The optimum lies between `lower_bound` and `objective`.
    - `unknown`: cut short without a choice.
    """

    outcome: Outcome
    choice: np.ndarray | None = None
    objective: float = math.inf
    nodes: int = 0

    @property
    def finished(self) -> bool:
        return isinstance(self.outcome, Finished)

    @property
    def status(self) -> Literal["optimal", "feasible", "infeasible", "unknown"]:
        if self.choice is None:
            return "infeasible" if self.finished else "unknown"
        return "optimal" if self.finished else "feasible"

    @property
    def lower_bound(self) -> float:
        """What every choice costs at least."""
        if isinstance(self.outcome, CutShort):
            return min(self.outcome.bound, self.objective)
        return self.objective


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


def most_votes(problem: Problem) -> np.ndarray:
    """Votes per condition if every tree gave its most: an upper bound for every choice."""
    if not problem.n_trees:
        return np.zeros(len(problem.demand), dtype=np.int64)
    most: np.ndarray = np.maximum.reduceat(problem.votes, problem.tree_start[:-1], axis=1).sum(axis=1)
    return most


def settle(problem: Problem) -> Solution | None:
    """The answer where no search is needed: nothing reaches the demand, or the cheapest choice does."""
    if (np.diff(problem.tree_start) == 0).any():  # a tree without an open leaf
        return Solution(Finished())
    if (most_votes(problem) < problem.demand).any():
        return Solution(Finished())
    choice = cheapest(problem)
    if problem.reaches(choice):
        return Solution(Finished(), choice, problem.objective(choice))
    return None
