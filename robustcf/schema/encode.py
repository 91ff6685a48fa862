"""Convert raw rows to the model's matrix and back.

A row has three forms:

- *raw*: the values in the customer's table.
- *numbers*: one float64 per feature, which is the number itself or a category's position.
- *encoded*: the columns that the model was trained on, such as scaled numbers and one-hot categories.

The library computes with numbers. A feature that does not change is copied and never decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from robustcf.schema.coding import decode_numbers
from robustcf.schema.schema import Feature, Schema, SchemaError
from robustcf.schema.values import number_of, numbers_of, shown

FLOAT32_MAX = float(np.finfo(np.float32).max)
Row = Mapping[str, Any] | pd.Series


@dataclass(frozen=True)
class Rows:
    """Rows as numbers; `reasons[i]` says why row i cannot be used, or is None."""

    numbers: np.ndarray
    reasons: list[str | None]

    def take(self, rows: Sequence[int] | np.ndarray) -> Rows:
        """Return the rows at these positions."""
        return Rows(self.numbers[rows], [self.reasons[i] for i in rows])


def as_frame(rows: pd.DataFrame | Row | Iterable[Row]) -> pd.DataFrame:
    """Return rows as a frame with text column names (column 0 becomes "0")."""
    if isinstance(rows, pd.DataFrame):
        frame = rows
    elif isinstance(rows, Mapping | pd.Series):
        frame = pd.DataFrame([dict(rows)])
    else:
        frame = pd.DataFrame([dict(row) for row in rows])
    if all(isinstance(name, str) for name in frame.columns):
        return frame
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def read_rows(schema: Schema, rows: pd.DataFrame | Row | Iterable[Row], *, missing: bool = False) -> Rows:
    """Check rows in original units and turn them into numbers.

    A bad row raises nothing: its first error becomes its reason, and the other rows are read as usual.
    `missing` says whether the forest accepts a missing number.

    Examples
    --------
    >>> schema = Schema((Feature("age", "continuous", low=0, high=100, lower=0),))
    >>> read_rows(schema, pd.DataFrame({"age": [30, -1]})).reasons
    [None, "column 'age': -1 is below the declared lower bound 0"]
    """
    frame = as_frame(rows)
    numbers = np.full((len(frame), len(schema)), np.nan)
    reasons: list[str | None] = [None] * len(frame)
    counts = frame.columns.value_counts(sort=False)
    wrong = [f"column {name!r} is missing" for name in schema.names if name not in counts]
    wrong += [f"column {name!r} is not in the schema" for name in counts.index if name not in schema.names]
    wrong += [f"column {name!r} occurs twice" for name in schema.names if counts.get(name, 0) > 1]
    if wrong:
        return Rows(numbers, [wrong[0]] * len(frame))
    for j, feature in enumerate(schema.features):
        column = frame[feature.name]
        absent = column.isna().to_numpy()
        numbers[:, j], problems = _read_column(feature, column, absent, missing)
        for where, what in problems:
            for i in np.flatnonzero(where):
                value = "the value" if absent[i] else shown(column.iloc[i])
                reasons[i] = reasons[i] or f"column {feature.name!r}: {value} {what}"
    return Rows(numbers, reasons)


def _read_column(
    feature: Feature, column: pd.Series, absent: np.ndarray, missing: bool
) -> tuple[np.ndarray, list[tuple[np.ndarray, str]]]:
    """Return a column as numbers, and a mask of rows and a text for each problem."""
    if feature.missing is not None and absent.any():
        column = column.astype(object).where(~absent, feature.missing)
        absent = np.zeros_like(absent)
    if not feature.is_number:
        codes = {v: float(i) for i, v in enumerate(feature.values)}
        words = {str(v): code for v, code in codes.items()}
        words |= {str(v).lower(): code for v, code in codes.items() if isinstance(v, bool)}
        numbers = _codes_of(column, absent, codes, words)
        if feature.other is not None:
            numbers = np.where(np.isnan(numbers) & ~absent, feature.number(feature.other), numbers)
        return numbers, [
            (absent, "is missing"),
            (np.isnan(numbers), f"is not one of its values ({_listed(feature)})"),
        ]
    numbers = numbers_of(column)
    with np.errstate(invalid="ignore", over="ignore"):
        too_large = ~(np.abs(feature.encoded(numbers)) <= FLOAT32_MAX) & ~np.isnan(numbers)
    problems = [
        (np.isnan(numbers) & ~absent, "is not a number"),
        (np.isinf(numbers) | (too_large & (feature.codes is None)), "is too large"),
    ]
    if feature.codes is not None:
        problems.append((too_large, f"is not one of its values ({_listed(feature)})"))
    if feature.codes is not None or not (missing or feature.fills_missing):
        problems.append((absent, "is missing; this forest does not accept missing values"))
    if feature.lower is not None:
        problems.append((numbers < feature.lower, f"is below the declared lower bound {feature.lower:g}"))
    if feature.upper is not None:
        problems.append((numbers > feature.upper, f"is above the declared upper bound {feature.upper:g}"))
    return numbers, problems


def _codes_of(
    column: pd.Series, absent: np.ndarray, codes: dict[Any, float], words: dict[str, float]
) -> np.ndarray:
    """Return the code of each value, NaN for absent and unknown ones.

    In a column of text, each different word is looked up once. Elsewhere, values that are equal can have
    different texts (1 and True), so each is looked up.
    """
    if pd.api.types.infer_dtype(column, skipna=True) == "string":
        where, different = pd.factorize(column)  # -1 where absent
        known = [_code(word, codes, words) for word in different]
        return np.array([*known, np.nan])[np.where(absent, -1, where)]
    found = (np.nan if gone else _code(v, codes, words) for v, gone in zip(column, absent, strict=True))
    return np.fromiter(found, dtype=np.float64, count=len(column))


def _code(value: Any, codes: dict[Any, float], words: dict[str, float]) -> float:
    try:
        if value in codes:
            return codes[value]
        text = str(value)  # "3" in a text file is the category 3, even if the model stores 3.0
        return words[text] if text in words else codes.get(number_of(value), np.nan)
    except (TypeError, ValueError):  # unhashable, or an integer too long for str()
        return np.nan


def _listed(feature: Feature) -> str:
    return ", ".join(str(v) for v in feature.values[:5]) + (", ..." if len(feature.values) > 5 else "")


def encode(schema: Schema, numbers: np.ndarray) -> np.ndarray:
    """Encode numbers as the float64 matrix that the model takes.

    Examples
    --------
    >>> schema = Schema((Feature("age", "continuous", low=20, high=60),
    ...                  Feature("job", "categorical", values=("clerk", "cook"))))
    >>> encode(schema, np.array([[30.0, 1.0]]))
    array([[0.25, 0.  , 1.  ]])
    """
    matrix = np.zeros((len(numbers), len(schema.columns)))
    for j, (feature, start) in enumerate(zip(schema.features, schema.column_start, strict=False)):
        if feature.kind == "categorical" and feature.n_columns:
            codes = numbers[:, j].astype(np.int64)
            if feature.codes is None:
                matrix[np.arange(len(numbers)), start + codes] = 1.0
            else:
                matrix[:, start : start + feature.n_columns] = feature.code_rows[codes]
        elif feature.n_columns:
            matrix[:, start] = feature.encoded(numbers[:, j])
    return matrix


def decode(schema: Schema, matrix: np.ndarray) -> np.ndarray:
    """Decode a matrix to numbers that encode to the same float32 values."""
    numbers = np.zeros((len(matrix), len(schema)))
    for j, (feature, start) in enumerate(zip(schema.features, schema.column_start, strict=False)):
        if not feature.n_columns:
            numbers[:, j] = feature.span[0]
        elif feature.kind == "categorical":
            block = matrix[:, start : start + feature.n_columns]
            if feature.codes is not None:
                numbers[:, j] = _decode_codes(feature, block)
                continue
            if not (np.isin(block, (0.0, 1.0)).all() and (block.sum(axis=1) == 1).all()):
                raise SchemaError(f"feature {feature.name!r}: encoded columns are not one-hot")
            numbers[:, j] = block.argmax(axis=1)
        else:
            numbers[:, j] = _decode_ordered(feature, matrix[:, start])
    return numbers


def _decode_codes(feature: Feature, block: np.ndarray) -> np.ndarray:
    """Return the value with these codes; the first one if several values share them."""
    same = (block[:, None, :] == feature.code_rows[None, :, :]).all(axis=2)
    if not same.any(axis=1).all():
        raise SchemaError(f"feature {feature.name!r}: encoded columns match the codes of none of its values")
    numbers: np.ndarray = np.array([feature.number(v) for v in feature.values])[same.argmax(axis=1)]
    return numbers


def _decode_ordered(feature: Feature, encoded: np.ndarray) -> np.ndarray:
    if feature.codes is not None:
        return _decode_codes(feature, encoded[:, None])
    if not feature.is_number:
        return np.rint(encoded * feature.span[1] if feature.scaling == "minmax" else encoded)
    numbers = nearest_number(feature, encoded)
    if feature.kind == "discrete":
        values = np.array(feature.values, dtype=np.float64)
        known = feature.encoded(values)
        after = np.searchsorted(known, encoded).clip(1, len(known) - 1)
        snapped = values[after - (encoded - known[after - 1] <= known[after] - encoded)]
        same = feature.encoded(snapped).astype(np.float32) == encoded.astype(np.float32)
        numbers = np.where(same, snapped, numbers)
    return numbers


def to_frame(schema: Schema, numbers: np.ndarray) -> pd.DataFrame:
    """Return numbers as a frame in original units."""
    return pd.DataFrame({f.name: [f.value(v) for v in numbers[:, j]] for j, f in enumerate(schema.features)})


def nearest_number(feature: Feature, encoded: np.ndarray) -> np.ndarray:
    """Return a number that encodes to `encoded`, or as near to it as float64 allows."""
    above = least_number(feature, encoded)
    below = np.nextafter(above, -np.inf)
    take_above = np.abs(feature.encoded(above) - encoded) <= np.abs(feature.encoded(below) - encoded)
    return np.where(np.isnan(encoded), np.nan, np.where(take_above, above, below))


def least_number(feature: Feature, encoded: np.ndarray, *, rounder: bool = True) -> np.ndarray:
    """Return the least number whose encoding is at least `encoded`.

    With `rounder`, a rounder number with the same encoding is returned instead, if there is one.
    """
    exact = _first_reaching(feature, encoded)
    return _rounder(feature, encoded, exact) if rounder else exact


def greatest_number(feature: Feature, encoded: np.ndarray, *, rounder: bool = True) -> np.ndarray:
    """Return the greatest number whose encoding is at most `encoded`.

    `rounder` works as in `least_number`.
    """
    exact = np.nextafter(_first_reaching(feature, encoded, np.greater), -np.inf)
    return _rounder(feature, encoded, exact) if rounder else exact


def _rounder(feature: Feature, encoded: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Prefer the result of direct arithmetic, which is rounder (0, not -5.6e-17).

    It is used only where it has the same encoding as the exact number.
    """
    low, high = feature.span
    if feature.transform is not None:
        direct = decode_numbers(feature.transform, encoded)
    else:
        direct = encoded if feature.scaling == "none" else low + encoded * (high - low)
    return np.where(feature.encoded(direct) == feature.encoded(exact), direct, exact)


def _first_reaching(
    feature: Feature, encoded: np.ndarray, reaches: Callable[..., np.ndarray] = np.greater_equal
) -> np.ndarray:
    """Bisect over all float64 numbers; exact because the encoding is monotone."""
    below, above = _ordinal(np.full(encoded.shape, -1e300)), _ordinal(np.full(encoded.shape, 1e300))
    with np.errstate(over="ignore"):  # with a tiny range, far numbers may encode to infinity
        while np.any(below + 1 < above):
            middle = (below & above) + ((below ^ above) >> 1)  # the mean without overflow
            reached = reaches(feature.encoded(_number(middle)), encoded)
            above, below = np.where(reached, middle, above), np.where(reached, below, middle)
    return _number(above)


def _ordinal(numbers: np.ndarray) -> np.ndarray:
    """Map float64 numbers to integers in the same order."""
    bits = numbers.view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _number(ordinals: np.ndarray) -> np.ndarray:
    bits = np.where(ordinals < 0, np.int64(-(2**63)) - ordinals, ordinals)
    return bits.astype(np.int64).view(np.float64)
