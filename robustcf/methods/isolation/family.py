"""The family of plausible points, which an isolation forest must accept.

scikit-learn accepts a point if the sum of its path lengths reaches a bound:

    Σ_t (depth + c(n) - 1) ≥ -log2(-offset) · N_if · c(ψ)

This is the paper's equation for A with the sign corrected. Path lengths become integer votes of a second
condition, so the isolation trees are additional trees of the same exact problem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest as SklearnIsolationForest

from robustcf.forest.forest import Label
from robustcf.methods.base import Method
from robustcf.methods.family import Answer, Customer, Tools
from robustcf.methods.isolation.first_points import joint_points, swapped, walked
from robustcf.methods.threshold_family import Thresholds, answer_of, numbers_at
from robustcf.methods.training import Training
from robustcf.problem.boxes import Trees
from robustcf.problem.build import build_problem, leaf_votes
from robustcf.problem.cells import Geometry, compile_geometry
from robustcf.problem.moves import Moves, moves_of
from robustcf.problem.problem import Problem
from robustcf.problem.reduction import choice_within
from robustcf.schema.encode import decode, encode
from robustcf.solve.contract import BestScore, Finished, Solution, settle
from robustcf.solve.grid import highest_score, solve_grid
from robustcf.solve.handover import HandOver
from robustcf.solve.highs import Highs
from robustcf.solve.milp import MilpEngine
from robustcf.support.tolerances import COST_ROUNDING, PATH_MARGIN

UNIT = 2**40  # one step of a path in fixed point
FIRST_ROWS = 15  # training rows that a search starts from
MOST_ROWS = 2000  # training rows among which these are chosen


@dataclass(frozen=True, eq=False)
class Detector:
    """A fitted isolation forest, with its trees appended to the explained forest's."""

    model: Any
    geometry: Geometry
    votes: np.ndarray
    demand: int
    scale: float
    cells: np.ndarray

    def accepts(self, encoded: np.ndarray) -> np.ndarray:
        """Return scikit-learn's own decision for each point."""
        inlier: np.ndarray = self.model.predict(np.atleast_2d(encoded)) == 1
        return inlier


