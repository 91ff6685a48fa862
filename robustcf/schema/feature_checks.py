"""The checks of a feature's fields: kind, values, numbers, moves and coding."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

import numpy as np

from robustcf.schema.coding import wrong_coding
from robustcf.schema.transitions import checked_table

if TYPE_CHECKING:
    from robustcf.schema.feature import Feature


Kind = Literal["binary", "categorical", "discrete", "continuous"]
Action = Literal["free", "fixed", "increase", "decrease"]
Scaling = Literal["minmax", "none"]
Value = str | int | float | bool
RELATIVE = ("at_most_up", "at_most_down", "at_most_up_percent", "at_most_down_percent")


class SchemaError(ValueError):
    """Raised when a schema contradicts itself, its data or its forest."""


def _not_finite(value: Any) -> list[float]:
    """Return every `inf` and `nan` within a feature's value."""
    if isinstance(value, tuple | list):
        return [odd for inner in value for odd in _not_finite(inner)]
    return [value] if isinstance(value, float) and not math.isfinite(value) else []


def native(value: Any) -> Value:
    """Convert a numpy scalar to Python's own type.

    Hashes and files then do not depend on numpy.
    """
    own: Value = value.item() if isinstance(value, np.generic) else value
    return own


def check_options(feature: Feature) -> None:
    """Raise a SchemaError if the kind, action or scaling is not one of its options."""
    for field, options in (("kind", Kind), ("action", Action), ("scaling", Scaling)):
        if getattr(feature, field) not in get_args(options):
            _fail(feature, f"{field} is {getattr(feature, field)!r}, not one of {get_args(options)}")


def check_feature(feature: Feature) -> None:
    """Raise a SchemaError if the fields contradict each other."""
    if feature.kind != "continuous" and not feature.values:
        _fail(feature, "has no values")
    if feature.kind == "continuous" and feature.values:
        _fail(feature, "is continuous and cannot have values; use low and high for its range, or allowed")
    if len(set(feature.values)) != len(feature.values):
        _fail(feature, "lists a value twice")
    if feature.kind == "binary" and len(feature.values) > 2:
        _fail(feature, f"is binary but has {len(feature.values)} values")
    if feature.kind == "categorical" and feature.action in ("increase", "decrease"):
        _fail(feature, f"is categorical and has no order; it cannot have the action {feature.action!r}")
    if feature.weight is not None and not (math.isfinite(feature.weight) and feature.weight >= 0):
        _fail(feature, f"weight {feature.weight} is not a finite number of at least 0")
    _check_numbers(feature)
    _check_relative_bounds(feature)


def check_coding(feature: Feature) -> None:
    """Raise a SchemaError if the coding, an allowed value or any number is wrong."""
    if wrong := wrong_coding(feature):
        _fail(feature, wrong)
    known = set(feature.values)
    for value in feature.allowed or ():
        if not feature.is_number and value not in known:
            _fail(feature, f"allows {value!r}, which is not one of its values")
    for key in (f.name for f in fields(feature)):  # fingerprints and JSON hold only finite numbers
        for odd in _not_finite(getattr(feature, key)):
            _fail(feature, f"{key} holds {odd}; give a finite number, or leave it out")


def checked_moves(feature: Feature, key: str) -> Any:
    """Return a table of forbidden or priced moves, checked."""
    if feature.kind == "continuous":
        _fail(feature, f"is continuous; it cannot have {key}")
    table = getattr(feature, key)
    lines = [[native(v) for v in line] if isinstance(line, list | tuple) else line for line in table]
    try:
        return checked_table(lines, feature.values, priced=key == "cost_table")
    except ValueError as error:
        _fail(feature, f"{key} {error}")


def _check_numbers(feature: Feature) -> None:
    declared = (feature.lower, feature.upper, feature.step)
    if not feature.is_number:
        if any(x is not None for x in declared):
            _fail(feature, "does not hold numbers; it cannot have lower, upper or step")
        return
    if feature.kind == "discrete":
        numbers = [float(v) for v in feature.values]
        if not all(map(math.isfinite, numbers)) or sorted(numbers) != numbers:
            _fail(feature, "values must be finite numbers in rising order")
    low, high = feature.span
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        _fail(feature, f"range [{low}, {high}] is not a finite interval")
    if not math.isfinite(high - low):
        _fail(feature, f"range [{low}, {high}] is too wide: its width overflows float64")
    lower = -math.inf if feature.lower is None else feature.lower
    upper = math.inf if feature.upper is None else feature.upper
    if math.isnan(lower) or math.isnan(upper) or lower > upper:
        _fail(feature, f"bounds [{feature.lower}, {feature.upper}] are empty")
    if feature.step is not None and not (math.isfinite(feature.step) and feature.step > 0):
        _fail(feature, f"step {feature.step} is not a positive number")
    for value in feature.allowed or ():
        if isinstance(value, str) or not math.isfinite(value):
            _fail(feature, f"allows {value!r}, which is not a number")


def _check_relative_bounds(feature: Feature) -> None:
    """Check the bounds that depend on the customer's value."""
    for key in RELATIVE:
        bound = getattr(feature, key)
        if bound is None:
            continue
        if not feature.ordered:
            _fail(feature, f"is categorical and has no order; it cannot have {key}")
        if key.endswith("percent") and not feature.is_number:
            _fail(feature, f"does not hold numbers; it cannot have {key}")
        if not (math.isfinite(bound) and bound >= 0):
            _fail(feature, f"{key} {bound} is not a finite number of at least 0")


def _fail(feature: Feature, message: str) -> NoReturn:
    raise SchemaError(f"feature {feature.name!r} {message}")
