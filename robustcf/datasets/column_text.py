"""The text of a column's cells as numbers, as words, or as labels."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

# What names a category by number. Neither "007" nor "nan" nor "1_000" does: those are words.
_PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_EXACT = 2.0**53


def as_numbers(texts: Sequence[str]) -> np.ndarray:
    """Each text as float64, NaN where it is no number."""
    return np.array([_number(text) for text in texts], dtype=np.float64)


def as_values(texts: Sequence[str], numbers: np.ndarray | None = None) -> np.ndarray | pd.Series:
    """Numbers where every text is a plain number (whole ones as int64), else the words.

    Pass `numbers` for a column that is known to hold finite numbers.

    >>> as_values(["3", "10"]), as_values(["3", "1.5"]), list(as_values(["3", "007"]))
    (array([ 3, 10]), array([3. , 1.5]), ['3', '007'])
    """
    if numbers is None:
        distinct = list(set(texts))
        plain = all(_PLAIN_NUMBER.fullmatch(text) for text in distinct)
        if not plain or not np.isfinite(as_numbers(distinct)).all():
            return pd.Series(list(texts), dtype="str")
        numbers = as_numbers(texts)
    whole = (np.abs(numbers) < _EXACT) & (numbers == np.round(numbers))
    return numbers.astype(np.int64) if whole.all() else numbers


def as_labels(values: np.ndarray | pd.Series) -> np.ndarray:
    """Whole numbers as they are, any other values as positions in sorted order."""
    array = values if isinstance(values, np.ndarray) else values.to_numpy(dtype=object)
    if array.dtype.kind == "i":
        return array
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def _number(text: str) -> float:
    try:
        return float("nan") if "_" in text else float(text)  # Python alone would take 1_000
    except ValueError:
        return float("nan")