class Isolation:
    """Finds the nearest point with the score that the isolation forest accepts."""

    def __init__(
        self,
        thresholds: Thresholds,
        training: Training,
        contamination: float | str,
        n_trees: int,
        seed: int,
    ) -> None:
        self.thresholds = thresholds
        self.detectors = {
            target: _fit(thresholds, training.labelled(target), target, contamination, n_trees, seed)
            for target in training.targets
        }

    def answers(self, row: Customer, methods: Sequence[Method], tools: Tools) -> list[Answer]:
        """Solve for the threshold alone first, then for both conditions.

        The nearest point of the threshold alone is often plausible. If not, it is a lower bound.
        """
        answers = self.thresholds.answers(row, methods, tools)
        open_ = [i for i, alone in enumerate(answers) if alone.status != "no_recourse"]
        if not open_:
            return answers
        detector, ours, tools = self.detectors[row.target], tools.engine.name == "engine", _with_highs(tools)
        demands = self.thresholds.demands(row.target, methods)
        moves = moves_of(detector.geometry, row.numbers, row.encoded)
        more = self.thresholds.leads(row.target, demands, detector.geometry)
        votes = np.vstack([detector.votes, more.votes])
        problem = build_problem(detector.geometry, moves, votes, demands[0], detector.demand, *more.demand)
        folded = demands[0] - int(problem.demand[0])
        at = {i: _with_demand(problem, demands[i] - folded) for i in open_}
        known = self._first_choices(row, problem, moves, at, answers, detector)
        hard = []
        for i, p in at.items():
            reaching = [choice for choice in known if p.reaches(choice)]
            best = min(reaching, key=p.objective, default=None)
            alone = answers[i]  # a proved optimum for the score alone is a lower bound for both conditions
            proved = (
                best is not None
                and alone.status == "optimal"
                and p.objective(best) <= alone.objective * (1 + COST_ROUNDING)
            )
            if best is not None and not proved and ours:
                best, proved = walked(p, best, tools.each.seconds)
                known.append(best)
            if best is None or not proved:
                hard.append(i)
                continue
            solution = Solution(Finished(), best, p.objective(best), alone.nodes)
            answers[i] = answer_of(solution, p, moves, row.numbers)
        wanted = [int(at[i].demand[0]) for i in hard]
        solutions = solve_grid(problem, wanted, tools.engine, tools.limits, known) if hard else []
        for i, solution in zip(hard, solutions, strict=True):
            alone, answers[i] = answers[i], answer_of(solution, problem, moves, row.numbers)
            if answers[i].status == "no_recourse":  # for both conditions together
                answers[i] = (
                    alone if alone.status == "timeout" else self._relaxed(row, at[i], moves, detector, tools)
                )
            elif answers[i].status in ("feasible", "timeout"):
                answers[i].lower_bound = max(answers[i].lower_bound, alone.lower_bound)
        return answers

    def penalty(self, row: Customer, method: Method, point: np.ndarray) -> float:
        return 0.0

    def complaints(self, row: Customer, method: Method, answer: Answer, encoded: np.ndarray) -> list[str]:
        accepted = bool(self.detectors[row.target].accepts(encoded)[0])
        if answer.status in ("optimal", "feasible") and not accepted:
            return ["the isolation forest calls the point an outlier"]
        return []

    def _first_choices(
        self,
        row: Customer,
        problem: Problem,
        moves: Moves,
        at: dict[int, Problem],
        alone: list[Answer],
        detector: Detector,
    ) -> list[np.ndarray]:
        """Return choices to start from, unless a point of the threshold alone is optimal."""
        nearest = [self._choice_at(problem, detector, alone[i].numbers) for i in at]
        first = [choice for choice in nearest if choice is not None]
        rows: list[np.ndarray] | None = None
        for i, p in at.items():
            lower = alone[i].lower_bound
            near = [c for c in first if p.reaches(c) and p.objective(c) <= lower * (1 + COST_ROUNDING)]
            if near or settle(p) is not None:
                continue
            if rows is None:
                choices = (choice_within(problem, c) for c in self._near_rows(row, moves, detector))
                rows = [choice for choice in choices if choice is not None]
            first += joint_points(p, list(first), rows, lower)
        return first

    def _choice_at(
        self, problem: Problem, detector: Detector, numbers: np.ndarray | None
    ) -> np.ndarray | None:
        """Return a point as a choice of the joint problem, which has smaller cells."""
        if numbers is None:
            return None
        encoded = encode(self.thresholds.schema, numbers[None, :])[0]
        cells = detector.geometry.cell_of(encoded, numbers)
        return choice_within(problem, detector.geometry.start[:-1] + cells)

    def _near_rows(self, row: Customer, moves: Moves, detector: Detector) -> np.ndarray:
        """Return the cells of the training rows closest to both conditions.

        Features keep the customer's own value where the row's value is not allowed.
        """
        start = detector.geometry.start[:-1]
        cells = np.where(moves.allowed[start + detector.cells], detector.cells, moves.own) + start
        points = np.where(np.isnan(moves.number[cells]), row.numbers, moves.number[cells])
        encoded = encode(self.thresholds.schema, points)
        score = self.thresholds.forest.score(encoded, row.target, self.thresholds.voting)
        short = np.maximum(0.0, 0.6 - score) - np.minimum(0.0, detector.model.decision_function(encoded))
        nearest: np.ndarray = cells[np.lexsort((moves.cost[cells].sum(axis=1), short))[:FIRST_ROWS]]
        return nearest

    def _relaxed(
        self,
        row: Customer,
        problem: Problem,
        moves: Moves,
        detector: Detector,
        tools: Tools,
    ) -> Answer:
        """Keep the threshold, minimise the relaxation of plausibility, then the distance."""
        turned = swapped(problem)
        best: BestScore = highest_score(turned, tools.engine, tools.limits)
        if best.choice is None:
            return Answer("timeout", reason="no point with the score was found, plausible or not")
        rounding = len(detector.model.estimators_)  # smaller differences of path lengths are rounding
        nearest = solve_grid(turned, [best.votes - rounding], tools.engine, tools.limits, [best.choice])[0]
        choice = best.choice if nearest.choice is None else nearest.choice
        short = (int(turned.demand[0]) - int(turned.votes_of(choice)[0])) / UNIT / detector.scale
        unproved = (best.at_most - best.votes) / UNIT / detector.scale
        answer = replace(
            answer_of(replace(nearest, choice=choice), turned, moves, row.numbers),
            status="relaxed",
            objective=turned.objective(choice),
            relaxation=short,
            reason=f"no allowed point has the score and passes the isolation forest; relaxed by {short:.4g}",
        )
        answer.numbers = numbers_at(turned, choice, moves, row.numbers)
        if unproved > 0:
            answer.reason = f"{answer.reason}; at most {unproved:.4g} of it might be avoidable (time limit)"
        return answer


