"""One customer's nearest points at the levels of the score, each solved when it is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from robustcf.forest.forest import Forest, Label, Voting
from robustcf.methods.family import Answer, Customer, Tools
from robustcf.methods.threshold_family import Thresholds, answer_of
from robustcf.problem.build import build_problem, votes_needed
from robustcf.problem.moves import moves_of
from robustcf.schema.encode import encode
from robustcf.schema.schema import Schema
from robustcf.solve.grid import solve_grid


class Pool:
    """The explained forest's trees, with fresh trees behind them if there are any.

    A point must have the level's score in the pool. With fresh trees, the explained forest must also accept
    it: a second condition of the same exact problem.
    """

    def __init__(self, explained: Thresholds, joined: Thresholds | None = None) -> None:
        self.explained = explained
        self.thresholds = explained if joined is None else joined
        self.has_fresh_trees = joined is not None

    @property
    def forest(self) -> Forest:
        return self.thresholds.forest

    @property
    def schema(self) -> Schema:
        return self.thresholds.schema

    @property
    def voting(self) -> Voting:
        return self.thresholds.voting

    def demand(self, target: Label, level: float) -> int:
        """Return the votes that reach a level."""
        return votes_needed(self.thresholds.geometry, target, self.voting, level)

    def votes(self, target: Label) -> np.ndarray:
        """Return each leaf's votes: in the pool and, if they differ, in the explained forest."""
        votes = self.thresholds.votes[target]
        if not self.has_fresh_trees:
            return votes
        explained = self.thresholds.geometry.leaves.node < len(self.explained.forest.left)
        return np.vstack([votes, np.where(explained, votes, 0)])


class Ladder:
    """Solves one customer's levels, and starts each from the points of the others."""

    def __init__(self, pool: Pool, row: Customer, tools: Tools) -> None:
        self.pool, self.row, self.tools = pool, row, tools
        geometry, target = pool.thresholds.geometry, row.target
        self.moves = moves_of(geometry, row.numbers, row.encoded)
        demands = [pool.demand(target, 0.0)]  # the lowest: what the decision needs
        if pool.has_fresh_trees:
            demands.append(votes_needed(pool.explained.geometry, target, pool.voting, 0.0))
        self.problem = build_problem(geometry, self.moves, pool.votes(target), *demands)
        self.folded = demands[0] - int(self.problem.demand[0])
        self.answers: dict[float, Answer] = {}
        self.choices: list[np.ndarray] = []

    def at(self, level: float) -> Answer:
        """Return the nearest point at a level; it has none if none exists or none was found."""
        if level not in self.answers:
            self.answers[level] = self._solved(level)
        return self.answers[level]

    def _solved(self, level: float) -> Answer:
        below = [a for known, a in self.answers.items() if known < level and a.status == "no_recourse"]
        if below:  # a higher level is harder to reach
            return replace(below[0])
        demand = self.pool.demand(self.row.target, level) - self.folded
        solution = solve_grid(self.problem, [demand], self.tools.engine, self.tools.limits, self.choices)[0]
        if solution.choice is not None:
            self.choices.append(solution.choice)
        return answer_of(solution, self.problem, self.moves, self.row.numbers)

    def is_solved(self, level: float) -> bool:
        return level in self.answers

    def encoded(self, answer: Answer) -> np.ndarray | None:
        """Return an answer's point as the forest sees it; None without a point."""
        numbers = answer.numbers
        return None if numbers is None else encode(self.pool.schema, numbers[None, :])[0]
