"""The geometry: what a forest can tell apart, and where one customer can go.

A forest sees a feature only through its splits, so each feature falls into *cells* that no tree
tells apart; a leaf is a box of cells. scikit-learn compares the float32 of a value with a float64
threshold, so a split is represented by the least float32 that goes right: two thresholds between
the same float32 neighbours are one split, and a value placed in a cell really falls there.

`compile_geometry` does what depends on forest and schema alone, once. `moves_of` does what
depends on the customer: the nearest allowed value in each cell and its cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from robustcf._jit import compiled
from robustcf.encode import greatest_number, least_number
from robustcf.forest import Forest
from robustcf.schema import Feature, Schema, SchemaError

FREE, FIXED, INCREASE, DECREASE = 0, 1, 2, 3
_ACTIONS = {"free": FREE, "fixed": FIXED, "increase": INCREASE, "decrease": DECREASE}


class Trees(NamedTuple):
    """Any trees as flat arrays, in the form of `Forest`."""

    tree_start: np.ndarray
    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray


@dataclass(frozen=True, eq=False)
class Leaves:
    """Every leaf of the trees as a box: one entry per feature that its path asks about.

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


@dataclass(frozen=True, eq=False)
class Geometry:
    """Cells of all features, one after the other, and all leaves as boxes of cells.

    `low[c]` and `high[c]` are where a move from below and from above first meets an allowed number
    of cell `c` (NaN if there is none); a categorical's cells are its categories. The forest's trees
    come first; other trees that cut the same space (an isolation forest's) may follow.
    """

    schema: Schema
    forest: Forest
    splits: tuple[np.ndarray, ...]
    start: np.ndarray
    low: np.ndarray
    high: np.ndarray
    leaves: Leaves
    action: np.ndarray
    ordered: np.ndarray
    span: np.ndarray
    weight: np.ndarray
    limits: np.ndarray

    def cell_of(self, encoded: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The cell of each feature's value, counted within the feature; 0 for a missing one."""
        cells = np.zeros(len(self.schema), dtype=np.int64)
        for j, feature in enumerate(self.schema.features):
            if np.isnan(numbers[j]):
                continue
            if not feature.ordered:
                cells[j] = int(numbers[j])
            elif len(self.splits[j]):
                value = np.float32(encoded[self.schema.column_start[j]])
                cells[j] = np.searchsorted(self.splits[j], value, side="right")
        return cells


@dataclass(frozen=True, eq=False)
class Moves:
    """Where one customer's features can go, cell by cell (in the order of `Geometry.low`).

    A move into cell `c`, where `allowed[c]`, puts the feature at `number[c]` at cost `cost[c]`;
    `own[f]` is the cell that feature `f` is in, where the customer's own value costs nothing.
    `missing[f]` marks a value that is not there: it stays so, since the distance from the unknown
    is not defined.
    """

    allowed: np.ndarray
    number: np.ndarray
    cost: np.ndarray
    own: np.ndarray
    missing: np.ndarray


def compile_geometry(forest: Forest, schema: Schema, more: Trees | None = None) -> Geometry:
    """Cells and boxes of a forest whose columns are the schema's, and of `more` trees beside it."""
    if forest.n_features != len(schema.columns):
        raise SchemaError(
            f"the schema encodes to {len(schema.columns)} columns but the forest was trained on "
            f"{forest.n_features}"
        )
    trees = _trees(forest, more)
    column_feature = np.repeat(np.arange(len(schema)), np.diff(schema.column_start))
    split_value = next_float32_above(trees.threshold)
    inner = trees.left >= 0
    splits, low, high = [], [], []
    node_split = np.zeros(len(trees.left), dtype=np.int64)
    for j, feature in enumerate(schema.features):
        column = schema.column_start[j]
        if not feature.ordered:
            splits.append(np.empty(0))
            codes = np.arange(len(feature.values), dtype=np.float64)
            allowed = _listed_numbers(feature)
            low.append(np.where(np.isin(codes, allowed), codes, np.nan))
            high.append(low[-1])
            continue
        mine = inner & (trees.feature == column) & (feature.n_columns == 1)
        values = np.unique(split_value[mine])
        node_split[mine] = np.searchsorted(values, split_value[mine])
        splits.append(values)
        cell_low, cell_high = _ends_of_cells(feature, values)
        low.append(cell_low)
        high.append(cell_high)
    for j, feature in enumerate(schema.features):
        if not feature.ordered:
            first = schema.column_start[j]
            mine = inner & (trees.feature >= first) & (trees.feature < first + feature.n_columns)
            node_split[mine] = trees.feature[mine] - first
    start = np.concatenate([[0], np.cumsum([len(x) for x in low])])
    ordered = np.array([f.ordered for f in schema.features])
    return Geometry(
        schema=schema,
        forest=forest,
        splits=tuple(splits),
        start=start,
        low=np.concatenate(low),
        high=np.concatenate(high),
        leaves=_boxes(trees, column_feature, node_split, ordered, np.diff(start)),
        action=np.array([_ACTIONS[f.action] for f in schema.features]),
        ordered=ordered,
        span=np.array([f.span for f in schema.features]),
        weight=np.array([f.cost_weight for f in schema.features]),
        limits=np.array([_limits(f) for f in schema.features]),
    )


def _trees(forest: Forest, more: Trees | None) -> Trees:
    first = Trees(*(getattr(forest, name) for name in Trees._fields))
    if more is None:
        return first
    n = len(forest.left)
    left, right = (np.where(child >= 0, child + n, -1) for child in (more.left, more.right))
    shifted = more._replace(tree_start=more.tree_start[1:] + n, left=left, right=right)
    return Trees(*(np.concatenate(pair) for pair in zip(first, shifted, strict=True)))


def next_float32_above(thresholds: np.ndarray) -> np.ndarray:
    """The least float32 (as float64) that compares greater than each float64 threshold."""
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
        above = np.where(nearest > thresholds, nearest, np.nextafter(nearest, np.float32(np.inf)))
    return above.astype(np.float64)


def _is_listed(feature: Feature) -> bool:
    return feature.kind != "continuous" or feature.allowed is not None


def _limits(feature: Feature) -> tuple[float, float]:
    """The search limits: declared ones, or what was observed of a continuous feature."""
    low, high = (-np.inf, np.inf) if _is_listed(feature) else feature.span
    return (
        low if feature.lower is None else feature.lower,
        high if feature.upper is None else feature.upper,
    )


def _listed_numbers(feature: Feature) -> np.ndarray:
    """The numbers that a move may end on, where they are listed one by one."""
    numbers = np.unique([feature.number(v) for v in feature.values or feature.allowed or ()])
    if feature.allowed is not None:
        numbers = numbers[np.isin(numbers, [feature.number(v) for v in feature.allowed])]
    if feature.is_number:
        low, high = _limits(feature)
        numbers = numbers[(numbers >= low) & (numbers <= high)]
        if feature.step is not None:
            dust = 1e-9 * feature.step + 2 * np.spacing(np.abs(numbers))
            numbers = numbers[np.abs(numbers - on_step(feature.step, numbers / feature.step)) <= dust]
    return numbers


def _ends_of_cells(feature: Feature, splits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest number in each cell between the splits, NaN where there is none."""
    if _is_listed(feature):
        low, high = np.full(len(splits) + 1, np.nan), np.full(len(splits) + 1, np.nan)
        numbers = _listed_numbers(feature)
        cells = np.searchsorted(splits, feature.encoded(numbers).astype(np.float32), side="right")
        low[cells[::-1]] = numbers[::-1]
        high[cells] = numbers
        return low, high
    with np.errstate(over="ignore", invalid="ignore"):  # splits at the ends of float32, out of reach
        if feature.step is None:
            # A float32 itself, not the float64 half-way to it that rounds there; but no bound is passed.
            lower, upper = _limits(feature)
            ups = np.minimum(least_number(feature, splits), upper)
            downs = np.maximum(greatest_number(feature, _float32_below(splits)), lower)
        else:
            first = _least_rounding_to(splits)
            ups = _up_to_step(feature.step, least_number(feature, first, plain=False))
            last = greatest_number(feature, np.nextafter(first, -np.inf), plain=False)
            downs = -_up_to_step(feature.step, -last)
        # No move ever rises into the first cell or falls into the last.
        low, high = np.concatenate([[np.nan], ups]), np.concatenate([downs, [np.nan]])
        for ends in (low, high):
            encoded = feature.encoded(ends).astype(np.float32)
            cells = np.searchsorted(splits, encoded, side="right")
            ends[(cells != np.arange(len(ends))) | ~np.isfinite(encoded)] = np.nan
    return low, high


def _float32_below(splits: np.ndarray) -> np.ndarray:
    return np.nextafter(splits.astype(np.float32), np.float32(-np.inf)).astype(np.float64)


def _least_rounding_to(splits: np.ndarray) -> np.ndarray:
    """The least float64 that the cast to float32 rounds to each split or above it."""
    below = _float32_below(splits)
    halfway = np.where(np.isinf(below), splits, below + (splits - below) / 2)
    return np.where(halfway.astype(np.float32) >= splits, halfway, np.nextafter(halfway, np.inf))


def on_step(step: float, multiples: np.ndarray) -> np.ndarray:
    """Whole multiples of a step, free of binary dust: 3 * 0.1 is 0.3."""
    exponent = Decimal(str(step)).as_tuple().exponent
    digits = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    rounded: np.ndarray = np.round(np.rint(multiples) * step, digits)
    return rounded


def _up_to_step(step: float, numbers: np.ndarray) -> np.ndarray:
    """The least whole multiple of the step that is not below each number."""
    multiple = np.floor(numbers / step) - 1
    for _ in range(3):  # division may be off by one
        multiple = multiple + (on_step(step, multiple) < numbers)
    return on_step(step, multiple)


def _boxes(
    trees: Trees,
    column_feature: np.ndarray,
    node_split: np.ndarray,
    ordered: np.ndarray,
    n_cells: np.ndarray,
) -> Leaves:
    node_feature = np.full(len(trees.left), -1, dtype=np.int64)
    inner = trees.left >= 0
    node_feature[inner] = column_feature[trees.feature[inner]]
    most = int(n_cells[~ordered].max()) if (~ordered).any() else 1
    return Leaves(
        *_walk(
            trees.tree_start,
            trees.left,
            trees.right,
            trees.threshold,
            trees.missing_left,
            node_feature,
            node_split,
            ordered,
            n_cells.astype(np.int64),
            most,
        )
    )


@compiled
def _walk(tree_start, left, right, threshold, missing_left, node_feature, node_split, ordered, n_cells, most):
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
    member = np.ones((n_entries, most), dtype=np.bool_)
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
                    for c in range(n_cells[f]):  # the encoded column is 1 for its own category only
                        value = 1.0 if c == split else 0.0
                        member[sets[e], c] &= (value <= threshold[node]) == goes_left
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


def moves_of(geometry: Geometry, numbers: np.ndarray, encoded: np.ndarray) -> Moves:
    """Every cell that a customer's features may move to, with the nearest value there."""
    missing = np.isnan(numbers)
    own = geometry.cell_of(encoded, numbers)
    allowed, number, cost = _moves(
        numbers,
        own,
        missing,
        geometry.start,
        geometry.low,
        geometry.high,
        geometry.action,
        geometry.ordered,
        geometry.span,
        geometry.weight,
        geometry.limits,
    )
    return Moves(allowed, number, cost, own, missing)


@compiled
def _moves(numbers, own, missing, start, low, high, action, ordered, span, weight, limits):
    allowed = np.zeros(start[-1], dtype=np.bool_)
    number = np.full(start[-1], np.nan)
    cost = np.full(start[-1], np.inf)
    for f in range(len(numbers)):
        x, act, width = numbers[f], action[f], span[f, 1] - span[f, 0]
        if missing[f]:
            act = FIXED
        for c in range(start[f], start[f + 1]):
            step = c - start[f] - own[f]
            if step == 0:
                allowed[c], number[c], cost[c] = True, x, 0.0
                continue
            if act == FIXED or (act == INCREASE and step < 0) or (act == DECREASE and step > 0):
                continue
            v = low[c] if step > 0 else high[c]
            if np.isnan(v) or v < min(limits[f, 0], x) or v > max(limits[f, 1], x):
                continue
            if ordered[f]:
                price = weight[f] * abs((v - span[f, 0]) / width - (x - span[f, 0]) / width)
            else:
                price = 2.0 * weight[f]
            allowed[c], number[c], cost[c] = True, v, price
    return allowed, number, cost
