"""Enumerate all cheaper choices, with the reachable leaves as bits.

At each step, the features decided so far allow certain leaves, and the remaining budget allows certain
options of the other features. Both together give the leaves that remain reachable. If the best remaining
leaves of all trees do not add up to the demand, the branch is pruned. No linear program is needed, which
suits problems with few features and many leaves, such as isolation trees.
"""

from __future__ import annotations

import numpy as np

from robustcf.problem.problem import Problem, holds
from robustcf.solve.scale import factor_for, scaled
from robustcf.support.jit import compiled
from robustcf.support.tolerances import LEAST_SAVING

_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_LOWEST = np.zeros(64, dtype=np.int64)
for _bit in range(64):
    _LOWEST[((int(_DE_BRUIJN) << _bit) & 0xFFFFFFFFFFFFFFFF) >> 58] = _bit


def cheapest_choice(problem: Problem, upper: float, work: int) -> tuple[np.ndarray | None, bool]:
    """Return the cheapest choice below `upper`, if any, and whether it is proved.

    `work` limits the number of 64-bit words read, not the time. A tree may have votes for one condition only;
    otherwise nothing is tried.
    """
    if problem.has_closed_tree:  # a tree without an open leaf
        return None, True
    factor = factor_for(upper)  # makes the tolerance of the walk relative
    problem, upper = scaled(problem, factor), upper * factor
    counted = _condition_of_trees(problem)
    if counted is None:
        return None, False
    order = np.lexsort((problem.cost, np.repeat(np.arange(problem.n_features), np.diff(problem.start))))
    turn = np.argsort(-np.bincount(problem.feature, minlength=problem.n_features), kind="stable")
    turn = turn[np.diff(problem.start)[turn] > 1]
    if not len(turn):
        return None, False
    settled = np.diff(problem.start) == 1
    best = np.full(problem.n_features, -1, dtype=np.int64)
    spent = float(problem.cost[problem.start[:-1][settled]].sum())
    done = _walk(problem, counted, order, turn, spent, float(upper), int(work), best)
    return (None if best[0] < 0 else best), bool(done)


def _condition_of_trees(problem: Problem) -> np.ndarray | None:
    """Return the condition that each tree has votes for; None if a tree has several."""
    if not problem.n_trees:
        return None
    voting = np.maximum.reduceat(problem.votes != 0, problem.tree_start[:-1], axis=1)
    return None if (voting.sum(axis=0) > 1).any() else np.asarray(voting.argmax(axis=0))


@compiled
def _walk(p, counted, order, turn, already, upper, work, best):
    """Search depth first, set `best`, and return whether `work` sufficed."""
    n_features, n_trees, n_conditions = len(turn), len(p.tree_start) - 1, len(p.demand)
    words = (p.tree_start[-1] + 63) // 64
    votes, allowed = _masks(p, counted, order, words)
    bought = _running_unions(p, allowed)
    rest = np.zeros(n_features + 1)  # what the features from here on cost at least
    for d in range(n_features - 1, -1, -1):
        rest[d] = rest[d + 1] + p.cost[order[p.start[turn[d]]]]
    left = np.empty((n_features + 1, words), dtype=np.uint64)
    left[0] = ~np.uint64(0)
    bits = np.empty(words, dtype=np.uint64)
    most = np.empty(n_conditions, dtype=np.int64)
    at = np.full(n_features, -1, dtype=np.int64)
    spent = np.full(n_features + 1, already)
    d, seen = 0, 0
    while d >= 0:
        f = turn[d]
        at[d] += 1
        o = p.start[f] + at[d]
        if o >= p.start[f + 1] or spent[d] + p.cost[order[o]] + rest[d + 1] >= upper - LEAST_SAVING:
            at[d] = -1
            d -= 1
            continue
        spent[d + 1] = spent[d] + p.cost[order[o]]
        for w in range(words):
            left[d + 1, w] = left[d, w] & allowed[o, w]
            bits[w] = left[d + 1, w]
        free = upper - LEAST_SAVING - spent[d + 1] - rest[d + 1]
        for k in range(d + 1, n_features):
            g = turn[k]
            last = p.start[g + 1] - 1
            money = free + p.cost[order[p.start[g]]]
            while last > p.start[g] and p.cost[order[last]] >= money:
                last -= 1
            if last < p.start[g + 1] - 1:
                for w in range(words):
                    bits[w] &= bought[last, w]
        seen += words * (n_features - d) + n_trees
        if seen > work:
            return False
        most[:] = 0
        for tree in range(n_trees):
            leaf = _first(bits, p.tree_start[tree], p.tree_start[tree + 1])
            if leaf < 0:
                most[0] = -(2**62)
                break
            most[counted[tree]] += votes[leaf]
        short = False
        for c in range(n_conditions):
            short |= most[c] < p.demand[c]
        if short:
            continue
        if d < n_features - 1:
            d += 1
            continue
        upper = spent[d + 1]
        best[:] = 0
        for k in range(n_features):
            best[turn[k]] = order[p.start[turn[k]] + at[k]] - p.start[turn[k]]
    return True


@compiled
def _masks(p, counted, order, words):
    """Return votes, each tree's best leaf first, and the leaves per option.

    Options are in the order of `order`.
    """
    n_leaves = p.tree_start[-1]
    votes, place = np.empty(n_leaves, dtype=np.int64), np.empty(n_leaves, dtype=np.int64)
    for tree in range(len(p.tree_start) - 1):
        first, last = p.tree_start[tree], p.tree_start[tree + 1]
        rank = np.argsort(-p.votes[counted[tree], first:last], kind="mergesort")
        for k in range(last - first):
            votes[first + k] = p.votes[counted[tree], first + rank[k]]
            place[first + rank[k]] = first + k
    allowed = np.full((len(p.cost), words), ~np.uint64(0))
    for leaf in range(n_leaves):
        word, bit = place[leaf] // 64, np.uint64(1) << np.uint64(place[leaf] % 64)
        for e in range(p.entry_start[leaf], p.entry_start[leaf + 1]):
            f = p.feature[e]
            for o in range(p.start[f], p.start[f + 1]):
                if not holds(p, e, order[o] - p.start[f]):
                    allowed[o, word] &= ~bit
    return votes, allowed


@compiled
def _running_unions(p, allowed):
    """Return the leaves that an option or a cheaper one of its feature allows."""
    unions = allowed.copy()
    for f in range(len(p.start) - 1):
        for o in range(p.start[f] + 1, p.start[f + 1]):
            unions[o] |= unions[o - 1]
    return unions


@compiled
def _first(bits, first, last):
    """Return the first set bit of a tree; -1 if none is set."""
    w = first // 64
    word = bits[w] & (~np.uint64(0) << np.uint64(first % 64))
    while word == 0:
        w += 1
        if w * 64 >= last:
            return -1
        word = bits[w]
    lowest = word & (~word + np.uint64(1))
    leaf = w * 64 + _LOWEST[(lowest * _DE_BRUIJN) >> np.uint64(58)]
    return leaf if leaf < last else -1
