"""The search's layout of a problem: each tree is a small factor over segments.

A tree distinguishes only a few *segments* of a feature's options. A *slot* is a (tree, feature) pair. Prices
belong to the segments of slots, so the time for a bound depends on the number of segments, not of options.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.support.jit import compiled

ROUNDING = 4e-16  # relative error of one addition, with a margin


class Factors(NamedTuple):
    """Arrays of the search; all positions are absolute.

    start, cost : options of features, as in `Problem`.
    slot_start : first slot of each tree; slot_feature, slot_tree : feature and tree of each slot.
    feature_slots, slots_of_feature : slots of each feature (start, list).
    seg_start : first segment of each slot.
    seg_options, seg_option : options of each segment (start, list).
    tree_start, votes, demand : leaves of each tree; their votes and the demand in units of a vote.
    entry_start, entry_slot : restrictions of each leaf.
    list_start, list_end, seg_list : the segments that an entry allows.
    unit : one vote as an integer, per condition.
    """

    start: np.ndarray
    cost: np.ndarray
    ordered: np.ndarray
    slot_start: np.ndarray
    slot_feature: np.ndarray
    slot_tree: np.ndarray
    feature_slots: np.ndarray
    slots_of_feature: np.ndarray
    seg_start: np.ndarray
    seg_options: np.ndarray
    seg_option: np.ndarray
    tree_start: np.ndarray
    votes: np.ndarray
    demand: np.ndarray
    entry_start: np.ndarray
    entry_slot: np.ndarray
    list_start: np.ndarray
    list_end: np.ndarray
    seg_list: np.ndarray
    unit: np.ndarray


def vote_units(problem: Problem) -> np.ndarray:
    """Return one vote as an integer, per condition; votes divided by it are near 1."""
    units: np.ndarray = np.abs(problem.votes).max(axis=1, initial=1).astype(np.float64)
    return units


def demand_in_units(demand: np.ndarray, units: np.ndarray, n_trees: int) -> np.ndarray:
    """Return the demand in units of a vote, less the rounding error of a sum."""
    wanted: np.ndarray = demand / units
    lowered: np.ndarray = wanted - ROUNDING * n_trees * np.maximum(1.0, np.abs(wanted))
    return lowered


def build_factors(problem: Problem, units: np.ndarray) -> Factors:
    """Lay out a (reduced) problem, with votes in the given units."""
    slot_start, slot_feature, seg_start, seg_options, seg_option, *entries = _layout(problem)
    entry_slot, list_start, list_end, seg_list = entries
    per_feature = np.bincount(slot_feature, minlength=problem.n_features)
    return Factors(
        start=problem.start,
        cost=problem.cost,
        ordered=problem.ordered,
        slot_start=slot_start,
        slot_feature=slot_feature,
        slot_tree=np.repeat(np.arange(problem.n_trees), np.diff(slot_start)),
        feature_slots=np.concatenate([[0], np.cumsum(per_feature)]),
        slots_of_feature=np.argsort(slot_feature, kind="stable"),
        seg_start=seg_start,
        seg_options=seg_options,
        seg_option=seg_option,
        tree_start=problem.tree_start,
        votes=problem.votes / units[:, None],
        demand=demand_in_units(problem.demand, units, problem.n_trees),
        entry_start=problem.entry_start,
        entry_slot=entry_slot,
        list_start=list_start,
        list_end=list_end,
        seg_list=seg_list,
        unit=units,
    )


@compiled
def _layout(p):
    n_features, n_trees, n_entries = len(p.start) - 1, len(p.tree_start) - 1, len(p.feature)
    most = 0
    for f in range(n_features):
        most = max(most, p.start[f + 1] - p.start[f])
    slot_start = np.zeros(n_trees + 1, dtype=np.int64)
    slot_feature = np.empty(n_entries, dtype=np.int64)
    seg_start = [0]
    seg_options = [0]
    seg_option = [0]
    entry_slot = np.empty(n_entries, dtype=np.int64)
    list_start = np.empty(n_entries, dtype=np.int64)
    list_end = np.empty(n_entries, dtype=np.int64)
    seg_list = [0]
    slot_of = np.full(n_features, -1, dtype=np.int64)
    cut = np.zeros(most + 1, dtype=np.bool_)
    segment = np.zeros(most, dtype=np.int64)
    n_slots, n_segs = 0, 0
    seg_option.pop()
    seg_list.pop()
    for tree in range(n_trees):
        first, last = p.entry_start[p.tree_start[tree]], p.entry_start[p.tree_start[tree + 1]]
        for e in range(first, last):
            f = p.feature[e]
            if slot_of[f] >= slot_start[tree]:
                continue
            slot_of[f] = n_slots
            slot_feature[n_slots] = f
            n_slots += 1
            base, size = p.start[f], p.start[f + 1] - p.start[f]
            # segments: options that no leaf of this tree tells apart
            count = 0
            if p.ordered[f]:
                cut[: size + 1] = False
                for d in range(e, last):
                    if p.feature[d] == f:
                        cut[p.lo[d]] = True
                        cut[p.hi[d] + 1] = True
                for o in range(size):
                    if o > 0 and cut[o]:
                        count += 1
                    segment[o] = count
                count += 1
            else:
                for o in range(size):
                    segment[o] = -1
                    for earlier in range(o):
                        same = True
                        for d in range(e, last):
                            if p.feature[d] == f and p.member[p.set[d], o] != p.member[p.set[d], earlier]:
                                same = False
                                break
                        if same:
                            segment[o] = segment[earlier]
                            break
                    if segment[o] < 0:
                        segment[o] = count
                        count += 1
            for g in range(count):
                for o in range(size):
                    if segment[o] == g:
                        seg_option.append(base + o)
                seg_options.append(len(seg_option))
            # entries as lists of segments; intervals share one list
            whole = len(seg_list)
            for g in range(count):
                seg_list.append(n_segs + g)
            for d in range(e, last):
                if p.feature[d] != f:
                    continue
                entry_slot[d] = slot_of[f]
                if p.ordered[f]:
                    list_start[d] = whole + segment[p.lo[d]]
                    list_end[d] = whole + segment[p.hi[d]] + 1
                else:
                    list_start[d] = len(seg_list)
                    for g in range(count):
                        for o in range(size):
                            if segment[o] == g:
                                if p.member[p.set[d], o]:
                                    seg_list.append(n_segs + g)
                                break
                    list_end[d] = len(seg_list)
            n_segs += count
            seg_start.append(n_segs)
        slot_start[tree + 1] = n_slots
    return (
        slot_start,
        slot_feature[:n_slots].copy(),
        np.array(seg_start),
        np.array(seg_options),
        np.array(seg_option),
        entry_slot,
        list_start,
        list_end,
        np.array(seg_list),
    )
