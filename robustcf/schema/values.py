"""Read the values of a raw column as numbers, and show them in messages."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types


def numbers_of(column: pd.Series) -> np.ndarray:
    """Return each value as float64.

    The result is NaN where a value is missing or not a number, and infinite where it is too large. Text
    such as "2.5" counts as a number. Dates, durations and complex numbers do not.

    >>> numbers_of(pd.Series([1, "2.5", None, "two", 10**400, pd.Timestamp(0)], dtype=object)).tolist()
    [1.0, 2.5, nan, nan, inf, nan]
    """
    if types.is_numeric_dtype(column.dtype) and not types.is_complex_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.fromiter((number_of(value) for value in column), dtype=np.float64, count=len(column))


def number_of(value: Any) -> float:
    """Return a value as float64; NaN if it is not a number."""
    if isinstance(value, str):
        try:
            return math.nan if "_" in value else float(value)  # float() would accept "1_000"
        except ValueError:
            return math.nan
    # numpy registers timedelta64 as an integer type
    if isinstance(value, np.timedelta64) or not isinstance(value, Real | Decimal | np.bool_):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def shown(value: Any) -> str:
    """Return a value as messages show it: shortened, and text in quotes."""
    try:
        text = str(value) if isinstance(value, int | float | np.number) else repr(str(value))
    except ValueError:  # str() refuses integers of more than 4300 digits
        return "the number"
    return text if len(text) <= 40 else text[:37] + "..."
