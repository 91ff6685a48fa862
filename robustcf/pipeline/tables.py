"""Describe a model's columns as schema tables, and merge the user's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from robustcf.pipeline.steps import Track
from robustcf.schema.coding import encode_numbers
from robustcf.schema.feature import SchemaError
from robustcf.schema.infer import infer_feature

MISSING = "(missing)"  # the category of missing values, if the encoder was fitted on some
OTHER = "(other)"  # every word that the encoder was not fitted on, if it accepts such words
MOST_VALUES = 100  # a column with more distinct whole numbers is an amount that moves in steps of 1
CODING = ("transform", "codes", "missing", "other", "scaling")


def kind_of(track: Track, values: Sequence[Any], columns: int) -> str:
    """Return the kind of a column of categories.

    Codes give an order only if the user chose the order, or if the categories are numbers.
    """
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if columns == 1 and len(values) == 2 and MISSING not in values and not (numbers and track.encoder):
        return "binary"
    if track.encoder == "graded" and MISSING not in values:
        return "discrete"
    return "discrete" if track.encoder == "ordinal" and numbers else "categorical"


def is_yes_or_no(column: pd.Series) -> bool:
    """Whether a column holds booleans, as values or as text."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return True
    if pd.api.types.is_numeric_dtype(column.dtype) or column.isna().any():
        return False
    return {str(v).lower() for v in column.unique()} <= {"true", "false"}


def number_table(track: Track, column: pd.Series | None) -> dict[str, Any]:
    table: dict[str, Any] = {"name": track.name, "kind": "continuous"}
    if column is not None:
        table |= _observed(track.name, column)
    if track.observed is not None:
        table |= {"low": track.observed[0], "high": track.observed[1]}
    if "low" in table and table["low"] == table["high"]:
        table["action"] = "fixed"
    return table | {"transform": [list(operation) for operation in track.operations]}


def _observed(name: str, column: pd.Series) -> dict[str, Any]:
    """Return what the data says about a number: its range, and whether it is whole."""
    if pd.api.types.is_string_dtype(column.dtype) or isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    found = asdict(infer_feature(column, kind="discrete"))
    numbers = np.array(found["values"], dtype=np.float64)
    table: dict[str, Any] = {"low": found["low"], "high": found["high"]}
    if not (numbers == np.round(numbers)).all():
        return table
    if len(numbers) > MOST_VALUES:
        return table | {"step": 1.0}
    return table | {"kind": "discrete", "values": list(found["values"])}


def changed_tables(
    tables: list[dict[str, Any]], overrides: Sequence[Mapping[str, Any]], source: str
) -> list[dict[str, Any]]:
    """Merge a file's entries into the tables; encodings stay the model's."""
    by_name: dict[Any, Mapping[str, Any]] = {}
    known = [table["name"] for table in tables]
    for override in overrides:
        name = override.get("name") if isinstance(override, Mapping) else None
        if name not in known:
            raise SchemaError(f"{source}: {name!r} is not a column of the model; it has {', '.join(known)}")
        if name in by_name:
            raise SchemaError(f"{source}: feature {name!r} is listed twice")
        by_name[name] = override
    return [_merged(table, by_name.get(table["name"], {}), source) for table in tables]


def _merged(table: dict[str, Any], override: Mapping[str, Any], source: str) -> dict[str, Any]:
    said = {key: value for key, value in override.items() if key not in CODING}
    coding = {key: table[key] for key in CODING if key in table}
    if "kind" not in said:
        merged = table | said
    else:  # the file describes the column completely: keep only the model's encoding
        merged = {"name": table["name"], **said, **coding}
        if "codes" in coding:
            merged.setdefault("values", table["values"])
    if "codes" in table and "values" in said:
        merged["values"] = _with_other(table, said["values"])
        merged["codes"] = _reordered(table, merged["values"], source)
    if "other" in table and "allowed" not in merged:  # no advice leads to a word that the model ignores
        merged["allowed"] = [v for v in merged["values"] if v != table["other"]]
    if "transform" in table and merged.get("kind") in ("binary", "categorical"):
        merged["codes"] = _codes_of_numbers(merged, source)
        del merged["transform"]
    return merged


def _with_other(table: dict[str, Any], listed: Any) -> Any:
    """Return a file's values and, if the model accepts unknown words and the file is older, `OTHER`."""
    if "other" not in table or not isinstance(listed, list | tuple) or table["other"] in listed:
        return listed
    return [*listed, table["other"]]


def _reordered(table: dict[str, Any], listed: Any, source: str) -> list[Any]:
    """Return the model's codes in the order of the file's values."""
    codes = dict(zip(table["values"], table["codes"], strict=True))
    listed = list(listed) if isinstance(listed, list | tuple) else []
    for value in table["values"]:
        if value not in listed:
            raise SchemaError(
                f"{source}: feature {table['name']!r} lacks the value {value!r}; the model has it"
            )
    for value in listed:
        if value not in codes:
            raise SchemaError(f"{source}: feature {table['name']!r}: the model does not know {value!r}")
    return [codes[value] for value in listed]


def _codes_of_numbers(table: dict[str, Any], source: str) -> list[Any]:
    """Return the codes of categories that the model reads as numbers."""
    try:
        numbers = np.array([float(v) for v in table.get("values", ())])
    except (TypeError, ValueError):
        raise SchemaError(
            f"{source}: feature {table['name']!r}: its values must be numbers, as the model reads them"
        ) from None
    return [[float(code)] for code in encode_numbers(table["transform"], numbers)]
