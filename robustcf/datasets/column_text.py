"""Convert the texts of a column to numbers, words or labels."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

# The spellings read as numbers. "007", "nan" and "1_000" stay words.
_DECIMAL_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_EXACT = 2.0**53


def as_numbers(texts: Sequence[str]) -> np.ndarray:
    """Return each text as float64; NaN if it is not a number."""
    return np.array([_number(text) for text in texts], dtype=np.float64)


def as_values(texts: Sequence[str], numbers: np.ndarray | None = None) -> np.ndarray | pd.Series:
    """Return numbers if every text is a decimal number, else the words.

    Numbers are int64 if all are whole.

    Pass `numbers` for a column that is known to contain finite numbers.

    >>> as_values(["3", "10"]), as_values(["3", "1.5"]), list(as_values(["3", "007"]))
    (array([ 3, 10]), array([3. , 1.5]), ['3', '007'])
    """
    if numbers is None:
        distinct = list(set(texts))
        decimal = all(_DECIMAL_NUMBER.fullmatch(text) for text in distinct)
        if not decimal or not np.isfinite(as_numbers(distinct)).all():
            return pd.Series(list(texts), dtype="str")
        numbers = as_numbers(texts)
    whole = (np.abs(numbers) < _EXACT) & (numbers == np.round(numbers))
    return numbers.astype(np.int64) if whole.all() else numbers


def as_labels(values: np.ndarray | pd.Series) -> np.ndarray:
    """Return integers unchanged, and other values as their index in sorted order."""
    array = values if isinstance(values, np.ndarray) else values.to_numpy(dtype=object)
    if array.dtype.kind == "i":
        return array
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def _number(text: str) -> float:
    try:
        return float("nan") if "_" in text else float(text)  # Python's float accepts 1_000
    except ValueError:
        return float("nan")
