"""Trees as flat arrays: join trees, find the leaves that rows reach, sum votes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robustcf.support.jit import compiled


class ForestError(ValueError):
    """Raised when a model cannot be read as a forest, or a forest is malformed."""


def next_float32_above(thresholds: np.ndarray) -> np.ndarray:
    """Return the least float32 (as float64) above each float64 threshold."""
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
        above = np.where(nearest > thresholds, nearest, np.nextafter(nearest, np.float32(np.inf)))
    return above.astype(np.float64)


def next_above(thresholds: np.ndarray, wide: bool) -> np.ndarray:
    """Return the least float64 (if rows are compared as such) or float32 above each threshold."""
    return np.nextafter(thresholds, np.inf) if wide else next_float32_above(thresholds)


def next_below(numbers: np.ndarray, wide: bool) -> np.ndarray:
    """Return the greatest float64 or float32 below each number, as in `next_above`."""
    kind = np.float64 if wide else np.float32
    below: np.ndarray = np.nextafter(numbers.astype(kind), kind(-np.inf)).astype(np.float64)
    return below


def join_trees(trees: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Concatenate single trees, whose nodes are numbered from 0."""
    sizes = [len(tree["left"]) for tree in trees]
    start = np.concatenate([[0], np.cumsum(sizes)])
    joined = {name: np.concatenate([tree[name] for tree in trees]) for name in trees[0]}
    offset = np.repeat(start[:-1], sizes)
    for child in ("left", "right"):
        joined[child] = np.where(joined[child] >= 0, joined[child] + offset, -1)
    return joined | {"tree_start": start}


@compiled
def leaves_of(
    X: np.ndarray,
    tree_start: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    feature: np.ndarray,
    threshold: np.ndarray,
    missing_left: np.ndarray,
) -> np.ndarray:
    n, n_trees = X.shape[0], len(tree_start) - 1
    out = np.empty((n, n_trees), dtype=np.int32)
    for i in range(n):
        for t in range(n_trees):
            node = tree_start[t]
            while left[node] >= 0:
                value = X[i, feature[node]]
                if np.isnan(value):
                    go_left = missing_left[node]
                else:
                    go_left = np.float64(value) <= threshold[node]
                node = left[node] if go_left else right[node]
            out[i, t] = node
    return out


@compiled
def sum_in_order(leaves: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    n, n_trees = leaves.shape
    total = np.zeros((n, probabilities.shape[1]))
    for i in range(n):
        for t in range(n_trees):
            for c in range(probabilities.shape[1]):
                total[i, c] += probabilities[leaves[i, t], c]
    return total
