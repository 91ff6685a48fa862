"""One customer's problem (eq. 2) as arrays of options, leaves and demands.

Choose one option per feature at the least total cost such that the votes of the leaves reached add up to the
demand. Votes are integers: hard votes as they are, soft votes in fixed point. Whether a choice reaches the
demand is therefore exact and does not depend on the order of summation.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from robustcf.support.jit import compiled


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

    @property
    def has_closed_tree(self) -> bool:
        """Whether a tree has no open leaf, so that nothing is feasible."""
        return bool((self.tree_start[1:] == self.tree_start[:-1]).any())

    def objective(self, choice: np.ndarray) -> float:
        """Return the cost of a choice (one position per feature), summed exactly."""
        return math.fsum(self.cost[self.start[:-1] + choice].tolist())

    def votes_of(self, choice: np.ndarray) -> np.ndarray:
        """Return the votes that a choice collects, per condition."""
        return votes_at(self, np.ascontiguousarray(choice))

    def reaches(self, choice: np.ndarray) -> bool:
        return bool((self.votes_of(choice) >= self.demand).all())


@compiled
def holds(p: Problem, e: int, option: int) -> bool:
    if p.set[e] >= 0:
        return bool(p.member[p.set[e], option])
    return bool(p.lo[e] <= option <= p.hi[e])


@compiled
def votes_at(p: Problem, choice: np.ndarray) -> np.ndarray:
    total = np.zeros(p.votes.shape[0], dtype=np.int64)
    for leaf in range(len(p.entry_start) - 1):
        inside = True
        for e in range(p.entry_start[leaf], p.entry_start[leaf + 1]):
            if not holds(p, e, choice[p.feature[e]]):
                inside = False
                break
        if inside:
            total += p.votes[:, leaf]
    return total
