"""Trees of any library as nested nodes, and nested nodes as the flat arrays of a forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from robustcf.forest.arrays import ForestError, join_trees

MOST_NODES = 100_000  # per tree; sets of categories are written as several splits, which copies subtrees


@dataclass(frozen=True)
class Split:
    """A row goes left where its number is at most the threshold, or is missing and `missing_left`."""

    column: int
    threshold: float
    missing_left: bool
    left: Node
    right: Node


Node = float | Split  # a leaf is its value


def split_on_categories(
    column: int, codes_left: Sequence[bool], missing_left: bool, left: Node, right: Node
) -> Node:
    """Return splits of a code 0, 1, ... that send the marked codes left and all others right.

    >>> split_on_categories(0, [True, False, False, True], False, 1.0, 2.0).threshold
    0.5
    """
    ends = [k for k, (a, b) in enumerate(pairwise(codes_left)) if a != b]
    node = left if codes_left[-1] else right
    for k in reversed(ends):
        mine = left if codes_left[k] else right
        node = Split(column, k + 0.5, codes_left[k] == missing_left, mine, node)
    return node


def flattened(roots: Sequence[Node]) -> dict[str, Any]:
    """Return the arrays of a forest; a leaf has the margins of both classes."""
    return join_trees([_flat(root) for root in roots])


def _flat(root: Node) -> dict[str, np.ndarray]:
    """Number a tree's nodes, parents before their children."""
    column: list[int] = []
    children: list[list[int]] = []
    threshold, missing, value = [], [], []
    todo: list[tuple[Node, int, int]] = [(root, -1, 0)]
    while todo:
        node, parent, side = todo.pop()
        here = len(column)
        if here >= MOST_NODES:
            raise ForestError(
                f"a tree has more than {MOST_NODES:,} nodes once its sets of categories are written as "
                "splits; use one-hot encoding"
            )
        if parent >= 0:
            children[parent][side] = here
        children.append([-1, -1])
        if isinstance(node, Split):
            column.append(node.column)
            threshold.append(node.threshold)
            missing.append(node.missing_left)
            value.append(0.0)
            todo += [(node.right, here, 1), (node.left, here, 0)]
        else:
            column.append(-1)
            threshold.append(0.0)
            missing.append(False)
            value.append(node)
    margins = np.array(value, dtype=np.float64)
    both = np.array(children)
    return {
        "left": both[:, 0],
        "right": both[:, 1],
        "feature": np.array(column),
        "threshold": np.array(threshold),
        "missing_left": np.array(missing, dtype=bool),
        "probabilities": np.stack([-margins, margins], axis=1),
    }
