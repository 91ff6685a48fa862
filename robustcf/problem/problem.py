"""One customer's problem (eq. 2) as arrays of options, leaves and demands.

Choose one option per feature at the least total cost such that the votes of the leaves reached add up to the
demand. Votes are integers: hard votes as they are, soft votes in fixed point. Whether a choice reaches the
demand is therefore exact and does not depend on the order of summation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from robustcf.forest.forest import Label, Voting
from robustcf.problem.cells import Geometry
from robustcf.problem.moves import Moves
from robustcf.problem.rules import RuleTrees, rule_trees
from robustcf.support.jit import compiled
from robustcf.support.tolerances import COST_ROUNDING, TIE_MARGIN, WHOLE_VOTES

SOFT_UNIT = 2**40  # one soft vote in fixed point: far finer than TIE_MARGIN; 8000 trees fit an int64


class Problem(NamedTuple):
    """The options of all features, and the leaves of all trees.

    Attributes
    ----------
    start : first option of each feature, followed by the number of options.
    cost, cell : of each option; `cell` is its position in the geometry.
    ordered : per feature, whether options are ordered (boxes are intervals) or categories.
    tree_start : first leaf of each tree, followed by the number of leaves.
    votes : (conditions, leaves) integer votes; the first condition is the target class's score.
    demand : per condition, the votes that are needed.
    entry_start, feature, lo, hi, set, member : boxes of the leaves, as in `cells.Leaves`, in
        positions of options within their feature. A feature without an entry is unrestricted.
    """

    start: np.ndarray
    cost: np.ndarray
    cell: np.ndarray
    ordered: np.ndarray
    tree_start: np.ndarray
    votes: np.ndarray
    demand: np.ndarray
    entry_start: np.ndarray
    feature: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    set: np.ndarray
    member: np.ndarray

    @property
    def n_features(self) -> int:
        return len(self.start) - 1

    @property
    def n_trees(self) -> int:
        return len(self.tree_start) - 1

    @property
    def n_leaves(self) -> int:
        return int(self.tree_start[-1])

    def objective(self, choice: np.ndarray) -> float:
        """Return the cost of a choice (one position per feature), summed exactly."""
        return math.fsum(self.cost[self.start[:-1] + choice])

    def votes_of(self, choice: np.ndarray) -> np.ndarray:
        """Return the votes that a choice collects, per condition."""
        return _votes_of(self, np.ascontiguousarray(choice))

    def reaches(self, choice: np.ndarray) -> bool:
        return bool((self.votes_of(choice) >= self.demand).all())


def leaf_votes(geometry: Geometry, target: Label, voting: Voting) -> np.ndarray:
    """Return each leaf's integer votes for the target class, shape (1, leaves).

    Leaves of other trees than the forest's have no votes.
    """
    forest = geometry.forest
    c = forest.class_index(target)
    node = geometry.leaves.node
    fractions = forest.probabilities[node[node < len(forest.left)]]
    hard = voting == "hard"
    votes = np.zeros((1, len(node)), dtype=np.int64)
    votes[0, : len(fractions)] = (
        fractions.argmax(axis=1) == c if hard else np.rint(fractions[:, c] * SOFT_UNIT)
    )
    return votes


def votes_needed(geometry: Geometry, target: Label, voting: Voting, threshold: float) -> int:
    """Return the votes that reach max(threshold, half of all votes) (eq. 2b, eq. 5).

    With two classes, half of the votes flips the prediction. With more classes it suffices, although a class
    can win with less. Hard votes: the first class wins a tie, and every other class needs one vote more.
    Soft votes: TIE_MARGIN beyond the tie is required, and scores within 2**-40 of the threshold count as
    equal to it.
    """
    n = len(geometry.forest)
    if voting == "hard":
        first = geometry.forest.class_index(target) == 0
        flips = (n + 1) // 2 if first else n // 2 + 1
        return max(flips, math.ceil(n * threshold - WHOLE_VOTES))
    needed = max(threshold, 0.5 + TIE_MARGIN)
    return math.ceil(n * needed * SOFT_UNIT) - n  # n leaves, each rounded by at most half a unit


def score_of(votes: int, n_trees: int, voting: Voting) -> float:
    """Return integer votes as a score in [0, 1]."""
    return votes / n_trees / (1 if voting == "hard" else SOFT_UNIT)


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


def reduce(problem: Problem, upper: float) -> Problem:
    """Reduce a problem to choices that cost at most `upper`.

    Drops options and leaves that cost more, and folds trees with a single outcome into the demand. Of several
    options that no remaining leaf distinguishes, keeps only the cheapest. The cheapest choice of every
    outcome that costs at most `upper` is kept, with the same cost and votes.
    """
    limit = upper + COST_ROUNDING * abs(upper)
    keep = problem.cost <= limit
    while True:
        problem = restrict(problem, keep, limit)
        keep = _representatives(problem)
        if keep.all():
            return problem


def restrict(problem: Problem, keep: np.ndarray, limit: float) -> Problem:
    """Keep only the options in `keep` and the leaves that cost at most `limit`."""
    return Problem(*_restrict(problem, keep, limit))


def choice_within(problem: Problem, cells: np.ndarray) -> np.ndarray | None:
    """Return the choice of the given cells, or None if one was dropped."""
    choice = np.empty(problem.n_features, dtype=np.int64)
    for f in range(problem.n_features):
        where = np.flatnonzero(problem.cell[problem.start[f] : problem.start[f + 1]] == cells[f])
        if not len(where):
            return None
        choice[f] = where[0]
    return choice


def inside(
    reduced: Problem, whole: Problem, choice: np.ndarray | None, *, must_reach: bool = True
) -> np.ndarray | None:
    """Return a choice of the whole problem as one of a reduced problem, or None.

    An option that was merged is replaced by an equivalent one.
    """
    if choice is None:
        return None
    cells = whole.cell[whole.start[:-1] + choice]
    inner = np.empty(len(choice), dtype=np.int64)
    for f in range(len(choice)):
        options = reduced.cell[reduced.start[f] : reduced.start[f + 1]]
        same = np.flatnonzero(options == cells[f])
        if len(same):
            inner[f] = same[0]
        else:  # it was merged: take the nearest option that does not cost more
            cost = reduced.cost[reduced.start[f] : reduced.start[f + 1]]
            no_dearer = np.flatnonzero(cost <= whole.cost[whole.start[f] + choice[f]])
            if not len(no_dearer):
                return None
            inner[f] = no_dearer[np.abs(options[no_dearer] - cells[f]).argmin()]
    return inner if reduced.reaches(inner) or not must_reach else None


@compiled
def _holds(p: Problem, e: int, option: int) -> bool:
    if p.set[e] >= 0:
        return bool(p.member[p.set[e], option])
    return bool(p.lo[e] <= option <= p.hi[e])


@compiled
def _votes_of(p: Problem, choice: np.ndarray) -> np.ndarray:
    total = np.zeros(p.votes.shape[0], dtype=np.int64)
    for leaf in range(len(p.entry_start) - 1):
        inside = True
        for e in range(p.entry_start[leaf], p.entry_start[leaf + 1]):
            if not _holds(p, e, choice[p.feature[e]]):
                inside = False
                break
        if inside:
            total += p.votes[:, leaf]
    return total


@compiled
def _restrict(p, keep, limit):
    n_features = len(p.start) - 1
    rank = np.zeros(len(keep) + 1, dtype=np.int64)  # kept options before each one
    for o in range(len(keep)):
        rank[o + 1] = rank[o] + keep[o]
    start = rank[p.start]
    least = np.full(n_features, np.inf)
    for f in range(n_features):
        for o in range(p.start[f], p.start[f + 1]):
            if keep[o]:
                least[f] = min(least[f], p.cost[o])
    floor = least.sum()

    n_leaves, n_entries = len(p.entry_start) - 1, len(p.feature)
    entry_start = np.zeros(n_leaves + 1, dtype=np.int64)
    feature = np.empty(n_entries, dtype=np.int64)
    lo = np.empty(n_entries, dtype=np.int64)
    hi = np.empty(n_entries, dtype=np.int64)
    sets = np.empty(n_entries, dtype=np.int64)
    member = np.zeros(p.member.shape, dtype=np.bool_)
    kept_leaf = np.empty(n_leaves, dtype=np.int64)
    tree_start = np.zeros(len(p.tree_start), dtype=np.int64)
    demand = p.demand.copy()
    n_trees, leaf_end, end, n_sets = 0, 0, 0, 0
    for tree in range(len(p.tree_start) - 1):
        tree_leaf, tree_entry, tree_set = leaf_end, end, n_sets
        uniform = True
        for leaf in range(p.tree_start[tree], p.tree_start[tree + 1]):
            first_entry, first_set, price, open_ = end, n_sets, floor, True
            for e in range(p.entry_start[leaf], p.entry_start[leaf + 1]):
                f = p.feature[e]
                base, size = p.start[f], start[f + 1] - start[f]
                cheapest, inside = np.inf, 0
                if p.set[e] >= 0:
                    for o in range(p.start[f + 1] - base):
                        if keep[base + o]:
                            holds = p.member[p.set[e], o]
                            member[n_sets, rank[base + o] - start[f]] = holds
                            if holds:
                                inside += 1
                                cheapest = min(cheapest, p.cost[base + o])
                    lo[end], hi[end], sets[end] = 0, size - 1, n_sets
                    n_sets += 1
                else:
                    if p.lo[e] <= p.hi[e]:
                        lo[end] = rank[base + p.lo[e]] - start[f]
                        hi[end] = rank[base + p.hi[e] + 1] - start[f] - 1
                        inside = max(0, hi[end] - lo[end] + 1)
                    sets[end] = -1
                    if inside < size:
                        for o in range(base + p.lo[e], base + p.hi[e] + 1):
                            if keep[o]:
                                cheapest = min(cheapest, p.cost[o])
                if inside == 0:
                    open_ = False
                    break
                if inside == size:  # no restriction left
                    if p.set[e] >= 0:
                        n_sets -= 1
                    continue
                price += cheapest - least[f]
                feature[end] = f
                end += 1
            if not open_ or price > limit:
                end, n_sets = first_entry, first_set
                continue
            kept_leaf[leaf_end] = leaf
            if leaf_end > tree_leaf:
                uniform &= bool(np.all(p.votes[:, leaf] == p.votes[:, kept_leaf[tree_leaf]]))
            leaf_end += 1
            entry_start[leaf_end] = end
        if leaf_end > tree_leaf and uniform:  # one outcome left: it counts, whatever is chosen
            demand -= p.votes[:, kept_leaf[tree_leaf]]
            leaf_end, end, n_sets = tree_leaf, tree_entry, tree_set
        else:  # a tree without leaves stays, and says that nothing is feasible
            n_trees += 1
            tree_start[n_trees] = leaf_end
    return (
        start,
        p.cost[keep],
        p.cell[keep],
        p.ordered,
        tree_start[: n_trees + 1].copy(),
        np.ascontiguousarray(p.votes[:, kept_leaf[:leaf_end]]),
        demand,
        entry_start[: leaf_end + 1].copy(),
        feature[:end].copy(),
        lo[:end].copy(),
        hi[:end].copy(),
        sets[:end].copy(),
        member[: max(n_sets, 1)].copy(),
    )


@compiled
def _representatives(p: Problem) -> np.ndarray:
    """Return the cheapest of each group of options that no leaf distinguishes.

    The first one is kept on a tie.
    """
    keep = np.ones(len(p.cost), dtype=np.bool_)
    told_apart = np.zeros(len(p.cost) + 1, dtype=np.bool_)  # from the option before, if ordered
    for e in range(len(p.feature)):
        if p.set[e] < 0:
            base = p.start[p.feature[e]]
            told_apart[base + p.lo[e]] = True
            told_apart[base + p.hi[e] + 1] = True
    for f in range(len(p.start) - 1):
        if p.ordered[f]:
            best = p.start[f]
            for o in range(p.start[f] + 1, p.start[f + 1]):
                if told_apart[o]:
                    best = o
                elif p.cost[o] < p.cost[best]:
                    keep[best] = False
                    best = o
                else:
                    keep[o] = False
            continue
        size = p.start[f + 1] - p.start[f]
        for a in range(size):
            for b in range(a + 1, size):
                if keep[p.start[f] + a] and keep[p.start[f] + b]:
                    same = True
                    for e in range(len(p.feature)):
                        if p.feature[e] == f and p.member[p.set[e], a] != p.member[p.set[e], b]:
                            same = False
                            break
                    if same:
                        dearer = b if p.cost[p.start[f] + a] <= p.cost[p.start[f] + b] else a
                        keep[p.start[f] + dearer] = False
    return keep
