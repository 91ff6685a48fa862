"""The leaves of trees as boxes of cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from robustcf.forest.forest import Forest
from robustcf.schema.schema import Schema
from robustcf.support.jit import compiled


class Trees(NamedTuple):
    """Trees as flat arrays, in the layout of `Forest`."""

    tree_start: np.ndarray
    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray


@dataclass(frozen=True, eq=False)
class Leaves:
    """Every leaf of the trees as a box, with one entry per feature on its path.

    Entry `e` allows the cells `lo[e]..hi[e]` of an ordered feature, or the categories
    `member[set[e]]`; `missing[e]` says whether a missing value takes this path.
    """

    tree_start: np.ndarray
    node: np.ndarray
    entry_start: np.ndarray
    feature: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    set: np.ndarray
    member: np.ndarray
    missing: np.ndarray


def joined_trees(forest: Forest, more: Trees | None) -> Trees:
    first = Trees(*(getattr(forest, name) for name in Trees._fields))
    if more is None:
        return first
    n = len(forest.left)
    left, right = (np.where(child >= 0, child + n, -1) for child in (more.left, more.right))
    shifted = more._replace(tree_start=more.tree_start[1:] + n, left=left, right=right)
    return Trees(*(np.concatenate(pair) for pair in zip(first, shifted, strict=True)))


def boxes(
    trees: Trees,
    column_feature: np.ndarray,
    node_split: np.ndarray,
    ordered: np.ndarray,
    n_cells: np.ndarray,
    codes: np.ndarray,
) -> Leaves:
    node_feature = np.full(len(trees.left), -1, dtype=np.int64)
    inner = trees.left >= 0
    node_feature[inner] = column_feature[trees.feature[inner]]
    return Leaves(
        *_walk_leaves(
            trees.tree_start,
            trees.left,
            trees.right,
            trees.feature,
            trees.threshold,
            trees.missing_left,
            node_feature,
            node_split,
            ordered,
            n_cells.astype(np.int64),
            codes,
        )
    )


def column_codes(schema: Schema, floats: type[np.floating[Any]]) -> np.ndarray:
    """Return the codes of categories as the model reads them, shape (columns, categories)."""
    most = max((len(f.values) for f in schema.features if not f.ordered), default=1)
    codes = np.zeros((len(schema.columns), most))
    for feature, first in zip(schema.features, schema.column_start, strict=False):
        if not feature.ordered and feature.n_columns:
            rows = feature.code_rows.astype(floats)
            codes[first : first + feature.n_columns, : len(rows)] = rows.T
    return codes


@compiled
def _walk_leaves(
    tree_start,
    left,
    right,
    column,
    threshold,
    missing_left,
    node_feature,
    node_split,
    ordered,
    n_cells,
    codes,
):
    n_nodes, n_features = len(left), len(ordered)
    parent = np.full(n_nodes, -1, dtype=np.int64)
    depth = np.zeros(n_nodes, dtype=np.int64)
    n_leaves, n_entries = 0, 0
    for node in range(n_nodes):
        if left[node] < 0:
            n_leaves += 1
            n_entries += depth[node]
        else:
            for child in (left[node], right[node]):
                parent[child] = node
                depth[child] = depth[node] + 1
    leaf_tree = np.zeros(len(tree_start), dtype=np.int64)
    leaf_node = np.zeros(n_leaves, dtype=np.int64)
    entry_start = np.zeros(n_leaves + 1, dtype=np.int64)
    feature = np.zeros(n_entries, dtype=np.int64)
    lo = np.zeros(n_entries, dtype=np.int64)
    hi = np.zeros(n_entries, dtype=np.int64)
    sets = np.full(n_entries, -1, dtype=np.int64)
    missing = np.ones(n_entries, dtype=np.bool_)
    member = np.ones((n_entries, codes.shape[1]), dtype=np.bool_)
    slot = np.full(n_features, -1, dtype=np.int64)
    leaf, end, n_sets = 0, 0, 0
    for tree in range(len(tree_start) - 1):
        for last in range(tree_start[tree], tree_start[tree + 1]):
            if left[last] >= 0:
                continue
            begin, child = end, last
            while parent[child] >= 0:
                node = parent[child]
                f, split, goes_left = node_feature[node], node_split[node], left[node] == child
                if slot[f] < begin:
                    slot[f] = end
                    feature[end], lo[end], hi[end] = f, 0, n_cells[f] - 1
                    if not ordered[f]:
                        sets[end] = n_sets
                        n_sets += 1
                    end += 1
                e = slot[f]
                missing[e] &= goes_left == missing_left[node]
                if not ordered[f]:
                    for c in range(n_cells[f]):
                        value = codes[column[node], c]
                        left_side = missing_left[node] if np.isnan(value) else value <= threshold[node]
                        member[sets[e], c] &= left_side == goes_left
                elif goes_left:
                    hi[e] = min(hi[e], split)
                else:
                    lo[e] = max(lo[e], split + 1)
                child = node
            leaf_node[leaf] = last
            leaf += 1
            entry_start[leaf] = end
        leaf_tree[tree + 1] = leaf
    return (
        leaf_tree,
        leaf_node,
        entry_start,
        feature[:end].copy(),
        lo[:end].copy(),
        hi[:end].copy(),
        sets[:end].copy(),
        member[: max(n_sets, 1)].copy(),
        missing[:end].copy(),
    )
