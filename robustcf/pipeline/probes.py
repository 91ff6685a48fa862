"""Check a schema against the pipeline that it was read from.

Each number is tried on both sides of every threshold of the forest and at the ends of its range, and each
category once. Seeded random rows follow that mix all columns, with missing values where they are allowed.
The schema's encoding must equal the pipeline's bit for bit, and scores and decisions must agree. A single
difference refuses the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from robustcf.forest.arrays import next_above, next_below
from robustcf.pipeline.frames import as_series, values_of
from robustcf.pipeline.steps import Track
from robustcf.schema.coding import decode_numbers
from robustcf.schema.encode import FLOAT32_MAX, encode, greatest_number, least_number, read_rows
from robustcf.schema.feature import Feature, SchemaError
from robustcf.schema.schema import Schema
from robustcf.schema.values import shown
from robustcf.support.tolerances import READ_SCORE

if TYPE_CHECKING:
    from robustcf.pipeline.read import ReadModel

RANDOM_ROWS = 3000
SCORED_ROWS = 2000  # random rows whose scores and decisions are compared
BLOCK = 50_000  # rows that the pipeline encodes at a time


def check_against_model(read: ReadModel, schema: Schema) -> None:
    """Raise a SchemaError unless schema and model agree exactly.

    They are compared by encoding, score and decision.
    """
    if read.forest.n_features != len(schema.columns):
        raise SchemaError(
            f"the schema encodes to {len(schema.columns)} columns, but the forest takes"
            f" {read.forest.n_features}"
        )
    for frame in _blocks(read, schema):
        rows = read_rows(schema, frame[list(schema.names)], missing=True)
        wrong = [reason for reason in rows.reasons if reason is not None]
        if wrong:
            raise SchemaError(f"the schema refuses a value that the model accepts: {wrong[0]}")
        ours = encode(schema, rows.numbers)
        _compare_encodings(read, schema, frame, ours)
    _compare_decisions(read, frame.tail(SCORED_ROWS), ours[-SCORED_ROWS:])  # the last rows are random


def _compare_encodings(read: ReadModel, schema: Schema, frame: pd.DataFrame, ours: np.ndarray) -> None:
    try:
        theirs = read.transform(frame)
    except Exception as error:
        raise SchemaError(
            f"the pipeline fails on values from its own fit: {type(error).__name__}: {error}"
        ) from None
    if theirs.shape != ours.shape:
        raise SchemaError(
            f"the pipeline makes {theirs.shape[1]} columns, but the schema makes {ours.shape[1]}"
        )
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    if same.all():
        return
    for j, feature in enumerate(schema.features):
        mine = slice(schema.column_start[j], schema.column_start[j + 1])
        odd = np.flatnonzero(~same[:, mine].all(axis=1))
        if len(odd):
            value = shown(frame[feature.name].iloc[odd[0]])
            raise _track(read, feature).fail(
                f"its encoding cannot be reproduced exactly ({len(odd)} of {len(frame)} values"
                f" differ, the first is {value})"
            )


def _compare_decisions(read: ReadModel, frame: pd.DataFrame, ours: np.ndarray) -> None:
    """Compare the forest on encoded rows with the model on raw rows."""
    try:
        scores, decided = read.decide(frame)
    except Exception as error:
        raise SchemaError(
            f"the model fails on values from its own fit: {type(error).__name__}: {error}"
        ) from None
    expected = read.forest.predict_proba(ours)
    within = max(READ_SCORE, 2 * read.forest.score_rounding)
    wrong = (np.abs(scores - expected) > within).any(axis=1)
    wrong |= decided != read.forest.predict(ours)
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        row = ", ".join(f"{name} = {shown(frame[name].iloc[i])}" for name in read.columns[:3])
        raise SchemaError(
            f"the model's own decision cannot be reproduced: {wrong.sum()} of {len(frame)} random rows"
            f" have another score or class; the first has {row}, ..."
        )


def _blocks(read: ReadModel, schema: Schema) -> Iterator[pd.DataFrame]:
    """Yield the raw rows to try: each column's own values first, then random ones."""
    rng = np.random.default_rng(0)
    tried = [_values(read, feature, int(schema.column_start[j])) for j, feature in enumerate(schema.features)]
    rows = max(map(len, tried)) + RANDOM_ROWS
    columns = {}
    for feature, own in zip(schema.features, tried, strict=True):
        columns[feature.name] = pd.concat(
            [own, _random(read, feature, own, rows - len(own), rng)], ignore_index=True
        )
    last = (rows - 1) // BLOCK * BLOCK
    starts = [*range(0, last, BLOCK), last]
    if len(starts) > 1 and rows - last < SCORED_ROWS:
        starts.pop()  # keep all scored random rows in the last block
    for start, end in zip(starts, [*starts[1:], rows], strict=True):
        yield read.frame({name: column.iloc[start:end] for name, column in columns.items()}, end - start)


