"""Build one customer's whole problem from cells, moves and rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from robustcf.forest.forest import Forest, Label, Voting
from robustcf.problem.cells import Geometry
from robustcf.problem.moves import Moves
from robustcf.problem.problem import Problem
from robustcf.problem.reduction import choice_within, restrict
from robustcf.problem.rules import RuleTrees, Stays, rule_trees, stay_trees
from robustcf.support.tolerances import TIE_MARGIN, WHOLE_VOTES

OUT_OF_REACH = 2**62  # more votes than any sum of leaves
SOFT_UNIT = 2**40  # one soft vote in fixed point: far finer than TIE_MARGIN; 8000 trees fit an int64


def leaf_votes(geometry: Geometry, target: Label, voting: Voting) -> np.ndarray:
    """Return each leaf's integer votes for the target class, shape (1, leaves).

    Leaves of other trees than the forest's have no votes.
    """
    forest = geometry.forest
    c = forest.class_index(target)
    node = geometry.leaves.node
    fractions = forest.probabilities[node[node < len(forest.left)]]
    hard = voting == "hard"
    if forest.boosting is not None:  # a tree's values count from its least one, so that none is negative
        per_tree = np.diff(geometry.leaves.tree_start[: len(forest) + 1])
        fractions = fractions - np.repeat(_least_margins(forest), per_tree, axis=0)
    votes = np.zeros((1, len(node)), dtype=np.int64)
    votes[0, : len(fractions)] = (
        fractions.argmax(axis=1) == c if hard else np.rint(fractions[:, c] * SOFT_UNIT)
    )
    return votes


def _least_margins(forest: Forest) -> np.ndarray:
    """Return each tree's least leaf value for each class, shape (trees, classes)."""
    leaf = forest.left < 0
    values = np.where(leaf[:, None], forest.probabilities, np.inf)
    least: np.ndarray = np.minimum.reduceat(values, forest.tree_start[:-1], axis=0)
    return least


def _start_margin(forest: Forest, c: int) -> float:
    """Return the margin of a class if every tree gives its least value."""
    assert forest.boosting is not None
    base = forest.boosting.base if c == 1 else -forest.boosting.base
    return math.fsum([base, *_least_margins(forest)[:, c]])


def _margin_needed(forest: Forest, target: Label, threshold: float) -> int:
    """Return a boosted model's votes from which its own arithmetic surely gives the score."""
    boosting, score = forest.boosting, max(threshold, forest.winning(target).score)
    assert boosting is not None
    if score >= 1:
        return OUT_OF_REACH
    needed = boosting.margin(score) + boosting.band(score, forest.margin_rounding)
    return math.ceil((needed - _start_margin(forest, forest.class_index(target))) * SOFT_UNIT) + len(forest)


def votes_needed(geometry: Geometry, target: Label, voting: Voting, threshold: float) -> int:
    """Return the votes that reach max(threshold, cut-off) (eq. 2b, eq. 5).

    Votes that reach the cut-off flip the decision. By plurality they suffice from half of the votes on;
    below, the threshold alone is demanded here, and `Leads` has the other conditions. Soft votes: TIE_MARGIN
    beyond the cut-off is required, and scores within 2**-40 of the threshold count as equal to it.
    """
    n, forest = len(geometry.forest), geometry.forest
    if forest.boosting is not None:
        return _margin_needed(forest, target, threshold)
    winning = forest.winning(target)
    only = forest.by_plurality and 0 < threshold < winning.score  # without the demand of half of the votes
    if voting == "hard":
        return max(0 if only else winning.votes(n), math.ceil(n * threshold - WHOLE_VOTES))
    needed = threshold if only else max(threshold, winning.score + TIE_MARGIN)
    return math.ceil(n * needed * SOFT_UNIT) - n  # n leaves, each rounded by at most half a unit


class Leads(NamedTuple):
    """The conditions of a plurality: the target's votes exceed those of every other class.

    `votes` has one row per other class: the leaf's votes for the target less those for that class, raised by
    a constant per tree so that none is negative. `demand` is raised by the sum of these constants.
    """

    votes: np.ndarray
    demand: tuple[int, ...]


def leads(geometry: Geometry, target: Label, voting: Voting) -> Leads:
    """Return the conditions under which `predict` gives one of several classes.

    Hard votes: the first class wins a tie. Soft votes: a lead within TIE_MARGIN is a tie.
    """
    forest = geometry.forest
    own, n = forest.class_index(target), len(forest)
    start = geometry.leaves.tree_start[: n + 1]  # trees of a plausibility method may follow
    mine = leaf_votes(geometry, target, voting)[0]
    rows, demand = [], []
    for k, other in enumerate(forest.classes):
        if k == own:
            continue
        lead = mine - leaf_votes(geometry, other, voting)[0]
        least = np.minimum.reduceat(lead[: start[-1]], start[:-1])
        lead[: start[-1]] -= np.repeat(least, np.diff(start))
        rows.append(lead)
        needed = int(own > k) if voting == "hard" else math.ceil(n * TIE_MARGIN * SOFT_UNIT) - n
        demand.append(needed - int(least.sum()))
    return Leads(np.array(rows), tuple(demand))


