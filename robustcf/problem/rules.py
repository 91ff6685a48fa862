"""Rules across features as additional trees: links, the limit on changes, and what must stay.

A rule only asks whether a feature is below, at or above the customer's own place. A link becomes a tree over
two features, whose leaves vote 1 where the link holds and 0 where it is broken. The demand is one vote per
link. The limit on changes becomes one tree per movable feature, with a vote where the feature stays. Engines
thus see only trees, votes and demands.

`Stays` is a condition that no schema holds: of some groups of features, a number must stay unchanged. Options
that differ from each other, and answers with few changes, are found with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from robustcf.schema.links import Clause
from robustcf.schema.schema import Schema

Entry = tuple[int, int, int, np.ndarray | None]  # feature, first and last option, or a set of categories
Leaf = tuple[list[Entry], int]  # its box and its vote
MOVED = ("down", "up")  # the moves of a feature that changes


@dataclass(frozen=True)
class Stays:
    """A condition: at least `least` of the groups of features stay as they are."""

    groups: tuple[tuple[int, ...], ...]
    least: int


class RuleTrees(NamedTuple):
    """Trees in the layout of `Problem`, numbered from 0, and each condition's demand."""

    tree_start: np.ndarray
    votes: np.ndarray
    demand: np.ndarray
    entry_start: np.ndarray
    feature: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    set: np.ndarray
    member: np.ndarray


def rule_trees(
    schema: Schema, own: np.ndarray, size: np.ndarray, movable: np.ndarray, width: int
) -> RuleTrees | None:
    """Return the trees of all rules for one customer, or None if no rule applies.

    The customer is at option `own[f]` of `size[f]`. `movable` marks the features with more than one option;
    `width` is the width of the category sets.
    """
    position = {name: j for j, name in enumerate(schema.names)}

    def parts(clause: Clause | None) -> list[Entry]:
        if clause is None:
            return []
        j = position[clause.feature]
        return _parts(j, clause.moves, int(own[j]), int(size[j]), schema.features[j].ordered, width)

    links: list[list[Leaf]] = []
    for when, then in ((link.when, link.then) for link in schema.links):
        tree: list[Leaf] = [([a], 1) for a in parts(when.others)]
        tree += [([a, b], 1) for a in parts(when) for b in parts(then)]
        tree += [([a, b], 0) for a in parts(when) for b in parts(then.others)]
        links.append(tree)
    stays: list[list[Leaf]] = []
    if schema.max_changes is not None and movable.sum() > schema.max_changes:
        for j in np.flatnonzero(movable):
            name = schema.features[j].name
            same, changed = Clause(name, ("same",)), Clause(name, ("changed",))
            stays.append([([a], 1) for a in parts(same)] + [([a], 0) for a in parts(changed)])
    conditions = [(links, len(links)), (stays, int(movable.sum()) - (schema.max_changes or 0))]
    asked = [(trees, demand) for trees, demand in conditions if trees]
    return _as_arrays(asked, width) if asked else None


def stay_trees(
    conditions: Sequence[Stays], own: np.ndarray, size: np.ndarray, ordered: np.ndarray, width: int
) -> RuleTrees:
    """Return the trees of conditions on what stays, one tree per group of features.

    The arguments are those of `rule_trees`. A group's first leaf holds where all its features stay; the
    following leaves hold where a first one of them changes.
    """

    def parts(j: int, moves: tuple[str, ...]) -> list[Entry]:
        return _parts(j, moves, int(own[j]), int(size[j]), bool(ordered[j]), width)

    def tree(group: tuple[int, ...]) -> list[Leaf]:
        same = [parts(j, ("same",))[0] for j in group]
        changed = [([*same[:k], a], 0) for k, j in enumerate(group) for a in parts(j, MOVED)]
        return [(same, 1), *changed]

    return _as_arrays([([tree(group) for group in c.groups], c.least) for c in conditions], width)


def _parts(j: int, moves: tuple[str, ...], own: int, size: int, ordered: bool, width: int) -> list[Entry]:
    """Return the options of the given moves: intervals, or a set of categories."""
    if not ordered:
        member = np.zeros(width, dtype=np.bool_)
        member[:size] = "up" in moves  # for categories, links contain both "up" and "down" or neither
        member[own] = "same" in moves
        return [(j, 0, size - 1, member)] if member.any() else []
    ends = {"down": (0, own - 1), "same": (own, own), "up": (own + 1, size - 1)}
    intervals: list[tuple[int, int]] = []
    for first, last in (ends[move] for move in moves):  # in increasing order
        if first > last:
            continue
        if intervals and intervals[-1][1] + 1 == first:
            first = intervals.pop()[0]
        intervals.append((first, last))
    return [(j, first, last, None) for first, last in intervals]


def _as_arrays(conditions: list[tuple[list[list[Leaf]], int]], width: int) -> RuleTrees:
    trees = [tree for those, _ in conditions for tree in those]
    leaves = [leaf for tree in trees for leaf in tree]
    entries = [entry for where, _ in leaves for entry in where]
    members = [member for *_, member in entries if member is not None]
    is_set = np.array([member is not None for *_, member in entries])
    votes = np.zeros((len(conditions), len(leaves)), dtype=np.int64)
    begin = 0
    for row, (those, _) in zip(votes, conditions, strict=True):
        mine = [vote for tree in those for _, vote in tree]
        row[begin : begin + len(mine)] = mine
        begin += len(mine)
    return RuleTrees(
        tree_start=_first_positions([len(tree) for tree in trees]),
        votes=votes,
        demand=np.array([demand for _, demand in conditions], dtype=np.int64),
        entry_start=_first_positions([len(where) for where, _ in leaves]),
        feature=np.array([e[0] for e in entries], dtype=np.int64),
        lo=np.array([e[1] for e in entries], dtype=np.int64),
        hi=np.array([e[2] for e in entries], dtype=np.int64),
        set=np.where(is_set, np.cumsum(is_set) - 1, -1),
        member=np.array(members, dtype=np.bool_).reshape(-1, width),
    )


def _first_positions(counts: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
