"""The family of score thresholds (eq. 5); the other families build on it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from robustcf.counterfactual import Status
from robustcf.forest.forest import Forest, Label, Voting
from robustcf.methods.family import Answer, Customer, Tools
from robustcf.problem.build import (
    Leads,
    build_problem,
    leads,
    leaf_votes,
    own_choice,
    score_of,
    votes_needed,
)
from robustcf.problem.cells import Geometry, compile_geometry
from robustcf.problem.moves import Moves, moves_of
from robustcf.problem.problem import Problem
from robustcf.schema.schema import Schema
from robustcf.solve import Solution
from robustcf.solve.grid import highest_score, solve_grid

if TYPE_CHECKING:
    from robustcf.methods.base import Method


class Thresholds:
    """Finds the nearest point whose score reaches the threshold (eq. 2)."""

    def __init__(self, forest: Forest, schema: Schema, voting: Voting) -> None:
        self.forest, self.schema, self.voting = forest, schema, voting
        self.geometry = compile_geometry(forest, schema)
        self.votes = {c: leaf_votes(self.geometry, c, voting) for c in forest.classes}
        self._leads: dict[tuple[Label, int], Leads] = {}

    def demands(self, target: Label, methods: Sequence[Method]) -> list[int]:
        """Return the integer votes that each method needs."""
        taus = [self.forest.demanded(method.threshold, target) for method in methods]
        return [votes_needed(self.geometry, target, self.voting, tau) for tau in taus]

    def leads(self, target: Label, demands: Sequence[int], geometry: Geometry | None = None) -> Leads:
        """Return the conditions of a plurality; none if every demand is half of the votes or more.

        `geometry` is another one, with more trees.
        """
        geometry = geometry or self.geometry
        half = votes_needed(geometry, target, self.voting, 0.0)
        if not self.forest.by_plurality or min(demands) >= half:
            return Leads(np.zeros((0, len(geometry.leaves.node)), dtype=np.int64), ())
        key = (target, id(geometry))
        if key not in self._leads:
            self._leads[key] = leads(geometry, target, self.voting)
        return self._leads[key]

    def problem(self, row: Customer, *demands: int) -> tuple[Problem, Moves]:
        """Return the problem of the first demand, with the conditions that the lowest one needs."""
        moves, more = moves_of(self.geometry, row.numbers, row.encoded), self.leads(row.target, demands)
        votes = np.vstack([self.votes[row.target], more.votes])
        return build_problem(self.geometry, moves, votes, demands[0], *more.demand), moves

    def answers(self, row: Customer, methods: Sequence[Method], tools: Tools) -> list[Answer]:
        demands = self.demands(row.target, methods)
        problem, moves = self.problem(row, *demands)
        # Trees with a single outcome were folded into the first demand.
        folded = demands[0] - int(problem.demand[0])
        solutions = solve_grid(problem, [d - folded for d in demands], tools.engine, tools.limits)
        own = own_choice(self.geometry, moves, problem)
        answers = [
            answer_of(without_idle_moves(s, problem, d - folded, own), problem, moves, row.numbers)
            for s, d in zip(solutions, demands, strict=True)
        ]
        stuck = [a for a in answers if a.status == "no_recourse"]
        if stuck and tools.wants_best_score:
            if self.forest.by_plurality:  # the best score counts, whatever the other classes have
                problem = build_problem(self.geometry, moves, self.votes[row.target], demands[0])
                folded = demands[0] - int(problem.demand[0])
            self._add_best_score(stuck, problem, moves, row, folded, tools)
        return answers

    def penalty(self, row: Customer, method: Method, point: np.ndarray) -> float:
        return 0.0

    def complaints(self, row: Customer, method: Method, answer: Answer, encoded: np.ndarray) -> list[str]:
        return []

    def _add_best_score(
        self, stuck: list[Answer], problem: Problem, moves: Moves, row: Customer, folded: int, tools: Tools
    ) -> None:
        """Add the best reachable score and the nearest point that reaches it.

        The score is cached per set of reachable cells.
        """
        where = moves.own.tobytes() if self.schema.has_rules else b""  # rules depend on the own place
        key = (self.voting, row.target, moves.allowed.tobytes() + moves.missing.tobytes(), where)
        best = tools.best.get(key) or highest_score(problem, tools.engine, tools.limits)
        if best.votes >= best.at_most or time.monotonic() < tools.end:  # do not cache a result cut short
            tools.best[key] = best
        for answer in stuck:
            answer.reason = "the best reachable score is not known: no point that reaches it was found"
        if best.choice is None:
            return
        # Scores that differ only by the rounding of soft votes count as equal, as in `votes_needed`.
        rounding = len(self.forest) if self.voting == "soft" else 0
        nearest = solve_grid(problem, [best.votes - rounding], tools.engine, tools.limits)[0]
        if nearest.choice is None:
            return
        for answer in stuck:
            answer.best_score = score_of(best.votes + folded, self.forest, row.target, self.voting)
            possible = score_of(best.at_most + folded, self.forest, row.target, self.voting)
            answer.best_score_gap = possible - answer.best_score
            answer.numbers = numbers_at(problem, nearest.choice, moves, row.numbers)
            answer.objective, answer.lower_bound = nearest.objective, nearest.lower_bound
            answer.reason = None
            answer.nodes += nearest.nodes


_STATUS: dict[str, Status] = {
    "optimal": "optimal",
    "feasible": "feasible",
    "infeasible": "no_recourse",
    "unknown": "timeout",
}


def without_idle_moves(solution: Solution, problem: Problem, demand: int, own: np.ndarray) -> Solution:
    """Take back the moves of a solution that cost nothing and are not needed.

    A feature may have moves without a cost (a weight of 0, a cost table). No solver prefers to stay. `demand`
    is that of the first condition, and `own` the choice that changes nothing.
    """
    if solution.choice is None:
        return solution
    choice = solution.choice.copy()
    free = problem.cost[problem.start[:-1] + choice] == 0
    for f in np.flatnonzero((choice != own) & free):
        moved, choice[f] = choice[f], own[f]
        votes = problem.votes_of(choice)
        if votes[0] < demand or (votes[1:] < problem.demand[1:]).any():
            choice[f] = moved
    return replace(solution, choice=choice)


def answer_of(solution: Solution, problem: Problem, moves: Moves, numbers: np.ndarray) -> Answer:
    """Turn a solution into an answer in the customer's numbers."""
    if solution.choice is None:
        return concluded(solution, None)
    return concluded(solution, numbers_at(problem, solution.choice, moves, numbers))


def concluded(solution: Solution, point: np.ndarray | None) -> Answer:
    """Return the answer for a search's outcome and the point that it found."""
    status = _STATUS[solution.status]
    if point is None:
        bound = solution.lower_bound if status == "timeout" else math.nan
        return Answer(status, lower_bound=bound, nodes=solution.nodes)
    return Answer(status, point, solution.objective, solution.lower_bound, nodes=solution.nodes)


def numbers_at(problem: Problem, choice: np.ndarray, moves: Moves, numbers: np.ndarray) -> np.ndarray:
    """Return the chosen cells' numbers; features without a number keep their own."""
    point: np.ndarray = moves.number[problem.cell[problem.start[:-1] + choice]]
    return np.where(np.isnan(point), numbers, point)
