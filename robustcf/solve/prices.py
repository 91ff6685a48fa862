"""Prices from the linear relaxation, which give the best bound at a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import highspy
import numpy as np

from robustcf.problem.problem import Problem
from robustcf.solve.bounds import unpriced
from robustcf.solve.factors import Factors
from robustcf.solve.formulation import build_model
from robustcf.solve.highs import linear_program
from robustcf.support.jit import compiled
from robustcf.support.tolerances import DECIDED, SCORE_ROW_SLACK

FREE_CUT_WEIGHT = 0.02  # weight of a cut without cost difference, as a share of the dearest option's cost


class Prices(NamedTuple):
    """Segment prices, reduced costs of options, and multipliers of conditions."""

    theta: np.ndarray
    phi: np.ndarray
    lam: np.ndarray


class Relaxation:
    """The LP relaxation of one problem, re-solved warm as options are dropped.

    Any prices give a valid bound, so the LP's tolerances do not matter.
    """

    def __init__(self, problem: Problem, factors: Factors, maximise: bool) -> None:
        model = build_model(problem, factors.unit)
        self._n_conditions = len(problem.demand)
        if maximise:
            model.cost = np.concatenate([np.zeros(model.n_binary), -problem.votes[0] / factors.unit[0]])
            model.lower[-self._n_conditions] = -np.inf
        self._problem, self._factors, self._maximise = problem, factors, maximise
        self._links_from, self._n_questions = model.links_from, model.n_binary
        self._highs = highspy.Highs()
        for option, value in {"output_flag": False, "threads": 1}.items():
            self._highs.setOptionValue(option, value)
        self._highs.passModel(linear_program(model))

    def set_demand(self, demand: np.ndarray) -> None:
        """Set another demand, in units of a vote."""
        first = self._highs.getNumRow() - self._n_conditions
        for condition, votes in enumerate(demand):
            self._highs.changeRowBounds(first + condition, votes - SCORE_ROW_SLACK, highspy.kHighsInf)

    def bound(self, alive: np.ndarray, seconds: float, enough: float = np.inf) -> float:
        """Return the relaxation's value with these options alive.

        The value is inf if infeasible and nan if the time is up. The solve stops at the value `enough`,
        because the prices then suffice.
        """
        lower, upper = _question_bounds(self._problem, alive, self._n_questions)
        self._highs.changeColsBounds(
            self._n_questions, np.arange(self._n_questions, dtype=np.int32), lower, upper
        )
        self._highs.setOptionValue("objective_bound", enough)
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(seconds, 0.0))
        self._highs.run()
        status = self._highs.getModelStatus()
        if status == highspy.HighsModelStatus.kOptimal:
            return float(self._highs.getInfo().objective_function_value)
        if status == highspy.HighsModelStatus.kObjectiveBound:
            return enough
        return np.inf if status == highspy.HighsModelStatus.kInfeasible else np.nan

    def undecided(self, most: int) -> list[tuple[int, int]]:
        """Return the most fractional cuts (feature, option) of the last solution.

        There is at most one per feature.
        """
        cuts, torn = _torn_cuts(self._problem, self._answers())
        order = np.argsort(-torn, kind="stable")[:most]
        return [(int(f), int(cuts[f])) for f in order if torn[f] > 0.0]

    def rounded(self, shares: Sequence[float]) -> list[np.ndarray]:
        """Round the last solution: a feature moves as far as a share of it does."""
        answers = self._answers()
        return [_rounded(self._problem, answers, share) for share in shares]

    def _answers(self) -> np.ndarray:
        return np.array(self._highs.getSolution().col_value)[: self._n_questions]

    def prices(self) -> Prices:
        """Return the prices of the last solution, the best for its options alive."""
        dual = np.array(self._highs.getSolution().row_dual)
        links = np.maximum(0.0, -dual[: len(self._links_from)])
        lam = np.maximum(0.0, dual[len(dual) - self._n_conditions :])
        if self._maximise:
            lam[0] = 1.0
        theta = _segment_prices(self._factors, links, self._links_from)
        return Prices(theta, unpriced(self._factors, theta), lam)


@compiled
def _question_bounds(p, alive, n_questions):
    """Return bounds on the questions' answers, given the options alive."""
    lower, upper = np.zeros(n_questions), np.ones(n_questions)
    q = 0
    for f in range(len(p.start) - 1):
        first, size = p.start[f], p.start[f + 1] - p.start[f]
        if size == 1:
            continue
        if not p.ordered[f]:
            for o in range(size):
                upper[q + o] = 1.0 if alive[first + o] else 0.0
            q += size
            continue
        low, high = size, -1
        for o in range(size):
            if alive[first + o]:
                low, high = min(low, o), o
        for b in range(size - 1):  # "above option b"
            if b < low:
                lower[q + b] = 1.0
            if b >= high:
                upper[q + b] = 0.0
        q += size - 1
    return lower, upper


@compiled
def _rounded(p, answers, share):
    choice = np.zeros(len(p.start) - 1, dtype=np.int64)
    q = 0
    for f in range(len(choice)):
        size = p.start[f + 1] - p.start[f]
        if size == 1:
            continue
        if p.ordered[f]:
            while choice[f] < size - 1 and answers[q + choice[f]] >= share:
                choice[f] += 1
            q += size - 1
        else:
            choice[f] = answers[q : q + size].argmax()
            q += size
    return choice


@compiled
def _torn_cuts(p, answers):
    """Return, per feature, the cut with the most cost undecided, and that cost.

    An undecided cut without cost difference counts a little.
    """
    n_features = len(p.start) - 1
    cuts, torn = np.zeros(n_features, dtype=np.int64), np.zeros(n_features)
    least = FREE_CUT_WEIGHT * p.cost.max() if p.cost.max() > 0.0 else 1.0
    q = 0
    for f in range(n_features):
        first, last = p.start[f], p.start[f + 1]
        if last - first == 1:
            continue
        for b in range(last - first - 1 if p.ordered[f] else last - first):
            doubt = 0.5 - abs(answers[q] - 0.5)
            q += 1
            if doubt < DECIDED:
                continue
            # ordered: options from the cut on; categories: the cut itself
            cut = first + b + 1 if p.ordered[f] else first + b
            inside, outside = np.inf, np.inf
            for o in range(first, last):
                if o >= cut if p.ordered[f] else o == cut:
                    inside = min(inside, p.cost[o])
                else:
                    outside = min(outside, p.cost[o])
            doubt *= least + abs(inside - outside)
            if doubt > torn[f]:
                torn[f], cuts[f] = doubt, cut
    return cuts, torn


@compiled
def _segment_prices(F, links, origin):
    theta = np.zeros(F.seg_start[-1])
    for row in range(len(links)):
        if links[row] == 0.0:
            continue
        tree, f, question, side = origin[row]
        for s in range(F.slot_start[tree], F.slot_start[tree + 1]):
            if F.slot_feature[s] != f:
                continue
            for g in range(F.seg_start[s], F.seg_start[s + 1]):
                option = F.seg_option[F.seg_options[g]] - F.start[f]
                yes = option > question if F.ordered[f] else option == question
                if yes == (side == 1):
                    theta[g] += links[row]
    return theta
