"""Points of an earlier run in raw units, and as the columns of another model.

A pipeline that is fitted again has other scaled values, but its raw columns stay the same. An earlier point
is decoded with the earlier schema, and encoded with the new one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from robustcf import Schema
from robustcf.schema.encode import decode, encode, read_rows, to_frame
from robustcf.schema.schema import Feature


def incomparable(earlier: Schema, schema: Schema) -> str | None:
    """Return why points of the earlier schema cannot be given to a model of this one, or None."""
    gone = [name for name in schema.names if name not in earlier.names]
    if gone:
        return f"it has no column {gone[0]!r}"
    for feature in schema.features:
        if feature.is_number != earlier[feature.name].is_number:
            return f"column {feature.name!r} is a number in only one of the two schemas"
    return None


def unlike_rows(earlier: Schema, schema: Schema) -> str | None:
    """Return why digests of equal rows differ between the two schemas, or None if they agree."""
    if earlier.names != schema.names:
        return "its columns differ"
    for own, other in zip(schema.features, earlier.features, strict=True):
        if not own.is_number and own.values != other.values:
            return f"the categories of column {own.name!r} differ"
    return None


def encoded_again(table: pa.Table, earlier: Schema, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of `counterfactuals` rows as this schema's columns, and which of them it can hold.

    Changed features have exactly the value that the customer was told. A point with a category that this
    schema does not know cannot be encoded.
    """
    points = np.array(table["point"].to_pylist(), dtype=np.float64)
    numbers = decode(earlier, points)
    for i, changes in enumerate(table["changes"].to_pylist()):
        for change in changes or ():
            j = earlier.names.index(change["feature"])
            numbers[i, j] = _number(earlier.features[j], change["after"])
    frame = to_frame(earlier, numbers)[list(schema.names)]
    again = read_rows(schema, frame, missing=True).numbers
    words = [j for j, feature in enumerate(schema.features) if not feature.is_number]
    known = ~np.isnan(again[:, words]).any(axis=1)
    encoded = np.full((len(again), len(schema.columns)), np.nan)
    encoded[known] = encode(schema, again[known])
    return encoded, known


def _number(feature: Feature, text: str) -> float:
    """Return the number of a value's canonical text."""
    if feature.is_number:
        return float(text)
    return float([str(value) for value in feature.values].index(text))
