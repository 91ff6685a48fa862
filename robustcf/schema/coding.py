"""A pipeline's encoding of one column, reproduced to the last bit.

A number goes through *operations*. (x - mean) / scale and x * (1 / scale) - mean / scale differ in their
last bits, and the last bit can decide a split. The operations are therefore stored exactly as the pipeline
performs them. Each one is a single float64 instruction and never reverses the order of two numbers.

A category has *codes*: its row of encoded columns, as the pipeline's encoders and scalers produce it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from robustcf.schema.feature import Feature

Operation = tuple[str, float]
Codes = tuple[tuple[float, ...], ...]

_APPLY: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "add": lambda x, a: x + a,
    "subtract": lambda x, a: x - a,
    "multiply": lambda x, a: x * a,
    "divide": lambda x, a: x / a,
    "at_least": np.maximum,
    "at_most": np.minimum,
    "fill": lambda x, a: np.where(np.isnan(x), a, x),
}
_INVERSE = {"add": "subtract", "subtract": "add", "multiply": "divide", "divide": "multiply"}


def encode_numbers(operations: Sequence[Operation], numbers: np.ndarray) -> np.ndarray:
    """Apply the operations in order.

    >>> encode_numbers([("subtract", 30.0), ("divide", 4.0)], np.array([32.0, 30.0]))
    array([0.5, 0. ])
    """
    encoded = numbers.astype(np.float64)
    with np.errstate(over="ignore"):  # numbers far outside the range may encode to infinity
        for name, argument in operations:
            encoded = _APPLY[name](encoded, argument)
    return encoded


def decode_numbers(operations: Sequence[Operation], encoded: np.ndarray) -> np.ndarray:
    """Return numbers that encode to `encoded` up to rounding."""
    numbers = encoded.astype(np.float64)
    for name, argument in reversed(operations):
        if name in _INVERSE:
            numbers = _APPLY[_INVERSE[name]](numbers, argument)
    return numbers


def encode_values(feature: Feature, numbers: np.ndarray) -> np.ndarray:
    """Return the code of each value of an ordered feature; NaN without a code.

    >>> from robustcf.schema.feature import Feature
    >>> encode_values(Feature("x", "discrete", values=(1, 2, 5), codes=((0,), (1,), (2,))), np.array([5, 4]))
    array([ 2., nan])
    """
    known = np.array([feature.number(v) for v in feature.values])
    at = np.searchsorted(known, numbers).clip(0, len(known) - 1)
    return np.where(known[at] == numbers, feature.code_rows[at, 0], np.nan)


def as_table(rows: Any) -> Any:
    """Turn lists of lists into tuples; leave anything else to `wrong_coding`."""
    if not isinstance(rows, list | tuple):
        return rows
    return tuple(tuple(row) if isinstance(row, list | tuple) else row for row in rows)


def wrong_coding(feature: Feature) -> str | None:
    """Return what is wrong with a feature's transform, codes, missing or other value."""
    for key in ("missing", "other"):
        if (value := getattr(feature, key)) is not None and value not in feature.values:
            return f"has {key} = {value!r}, which is not one of its values"
    if feature.transform is not None:
        if not feature.is_number or feature.codes is not None:
            return "has a transform; only numbers without codes can have one"
        operations: Any = feature.transform
        if not isinstance(operations, tuple):
            return f"transform must be a list, not {operations!r}"
        for complaint in filter(None, map(_wrong_operation, operations)):
            return f"has an invalid transform: {complaint}"
    if feature.codes is not None and (wrong := _wrong_codes(feature)):
        return wrong
    coded = feature.transform is not None or feature.codes is not None
    if coded and feature.is_number and feature.span[0] == feature.span[1] and feature.action != "fixed":
        return "has a range of a single number: give low and high, or make it fixed"
    return None


def _wrong_operation(operation: Any) -> str | None:
    if not (isinstance(operation, tuple) and len(operation) == 2 and operation[0] in tuple(_APPLY)):
        return f"{operation!r} is not [operation, number] with one of the operations {', '.join(_APPLY)}"
    name, argument = operation
    if isinstance(argument, bool) or not isinstance(argument, int | float) or not math.isfinite(argument):
        return f"{name} {argument!r} is not a finite number"
    if name in ("multiply", "divide") and not argument > 0:
        return f"{name} {argument!r} would reverse the order of values; the number must be positive"
    return None


def _wrong_codes(feature: Feature) -> str | None:
    codes: Any = feature.codes
    if not isinstance(codes, tuple) or not all(isinstance(row, tuple) for row in codes):
        return f"codes must be a list of lists, not {codes!r}"
    if len(codes) != len(feature.values) or len({len(row) for row in codes}) != 1:
        return "needs one row of codes for each of its values, all rows of the same length"
    numbers = [c for row in codes for c in row]
    if any(isinstance(c, bool) or not isinstance(c, int | float) or not math.isfinite(c) for c in numbers):
        return "has a code that is not a finite number"
    if feature.ordered and len(codes[0]) > 1:
        return f"is {feature.kind}, but the model encodes it in {len(codes[0])} columns: make it categorical"
    if feature.ordered and (np.diff(np.array(codes, dtype=np.float64), axis=0) < 0).any():
        return f"is {feature.kind}, but the model's codes do not rise with its values"
    return None