def _values(read: ReadModel, feature: Feature, column: int) -> pd.Series:
    """Return the values of one column that are always tried."""
    if feature.codes is not None:
        return as_series(values_of(feature, _track(read, feature)))
    inner = (read.forest.left >= 0) & (read.forest.feature == column)
    edges = np.unique(read.forest.threshold[inner])
    edges = edges[np.abs(edges) < FLOAT32_MAX / 2]  # a split on missingness has an infinite threshold
    above = next_above(edges, read.forest.wide)
    below = next_below(above, read.forest.wide)
    first, last = least_number(feature, above, rounder=False), greatest_number(feature, below, rounder=False)
    direct = decode_numbers(feature.transform or (), np.concatenate([below, edges, above]))
    near = [first, np.nextafter(first, -np.inf), last, np.nextafter(last, np.inf), direct]
    listed = np.array([float(v) for v in (*feature.values, *feature.span)])
    numbers = _allowed(feature, np.concatenate([*near, listed]))
    if not len(numbers):
        numbers = listed[:1].clip(*_bounds(feature))
    if _may_be_missing(read, feature):
        numbers = np.append(numbers, np.nan)
    return pd.Series(numbers)


def _random(
    read: ReadModel, feature: Feature, own: pd.Series, rows: int, rng: np.random.Generator
) -> pd.Series:
    """Draw random values from `own`, and numbers inside and outside the range."""
    picked = own.iloc[rng.integers(len(own), size=rows)].reset_index(drop=True)
    if feature.codes is not None:
        return picked
    low, high = feature.span
    width = (high - low) or 1.0
    anywhere = rng.uniform(low - width / 4, high + width / 4, rows)
    anywhere = np.where(rng.random(rows) < 0.2, np.round(anywhere), anywhere)
    far = low + width * rng.normal(size=rows) * 10.0 ** rng.uniform(-6, 3, rows)
    numbers = np.where(rng.random(rows) < 0.2, far, anywhere)
    good = np.isin(numbers, _allowed(feature, numbers)) & (rng.random(rows) < 0.7)
    return picked.where(~good, numbers)


def _allowed(feature: Feature, numbers: np.ndarray) -> np.ndarray:
    """Return the numbers that a customer may have."""
    low, high = _bounds(feature)
    with np.errstate(over="ignore", invalid="ignore"):
        readable = np.isfinite(numbers) & (np.abs(feature.encoded(numbers)) <= FLOAT32_MAX / 2)
    allowed: np.ndarray = numbers[readable & (low <= numbers) & (numbers <= high)]
    return allowed


def _bounds(feature: Feature) -> tuple[float, float]:
    low = -np.inf if feature.lower is None else feature.lower
    return low, np.inf if feature.upper is None else feature.upper


def _may_be_missing(read: ReadModel, feature: Feature) -> bool:
    return feature.fills_missing or read.forest.accepts_missing


def _track(read: ReadModel, feature: Feature) -> Track:
    return next(track for track in read.tracks if track.name == feature.name)