def score_of(votes: int, forest: Forest, target: Label, voting: Voting) -> float:
    """Return integer votes as a score in [0, 1], which the model's own arithmetic does not miss."""
    if forest.boosting is None:
        return votes / len(forest) / (1 if voting == "hard" else SOFT_UNIT)
    margin = _start_margin(forest, forest.class_index(target)) + votes / SOFT_UNIT
    return max(0.0, float(forest.boosting.scores(np.array([margin]))[0, 1]) - forest.score_rounding)


def build_problem(geometry: Geometry, moves: Moves, votes: np.ndarray, *demand: int) -> Problem:
    """Build one customer's whole problem, before any reduction by cost.

    `demand` has one number per condition. The schema's rules across features become further conditions, with
    trees of their own.
    """
    boxes = geometry.leaves
    lo, hi = boxes.lo, boxes.hi
    if moves.missing.any():  # the split's rule for missing values opens or closes a leaf, not the cells
        gone = moves.missing[boxes.feature]
        lo = np.where(gone, np.where(boxes.missing, 0, 1), lo)
        hi = np.where(gone, 0, hi)
    cell, start = np.arange(geometry.start[-1]), geometry.start
    own = moves.own
    if moves.split:
        cell, start, own, lo, hi = _with_split_cells(geometry, moves, lo, hi)
    cells = Problem(
        start=start,
        cost=moves.cost[cell],
        cell=cell,
        ordered=geometry.ordered,
        tree_start=boxes.tree_start,
        votes=votes,
        demand=np.array(demand, dtype=np.int64),
        entry_start=boxes.entry_start,
        feature=boxes.feature,
        lo=lo,
        hi=hi,
        set=boxes.set,
        member=boxes.member,
    )
    keep = moves.allowed[cell]
    if geometry.schema.has_rules:
        movable = np.add.reduceat(keep, start[:-1]) > 1
        rules = rule_trees(geometry.schema, own, np.diff(start), movable, boxes.member.shape[1])
        if rules is not None:
            cells = _joined(cells, rules)
    return restrict(cells, keep, np.inf)


def own_choice(geometry: Geometry, moves: Moves, problem: Problem) -> np.ndarray:
    """Return the choice that changes nothing, as positions in a problem that is not reduced."""
    choice = choice_within(problem, geometry.start[:-1] + moves.own)
    assert choice is not None  # a customer may always stay
    return choice


def with_stays(problem: Problem, own: np.ndarray, conditions: Sequence[Stays]) -> Problem:
    """Return a problem that is not reduced, with conditions on what stays unchanged.

    `own` is the choice that changes nothing.
    """
    if not conditions:
        return problem
    trees = stay_trees(conditions, own, np.diff(problem.start), problem.ordered, problem.member.shape[1])
    return restrict(_joined(problem, trees), np.ones(len(problem.cost), dtype=np.bool_), np.inf)


def _with_split_cells(
    geometry: Geometry, moves: Moves, lo: np.ndarray, hi: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the layout with three places in each split feature's own cell.

    It consists of cells, starts, own positions, and the boxes' lower and upper ends.
    """
    n_cells, feature = int(geometry.start[-1]), geometry.leaves.feature
    extra = np.zeros(len(moves.own), dtype=np.int64)
    extra[list(moves.split)] = 2
    where = np.repeat(geometry.start[list(moves.split)] + moves.own[list(moves.split)], 2)
    where[1::2] += 1  # one place before the own cell, one after it
    cell = np.insert(np.arange(n_cells), where, n_cells + np.arange(len(where)))
    start = geometry.start + np.concatenate([[0], np.cumsum(extra)])
    own, more = moves.own[feature], extra[feature]
    lo, hi = np.where(lo > own, lo + more, lo), np.where(hi >= own, hi + more, hi)
    return cell, start, moves.own + extra // 2, lo, hi


def _joined(problem: Problem, rules: RuleTrees) -> Problem:
    """Append the rules' trees and conditions to a problem."""
    n_own, n_rules = problem.votes.shape[0], rules.votes.shape[0]
    votes = np.zeros((n_own + n_rules, problem.votes.shape[1] + rules.votes.shape[1]), dtype=np.int64)
    votes[:n_own, : problem.votes.shape[1]] = problem.votes
    votes[n_own:, problem.votes.shape[1] :] = rules.votes
    shifted = np.where(rules.set >= 0, rules.set + len(problem.member), -1)
    return problem._replace(
        tree_start=np.concatenate([problem.tree_start, rules.tree_start[1:] + problem.tree_start[-1]]),
        votes=votes,
        demand=np.concatenate([problem.demand, rules.demand]),
        entry_start=np.concatenate([problem.entry_start, rules.entry_start[1:] + problem.entry_start[-1]]),
        feature=np.concatenate([problem.feature, rules.feature]),
        lo=np.concatenate([problem.lo, rules.lo]),
        hi=np.concatenate([problem.hi, rules.hi]),
        set=np.concatenate([problem.set, shifted]),
        member=np.concatenate([problem.member, rules.member]),
    )
