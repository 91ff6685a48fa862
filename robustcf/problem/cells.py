"""The geometry of a forest: each feature's cells, and leaves as boxes of cells.

A forest sees a feature only through its splits. The splits divide a feature into *cells*, and no tree
distinguishes two values of the same cell. A leaf is a box of cells.

scikit-learn compares the float32 of a value with a float64 threshold. A split is therefore represented by the
least float32 that goes right (for models that compare float64 numbers, by the least float64). Two thresholds
between the same float32 neighbours are one split, and scikit-learn puts a value of a cell on the intended
side of every split.

The geometry depends only on forest and schema and is compiled once; `moves` adds the customer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robustcf.forest.arrays import next_above, next_below
from robustcf.forest.forest import Forest
from robustcf.problem.boxes import Leaves, Trees, boxes, column_codes, joined_trees
from robustcf.schema.actionability import listed_numbers, search_limits, up_to_step
from robustcf.schema.encode import greatest_number, least_number
from robustcf.schema.feature import RELATIVE, Feature, SchemaError
from robustcf.schema.schema import Schema

FREE, FIXED, INCREASE, DECREASE = 0, 1, 2, 3
_ACTIONS = {"free": FREE, "fixed": FIXED, "increase": INCREASE, "decrease": DECREASE}


@dataclass(frozen=True, eq=False)
class Geometry:
    """Cells of all features, one after the other, and all leaves as boxes of cells.

    A move from below enters cell `c` at the allowed number `low[c]`, a move from above at `high[c]` (NaN if
    the cell has no allowed number). A categorical's cells are its categories. The forest's trees come first;
    other trees over the same columns, such as an isolation forest's, may follow.

    - `listed[f]`: a feature's listed numbers and their cells; empty if the feature lists none.
    - `personal`: features whose moves depend on the customer's own value (relative bounds, tables).
    - `ruled`: features in a rule across features.
    - `pushed`: features that a rule may force to move.
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
    listed: tuple[tuple[np.ndarray, ...], ...]
    personal: tuple[int, ...]
    ruled: tuple[int, ...]
    pushed: tuple[int, ...]

    def cell_of(self, encoded: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return the cell of each feature's value within the feature; 0 if missing."""
        cells = np.zeros(len(self.schema), dtype=np.int64)
        for j, feature in enumerate(self.schema.features):
            if np.isnan(numbers[j]) and not feature.fills_missing:
                continue
            if not feature.ordered:
                cells[j] = int(numbers[j])
            elif len(self.splits[j]):
                value = self.forest.floats(encoded[self.schema.column_start[j]])
                cells[j] = np.searchsorted(self.splits[j], value, side="right")
        return cells

    def cells_of(self, j: int, numbers: np.ndarray) -> np.ndarray:
        """Return the cells of an ordered feature's numbers."""
        if not len(self.splits[j]):
            return np.zeros(len(numbers), dtype=np.int64)
        encoded = self.schema.features[j].encoded(numbers).astype(self.forest.floats)
        return np.searchsorted(self.splits[j], encoded, side="right")


def compile_geometry(forest: Forest, schema: Schema, more: Trees | None = None) -> Geometry:
    """Compile the cells and boxes of a forest and of `more` trees."""
    if forest.n_features != len(schema.columns):
        raise SchemaError(
            f"the schema encodes to {len(schema.columns)} columns but the forest was trained on "
            f"{forest.n_features}"
        )
    trees = joined_trees(forest, more)
    column_feature = np.repeat(np.arange(len(schema)), np.diff(schema.column_start))
    split_value = next_above(trees.threshold, forest.wide)
    if more is not None and forest.wide:  # these trees compare float32 numbers
        own = len(forest.left)
        split_value[own:] = _least_rounding_to(next_above(trees.threshold[own:], wide=False))
    inner = trees.left >= 0
    splits, low, high = [], [], []
    listed: list[tuple[np.ndarray, ...]] = []
    node_split = np.zeros(len(trees.left), dtype=np.int64)
    for j, feature in enumerate(schema.features):
        column = schema.column_start[j]
        if not feature.ordered:
            splits.append(np.empty(0))
            codes = np.arange(len(feature.values), dtype=np.float64)
            allowed = listed_numbers(feature)
            low.append(np.where(np.isin(codes, allowed), codes, np.nan))
            high.append(low[-1])
            listed.append((allowed, allowed.astype(np.int64)))
            continue
        mine = inner & (trees.feature == column) & (feature.n_columns == 1)
        values = np.unique(split_value[mine])
        node_split[mine] = np.searchsorted(values, split_value[mine])
        splits.append(values)
        listed.append(_listed_cells(feature, values, forest.floats) if feature.is_listed else ())
        cell_low, cell_high = _ends_of_cells(feature, values, forest.wide, *listed[-1])
        low.append(cell_low)
        high.append(cell_high)
    start = np.concatenate([[0], np.cumsum([len(x) for x in low])])
    ordered = np.array([f.ordered for f in schema.features])
    return Geometry(
        schema=schema,
        forest=forest,
        splits=tuple(splits),
        start=start,
        low=np.concatenate(low),
        high=np.concatenate(high),
        leaves=boxes(
            trees, column_feature, node_split, ordered, np.diff(start), column_codes(schema, forest.floats)
        ),
        action=np.array([_ACTIONS[f.action] for f in schema.features]),
        ordered=ordered,
        span=np.array([f.span for f in schema.features]),
        weight=np.array([f.cost_weight for f in schema.features]),
        limits=np.array([search_limits(f) for f in schema.features]),
        listed=tuple(listed),
        personal=tuple(j for j, f in enumerate(schema.features) if _is_personal(f)),
        ruled=_places(schema, _ruled(schema)),
        pushed=_places(schema, {name for link in schema.links for name in link.pushed}),
    )


def _is_personal(feature: Feature) -> bool:
    return any(getattr(feature, key) is not None for key in (*RELATIVE, "forbidden", "cost_table"))


def _ruled(schema: Schema) -> set[str]:
    if schema.max_changes is not None:
        return set(schema.names)
    return {clause.feature for link in schema.links for clause in (link.when, link.then)}


def _places(schema: Schema, names: set[str]) -> tuple[int, ...]:
    """Return positions of ordered features.

    A category has no second value in its own cell.
    """
    return tuple(j for j, f in enumerate(schema.features) if f.name in names and f.ordered)


def _listed_cells(
    feature: Feature, splits: np.ndarray, floats: type[np.floating[Any]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return an ordered feature's listed numbers and their cells."""
    numbers = listed_numbers(feature)
    return numbers, np.searchsorted(splits, feature.encoded(numbers).astype(floats), side="right")


def _ends_of_cells(
    feature: Feature, splits: np.ndarray, wide: bool, *listed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and greatest number of each cell; NaN if there is none."""
    if listed:
        low, high = np.full(len(splits) + 1, np.nan), np.full(len(splits) + 1, np.nan)
        numbers, cells = listed
        low[cells[::-1]] = numbers[::-1]
        high[cells] = numbers
        return low, high
    with np.errstate(over="ignore", invalid="ignore"):  # splits near the largest float32 overflow
        if feature.step is None:
            # Take the float32 itself, not a float64 that rounds to it, but never beyond a bound.
            lower, upper = search_limits(feature)
            ups = np.minimum(least_number(feature, splits), upper)
            downs = np.maximum(greatest_number(feature, next_below(splits, wide)), lower)
        else:
            first = splits if wide else _least_rounding_to(splits)
            ups = up_to_step(feature.step, least_number(feature, first, rounder=False))
            last = greatest_number(feature, np.nextafter(first, -np.inf), rounder=False)
            downs = -up_to_step(feature.step, -last)
        # No move upwards ends in the first cell, and no move downwards in the last.
        low, high = np.concatenate([[np.nan], ups]), np.concatenate([downs, [np.nan]])
        for ends in (low, high):
            encoded = feature.encoded(ends).astype(np.float64 if wide else np.float32)
            cells = np.searchsorted(splits, encoded, side="right")
            ends[(cells != np.arange(len(ends))) | ~np.isfinite(encoded)] = np.nan
    return low, high


def _least_rounding_to(splits: np.ndarray) -> np.ndarray:
    """Return the least float64 that rounds to each split or above as a float32."""
    below = next_below(splits, wide=False)
    halfway = np.where(np.isinf(below), splits, below + (splits - below) / 2)
    return np.where(halfway.astype(np.float32) >= splits, halfway, np.nextafter(halfway, np.inf))