def _with_highs(tools: Tools) -> Tools:
    """Put HiGHS behind the own engine, which is weaker on isolation trees."""
    if tools.engine.name != "engine":
        return tools
    return replace(tools, engine=HandOver(tools.engine, MilpEngine(Highs())))


def _with_demand(problem: Problem, demand: int) -> Problem:
    return problem._replace(demand=np.concatenate([[demand], problem.demand[1:]]).astype(np.int64))


def fit_model(rows: np.ndarray, contamination: float | str, n_trees: int, seed: int) -> Any:
    """Fit scikit-learn's isolation forest to the training rows of a target class."""
    return SklearnIsolationForest(n_estimators=n_trees, contamination=contamination, random_state=seed).fit(
        rows
    )


def _fit(
    thresholds: Thresholds,
    rows: np.ndarray,
    target: Label,
    contamination: float | str,
    n_trees: int,
    seed: int,
) -> Detector:
    model = fit_model(rows, contamination, n_trees, seed)
    geometry = compile_geometry(thresholds.forest, thresholds.schema, _trees_of(model))
    forest_votes = leaf_votes(geometry, target, thresholds.voting)
    first = len(thresholds.forest.left)
    node = geometry.leaves.node
    lengths = np.zeros(len(node))
    lengths[node >= first] = _path_lengths(model)[node[node >= first] - first]
    votes = np.vstack([forest_votes, np.rint(lengths * UNIT).astype(np.int64)])
    complete = rows[~np.isnan(rows).any(axis=1)]
    numbers = (
        decode(thresholds.schema, complete[:MOST_ROWS])
        if len(complete)
        else np.zeros((0, len(geometry.action)))
    )
    cells = np.array(
        [geometry.cell_of(x, n) for x, n in zip(complete, numbers, strict=False)], dtype=np.int64
    ).reshape(len(numbers), -1)
    scale = n_trees * _average_path(model.max_samples_)
    if scale == 0:  # one training row: scikit-learn accepts everything
        return Detector(model, geometry, votes, 0, 1.0, cells)
    bound = -scale * math.log2(-model.offset_)
    return Detector(model, geometry, votes, math.ceil((bound + PATH_MARGIN) * UNIT) + n_trees, scale, cells)


def _trees_of(model: Any) -> Trees:
    parts = [estimator.tree_ for estimator in model.estimators_]
    start = np.concatenate([[0], np.cumsum([t.node_count for t in parts])]).astype(np.int64)
    leaf = np.concatenate([t.children_left < 0 for t in parts])

    def joined(arrays: list[np.ndarray], offset: bool = False) -> np.ndarray:
        moved = [a + start[i] if offset else a for i, a in enumerate(arrays)]
        return np.where(leaf, -1, np.concatenate(moved)).astype(np.int32)

    columns = [np.asarray(c) for c in model.estimators_features_]
    return Trees(
        tree_start=start,
        left=joined([t.children_left for t in parts], offset=True),
        right=joined([t.children_right for t in parts], offset=True),
        feature=joined([c[np.maximum(t.feature, 0)] for c, t in zip(columns, parts, strict=True)]),
        threshold=np.where(leaf, 0.0, np.concatenate([t.threshold for t in parts])),
        missing_left=~leaf & np.concatenate([t.missing_go_to_left.astype(bool) for t in parts]),
    )


def _path_lengths(model: Any) -> np.ndarray:
    """Return depth + c(n) - 1 of every node, as in scikit-learn.

    scikit-learn's depths count nodes.
    """
    return np.concatenate(
        [
            e.tree_.compute_node_depths() + _average_path(e.tree_.n_node_samples) - 1.0
            for e in model.estimators_
        ]
    )


def _average_path(n: Any) -> Any:
    """Return c(n), the mean path length of a failed search in a tree of n samples."""
    n = np.asarray(n, dtype=np.float64)
    large = np.maximum(n, 3.0)
    value = 2.0 * (np.log(large - 1.0) + np.euler_gamma) - 2.0 * (large - 1.0) / large
    return np.where(n <= 1, 0.0, np.where(n == 2, 1.0, value))[()]
