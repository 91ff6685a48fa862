"""Check that arrays form the trees of a forest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from robustcf.forest.arrays import ForestError
from robustcf.forest.boosted.read import check_margins
from robustcf.support.tolerances import CLASS_FRACTIONS

if TYPE_CHECKING:
    from robustcf.forest.forest import Forest


def check_trees(forest: Forest, arrays: Sequence[str]) -> None:
    """Raise a ForestError unless the arrays form trees.

    The arrays may come from an untrusted file.
    """
    nodes = len(forest.left)
    start = forest.tree_start
    if len(start) < 2 or start[0] != 0 or start[-1] != nodes or (np.diff(start) < 1).any():
        raise ForestError("tree_start does not divide the nodes into trees")
    shapes = {name: getattr(forest, name).shape for name in arrays}
    if any(shapes[name] != (nodes,) for name in ("right", "feature", "threshold", "missing_left")):
        raise ForestError(f"node arrays have different lengths: {shapes}")
    if shapes["probabilities"] != (nodes, len(forest.classes)) or len(forest.classes) < 2:
        raise ForestError("a forest needs class fractions for at least two classes")
    if len(set(map(repr, forest.classes))) != len(forest.classes):
        raise ForestError("a class is listed twice")
    if forest.decision is not None:
        forest.class_index(forest.decision.label)
    number = np.arange(nodes)
    end = np.repeat(start[1:], np.diff(start))
    inner = forest.left >= 0
    for child in (forest.left, forest.right):
        if ((child[inner] <= number[inner]) | (child[inner] >= end[inner])).any():
            raise ForestError("a node's child lies outside its tree or before the node")
    children = np.sort(np.concatenate([forest.left[inner], forest.right[inner]]))
    if not np.array_equal(children, np.delete(number, start[:-1])):
        raise ForestError("a node is the child of no other node, or of several")
    if (forest.right[~inner] >= 0).any():
        raise ForestError("a node has a right child but no left one")
    if ((forest.feature[inner] < 0) | (forest.feature[inner] >= forest.n_features)).any():
        raise ForestError(f"a node splits on a column outside 0..{forest.n_features - 1}")
    if np.isnan(forest.threshold[inner]).any():
        raise ForestError("a split threshold is not a number")
    if forest.boosting is not None:
        check_margins(forest)
        return
    p = forest.probabilities
    if not (
        np.isfinite(p).all()
        and (p >= 0).all()
        and np.allclose(p[~inner].sum(axis=1), 1.0, atol=CLASS_FRACTIONS)
    ):
        raise ForestError("leaf fractions are not probabilities")
