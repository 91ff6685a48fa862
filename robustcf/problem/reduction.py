"""Reduce a problem: drop options and leaves that cannot matter, and merge equal options."""

from __future__ import annotations

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.support.jit import compiled
from robustcf.support.tolerances import COST_ROUNDING


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
    choice = _choice_within(problem, cells)
    return None if (choice < 0).any() else choice


def inside(
    reduced: Problem, whole: Problem, choice: np.ndarray | None, *, must_reach: bool = True
) -> np.ndarray | None:
    """Return a choice of the whole problem as one of a reduced problem, or None.

    An option that was merged is replaced by an equivalent one.
    """
    if choice is None:
        return None
    inner = _inside(reduced, whole, choice)
    if (inner < 0).any():
        return None
    return inner if not must_reach or reduced.reaches(inner) else None


@compiled
def _choice_within(p, cells):
    """Return each feature's option with the given cell, -1 if there is none."""
    choice = np.full(len(cells), -1, dtype=np.int64)
    for f in range(len(cells)):
        for o in range(p.start[f], p.start[f + 1]):
            if p.cell[o] == cells[f]:
                choice[f] = o - p.start[f]
                break
    return choice


@compiled
def _inside(reduced, whole, choice):
    """Return the same cells in a reduced problem, else the nearest that cost no more, else -1."""
    inner = np.full(len(choice), -1, dtype=np.int64)
    for f in range(len(choice)):
        own = whole.start[f] + choice[f]
        nearest = np.iinfo(np.int64).max
        for o in range(reduced.start[f], reduced.start[f + 1]):
            apart = abs(reduced.cell[o] - whole.cell[own])
            if apart == 0 or (reduced.cost[o] <= whole.cost[own] and apart < nearest):
                nearest = apart
                inner[f] = o - reduced.start[f]
                if apart == 0:
                    break
    return inner


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
