"""Infer a column's kind, values and range from data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from robustcf.schema.feature import Feature, Kind, SchemaError, Value, native, typed
from robustcf.schema.values import numbers_of


def infer_feature(column: pd.Series, **overrides: Any) -> Feature:
    """Infer a feature from a column of data; the user's `overrides` take precedence."""
    name = str(column.name)
    data = column.dropna()
    if data.empty:
        raise SchemaError(f"column {name!r} has no values")
    if data.dtype.kind in "mMc" or isinstance(data.dtype, pd.PeriodDtype | pd.DatetimeTZDtype):
        raise SchemaError(f"column {name!r} holds {data.dtype}; convert it to numbers or words first")
    kind: Kind = overrides.get("kind") or _kind_of(data)
    given: dict[str, Any] = {"kind": kind}
    grades = isinstance(data.dtype, pd.CategoricalDtype) and data.dtype.ordered
    if kind == "continuous" or (kind == "discrete" and not grades):
        numbers = np.unique(numbers_of(data))
        if np.isnan(numbers).any():
            raise SchemaError(f"column {name!r} is {kind} but holds a value that is not a number")
        if not np.isfinite(numbers).all():
            raise SchemaError(f"column {name!r} holds an infinite value")
        given |= {"low": float(numbers[0]), "high": float(numbers[-1])}
        if kind == "discrete":
            whole = np.all(numbers == np.round(numbers))
            given["values"] = tuple(int(v) if whole else float(v) for v in numbers)
    else:
        given["values"] = _categories(data, name)
    if "values" in overrides:
        given.pop("low", None), given.pop("high", None)
    return Feature(name, **typed(given | overrides, name))


def _kind_of(data: pd.Series) -> Kind:
    distinct = data.nunique()
    if distinct == 2 and not (isinstance(data.dtype, pd.CategoricalDtype) and data.dtype.ordered):
        return "binary"
    if isinstance(data.dtype, pd.CategoricalDtype):
        return "discrete" if data.dtype.ordered else "categorical"
    if pd.api.types.is_bool_dtype(data.dtype):
        return "binary"
    if not pd.api.types.is_numeric_dtype(data.dtype):
        return "categorical"
    numbers = data.to_numpy(dtype=np.float64)
    return "discrete" if np.all(numbers == np.round(numbers)) else "continuous"


def _categories(data: pd.Series, name: str) -> tuple[Value, ...]:
    if isinstance(data.dtype, pd.CategoricalDtype) and data.dtype.ordered:
        present = set(data.unique())
        return tuple(native(v) for v in data.dtype.categories if v in present)
    try:
        return tuple(sorted(native(v) for v in data.unique()))
    except TypeError:
        raise SchemaError(f"column {name!r} mixes words and numbers") from None
