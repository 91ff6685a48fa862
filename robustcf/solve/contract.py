"""The interface of all engines: their inputs and results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.support.jit import compiled


class SolverError(RuntimeError):
    """Raised when a solver is not installed, lacks a sufficient licence, or fails."""


@dataclass(frozen=True)
class Limits:
    """Limits set on every solver: wall-clock seconds, threads, seed and relative gap.

    `nodes` limits the work of robustcf's own engine instead of its time. What it then hands over to
    another engine does not depend on the load of the machine.
    """

    seconds: float = 60.0
    threads: int = 1
    seed: int = 0
    gap: float = 0.0
    nodes: float = math.inf


@dataclass(frozen=True)
class Finished:
    """The search ran to its end: no choice is better than the one it returns."""


@dataclass(frozen=True)
class CutShort:
    """A limit stopped the search. `bound` describes its progress, not a proof."""

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
        """A lower bound on the cost of every choice."""
        if isinstance(self.outcome, CutShort):
            return min(self.outcome.bound, self.objective)
        return self.objective


@dataclass(frozen=True)
class BestScore:
    """The most votes of the first condition: `votes` found, `at_most` possible."""

    choice: np.ndarray | None
    votes: int
    at_most: int


class Engine(Protocol):
    """Finds the nearest choice at a demand, and the highest score of any choice."""

    name: str

    def nearest(
        self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None, lower_bound: float = 0.0
    ) -> Solution: ...

    def best_score(
        self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None
    ) -> BestScore: ...


@compiled
def cheapest(problem: Problem) -> np.ndarray:
    """Return each feature's cheapest option."""
    choice = np.zeros(len(problem.start) - 1, dtype=np.int64)
    for f in range(len(choice)):
        first = problem.start[f]
        for o in range(problem.start[f + 1] - first):
            if problem.cost[first + o] < problem.cost[first + choice[f]]:
                choice[f] = o
    return choice


def most_votes(problem: Problem) -> np.ndarray:
    """Return the sum of all trees' best leaves, an upper bound on the votes."""
    if not problem.n_trees:
        return np.zeros(len(problem.demand), dtype=np.int64)
    most: np.ndarray = np.maximum.reduceat(problem.votes, problem.tree_start[:-1], axis=1).sum(axis=1)
    return most


def settle(problem: Problem) -> Solution | None:
    """Solve the problem without a search if possible, else return None.

    No search is needed if nothing can reach the demand, or if the cheapest choice reaches it.
    """
    if problem.has_closed_tree:  # a tree without an open leaf
        return Solution(Finished())
    if (most_votes(problem) < problem.demand).any():
        return Solution(Finished())
    choice = cheapest(problem)
    if problem.reaches(choice):
        return Solution(Finished(), choice, problem.objective(choice))
    return None
