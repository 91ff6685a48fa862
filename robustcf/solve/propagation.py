"""Constraint propagation: drop options that no cheaper choice can use, in exact integer votes.

Two rules alternate until neither drops an option:

- *Budget*: an option is dropped if it and the cheapest options of all other features cost as much as the best
  choice known.
- *Votes*: for every tree, the most votes among the leaves that are still reachable; and the same with one
  option fixed. An option is dropped if the sum over all trees, with the option fixed, misses a demand.

A node without an option left for a feature, or without enough votes, is closed. Only the trees that have lost
a leaf's segment are looked at again.
"""

from __future__ import annotations

import numpy as np

from robustcf.solve.bounds import refresh_segments
from robustcf.support.jit import compiled
from robustcf.support.tolerances import LEAST_SAVING

NOWHERE = -(2**62)  # the most votes of a segment without a reachable leaf


@compiled
def propagate(F, P, alive, changed, segalive, also_stale, tree_most, seg_most, stale, most, scratch, upper):
    """Drop a node's options until nothing changes; return its least cost, inf if the node is closed.

    `most[c, o]` becomes the most votes of condition c with option o, for the options alive. Trees that lose a
    segment are also marked in `also_stale`.
    """
    while True:
        floor = _drop_by_budget(F, alive, changed, upper)
        if floor == np.inf:
            return floor
        refresh_segments(F, alive, changed, segalive, stale, also_stale)
        for tree in range(len(stale)):
            if stale[tree]:
                stale[tree] = False
                if not _tree_reach(F, P.votes, tree, segalive, tree_most, seg_most, scratch):
                    return np.inf
        if not _sum_up(F, P.demand, tree_most, seg_most, most):
            return np.inf
        if not _drop_by_votes(F, P.demand, alive, changed, most):
            return floor


@compiled
def _drop_by_budget(F, alive, changed, upper):
    """Drop options that are too dear; return the least cost of all choices, inf if all are too dear.

    A feature's cheapest option stays, whatever rounding says: the least cost is within the budget.
    """
    floor = 0.0
    for f in range(len(F.start) - 1):
        floor += _least_cost(F, alive, f)
    if floor >= upper - LEAST_SAVING:
        return np.inf
    for f in range(len(F.start) - 1):
        least = _least_cost(F, alive, f)
        for o in range(F.start[f], F.start[f + 1]):
            if alive[o] and F.cost[o] > least and floor - least + F.cost[o] >= upper - LEAST_SAVING:
                alive[o] = False
                changed[f] = True
    return floor


@compiled
def _least_cost(F, alive, f):
    least = np.inf
    for o in range(F.start[f], F.start[f + 1]):
        if alive[o]:
            least = min(least, F.cost[o])
    return least


@compiled
def _drop_by_votes(F, demand, alive, changed, most):
    """Drop options with which a demand is out of reach; return whether there were any."""
    dropped = False
    for f in range(len(F.start) - 1):
        for o in range(F.start[f], F.start[f + 1]):
            if not alive[o]:
                continue
            for c in range(len(demand)):
                if most[c, o] < demand[c]:
                    alive[o] = False
                    changed[f] = dropped = True
                    break
    return dropped


@compiled
def _tree_reach(F, votes, tree, segalive, tree_most, seg_most, scratch):
    """Update a tree's most votes, also with each segment fixed; return whether a leaf is reachable."""
    s0, s1 = F.slot_start[tree], F.slot_start[tree + 1]
    n_conditions = len(votes)
    unasked, asked_by = scratch
    for c in range(n_conditions):
        tree_most[c, tree] = NOWHERE
        for g in range(F.seg_start[s0], F.seg_start[s1]):
            seg_most[c, g] = NOWHERE
        for k in range(s1 - s0):
            unasked[c, k] = NOWHERE
    for k in range(s1 - s0):
        asked_by[k] = -1
    any_open = False
    for leaf in range(F.tree_start[tree], F.tree_start[tree + 1]):
        reachable = True
        for e in range(F.entry_start[leaf], F.entry_start[leaf + 1]):
            reachable = False
            for i in range(F.list_start[e], F.list_end[e]):
                if segalive[F.seg_list[i]]:
                    reachable = True
                    break
            if not reachable:
                break
        if not reachable:
            continue
        any_open = True
        for e in range(F.entry_start[leaf], F.entry_start[leaf + 1]):
            asked_by[F.entry_slot[e] - s0] = leaf
        for c in range(n_conditions):
            vote = votes[c, leaf]
            tree_most[c, tree] = max(tree_most[c, tree], vote)
            for e in range(F.entry_start[leaf], F.entry_start[leaf + 1]):
                for i in range(F.list_start[e], F.list_end[e]):
                    g = F.seg_list[i]
                    if vote > seg_most[c, g] and segalive[g]:
                        seg_most[c, g] = vote
            for k in range(s1 - s0):
                if asked_by[k] != leaf and vote > unasked[c, k]:
                    unasked[c, k] = vote
    for c in range(n_conditions):
        for s in range(s0, s1):
            for g in range(F.seg_start[s], F.seg_start[s + 1]):
                if segalive[g] and unasked[c, s - s0] > seg_most[c, g]:
                    seg_most[c, g] = unasked[c, s - s0]
    return any_open


@compiled
def _sum_up(F, demand, tree_most, seg_most, most):
    """Add up the trees' most votes with each option fixed; return whether every demand is within reach.

    An option of a segment without a reachable leaf gets NOWHERE.
    """
    for c in range(len(demand)):
        total = np.int64(0)
        for tree in range(len(F.tree_start) - 1):
            total += tree_most[c, tree]
        if total < demand[c]:
            return False
        sums = most[c]
        sums[:] = 0
        for s in range(len(F.slot_feature)):
            best, f = tree_most[c, F.slot_tree[s]], F.slot_feature[s]
            for g in range(F.seg_start[s], F.seg_start[s + 1]):
                lost = seg_most[c, g] - best
                if lost == 0 or seg_most[c, g] == NOWHERE:
                    continue
                first, last = F.seg_options[g], F.seg_options[g + 1]
                if F.ordered[f]:  # a difference between neighbours, summed up below
                    sums[F.seg_option[first]] += lost
                    end = F.seg_option[last - 1] + 1
                    if end < F.start[f + 1]:
                        sums[end] -= lost
                else:
                    for i in range(first, last):
                        sums[F.seg_option[i]] += lost
        for f in range(len(F.start) - 1):
            running = total
            for o in range(F.start[f], F.start[f + 1]):
                if F.ordered[f]:
                    running += sums[o]
                    sums[o] = running
                else:
                    sums[o] += total
    for s in range(len(F.slot_feature)):
        for g in range(F.seg_start[s], F.seg_start[s + 1]):
            if seg_most[0, g] == NOWHERE:
                for i in range(F.seg_options[g], F.seg_options[g + 1]):
                    most[0, F.seg_option[i]] = NOWHERE
    return True


@compiled
def scratch_for(F):
    """Allocate what `propagate` needs for the largest tree."""
    slots = 1
    for tree in range(len(F.tree_start) - 1):
        slots = max(slots, F.slot_start[tree + 1] - F.slot_start[tree])
    return np.empty((len(F.unit), slots), dtype=np.int64), np.empty(slots, dtype=np.int64)
