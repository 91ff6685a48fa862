"""Build raw rows in the types that a model was fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustcf.pipeline.steps import Track, is_missing
from robustcf.pipeline.tables import MISSING
from robustcf.schema.encode import as_frame, read_rows
from robustcf.schema.feature import Feature
from robustcf.schema.schema import Schema


def as_series(values: Sequence[Any]) -> pd.Series:
    """Return values as a column; mixed types and None need the dtype object."""
    mixed = None in values or len({isinstance(v, str) for v in values if not is_missing(v)}) > 1
    return pd.Series(list(values), dtype=object if mixed else None)


def missing_of(track: Track) -> Any:
    """Return an encoder's missing value: None if it was fitted on None, else NaN."""
    return next((v for v in track.categories if is_missing(v)), np.nan)


def values_of(feature: Feature, track: Track) -> list[Any]:
    """Return every raw value of a feature with codes, a missing value last."""
    words = [v for v in feature.values if not (isinstance(v, str) and v == MISSING)]
    return [*words, missing_of(track)] if feature.missing is not None else words


def typed_columns(
    schema: Schema, tracks: dict[str, Track], rows: pd.DataFrame
) -> tuple[dict[str, pd.Series], list[str | None]]:
    """Return columns in the model's types, and a reason for each unreadable row.

    A table may write a number or a category as text ("3", "true"); the model expects 3 and True.
    """
    frame = as_frame(rows)[list(schema.names)]
    read = read_rows(schema, frame, missing=True)
    columns: dict[str, pd.Series] = {}
    for j, feature in enumerate(schema.features):
        numbers, absent = read.numbers[:, j], frame[feature.name].isna().to_numpy()
        if feature.is_number:
            columns[feature.name] = pd.Series(np.where(absent, np.nan, numbers))
            continue
        gone = missing_of(tracks[feature.name])
        known = [gone if isinstance(v, str) and v == MISSING else v for v in feature.values]
        place = np.where(np.isnan(numbers) | absent, len(known), numbers).astype(np.int64)
        used = as_series([*known, gone] if (place == len(known)).any() else known)
        columns[feature.name] = used.take(place).reset_index(drop=True)
    return columns, read.reasons
