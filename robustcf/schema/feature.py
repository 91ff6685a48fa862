"""One column of the customer table: its kind, its allowed moves and their costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from robustcf.schema.coding import Codes, Operation, as_table, encode_numbers, encode_values
from robustcf.schema.feature_checks import (
    RELATIVE,
    Action,
    Kind,
    Scaling,
    SchemaError,
    Value,
    check_coding,
    check_feature,
    check_options,
    checked_moves,
    native,
)

__all__ = ["RELATIVE", "Action", "Feature", "Kind", "Scaling", "SchemaError", "Value", "native", "typed"]


@dataclass(frozen=True)
class Feature:
    """One column in the customer's own units.

    Parameters
    ----------
    name : str
        The column's name in the customer table.
    kind : {"binary", "categorical", "discrete", "continuous"}
        Binary and discrete values are ordered; categories are not.
    action : {"free", "fixed", "increase", "decrease"}
        In which direction the value may move.
    values : tuple
        Binary and categorical: every category, in encoding order. Discrete: the ordered
        values a move may end on (numbers, or ordered words such as "low" < "high").
    low, high : float
        The observed range of a number. It is the unit of the distance: a move from `low` to
        `high` is 1. It also limits the search if no bounds are declared.
    lower, upper : float, optional
        Declared bounds. A customer outside them gets the status `invalid_input`.
    allowed : tuple, optional
        The only values a move may end on; the customer's own value is always allowed.
    step : float, optional
        Moves end on whole multiples of this number (whole euros, whole months).
    at_most_up, at_most_down : float, optional
        How far a move may go from the customer's own value, in the feature's unit. For ordered
        words, the unit is one position. Sums are decimal: 0.7 + 0.1 is 0.8.
    at_most_up_percent, at_most_down_percent : float, optional
        The same limits in percent of the absolute value of the customer's own number. If several
        limits are given, all of them hold.
    forbidden : tuple of (from, to), optional
        Moves that are not allowed; "*" stands for any value. Not for continuous features.
    cost_table : tuple of (from, to, cost), optional
        Costs of single moves. The first matching line counts; the weight prices all other moves.
        Not for continuous features.
    weight : float, optional
        Cost of a move over the whole range, or of one changed encoded column. The paper's weights
        are the default: 1 for continuous features, 1/4 for all others.
    unit, label : str
        Shown to people.
    scaling : {"minmax", "none"}
        Whether the model was trained on numbers scaled to [0, 1] or on the original numbers.
    transform : tuple of (operation, number), optional
        A pipeline's arithmetic on a number; it replaces `scaling` (see `coding.py`).
    codes : tuple of tuples of float, optional
        A pipeline's encoded columns, one row for each of `values`.
    missing : optional
        The value among `values` that stands for a missing value.
    other : optional
        The value among `values` that stands for every word that is not among them.

    Examples
    --------
    >>> Feature("age", "discrete", "increase", values=(18, 30, 60)).span
    (18.0, 60.0)
    """

    name: str
    kind: Kind
    action: Action = "free"
    values: tuple[Value, ...] = ()
    low: float | None = None
    high: float | None = None
    lower: float | None = None
    upper: float | None = None
    allowed: tuple[Value, ...] | None = None
    step: float | None = None
    at_most_up: float | None = None
    at_most_down: float | None = None
    at_most_up_percent: float | None = None
    at_most_down_percent: float | None = None
    forbidden: tuple[tuple[Value, Value], ...] | None = None
    cost_table: tuple[tuple[Value, Value, float], ...] | None = None
    weight: float | None = None
    unit: str = ""
    label: str = ""
    scaling: Scaling = "minmax"
    transform: tuple[Operation, ...] | None = None
    codes: Codes | None = None
    missing: Value | None = None
    other: Value | None = None

    def __post_init__(self) -> None:
        check_options(self)
        object.__setattr__(self, "values", tuple(native(v) for v in self.values))
        if self.allowed is not None:
            object.__setattr__(self, "allowed", tuple(native(v) for v in self.allowed))
        check_feature(self)
        for key in ("forbidden", "cost_table"):
            if getattr(self, key) is not None:
                object.__setattr__(self, key, checked_moves(self, key))
        object.__setattr__(self, "transform", as_table(self.transform))
        object.__setattr__(self, "codes", as_table(self.codes))
        check_coding(self)

    @cached_property
    def is_number(self) -> bool:
        """Whether the values are numbers, not names of categories or grades."""
        if self.kind == "discrete":
            return not any(isinstance(v, str | bool) for v in self.values)
        return self.kind == "continuous"

    @property
    def ordered(self) -> bool:
        return self.kind != "categorical"

    @property
    def is_listed(self) -> bool:
        """Whether the values that a move may end on are listed one by one."""
        return self.kind != "continuous" or self.allowed is not None

    @cached_property
    def span(self) -> tuple[float, float]:
        """The range that counts as distance 1, before the weight."""
        if not self.is_number:
            return 0.0, float(max(len(self.values) - 1, 0))
        ends = (self.values[0], self.values[-1]) if self.values else (0.0, 1.0)
        low = ends[0] if self.low is None else self.low
        high = ends[1] if self.high is None else self.high
        return float(low), float(high)

    @cached_property
    def cost_weight(self) -> float:
        return self.weight if self.weight is not None else (1.0 if self.kind == "continuous" else 0.25)

    @cached_property
    def n_columns(self) -> int:
        """Number of encoded columns.

        A pipeline's own number if there is one. Otherwise one per category, one for any other
        feature, and none for a constant.
        """
        if self.codes is not None:
            return len(self.codes[0])
        if self.transform is not None:
            return 1
        if self.kind == "categorical":
            return len(self.values) if len(self.values) > 1 else 0
        low, high = self.span
        return int(high > low)

    @cached_property
    def _codes(self) -> dict[Value, int]:
        return {value: code for code, value in enumerate(self.values)}

    def number(self, value: Value) -> float:
        """Return the number of a value: itself, or the category's position.

        >>> Feature("sex", "binary", values=("female", "male")).number("male")
        1.0
        """
        return float(value) if self.is_number else float(self._codes[value])

    @cached_property
    def _counts_whole(self) -> bool:
        return self.kind == "discrete" and all(isinstance(v, int) for v in self.values)

    @cached_property
    def listed_numbers(self) -> frozenset[float]:
        """The numbers of `values`."""
        return frozenset(self.number(v) for v in self.values)

    def value(self, number: float) -> Value:
        """Return the value that a number stands for, in the customer table's type."""
        if math.isnan(number):
            return number
        if not self.is_number:
            return self.values[int(number)]
        if self._counts_whole:
            return int(number) if number == int(number) else number
        return float(number) + 0.0  # no -0.0

    def scaled(self, numbers: np.ndarray) -> np.ndarray:
        """Return numbers on the [0, 1] scale of the paper's distance."""
        low, high = self.span
        return (numbers - low) / (high - low) if high > low else np.zeros_like(numbers)

    def encoded(self, numbers: np.ndarray) -> np.ndarray:
        """Return numbers as the model's column holds them.

        For ordered features only. The encoding is monotone.
        """
        if self.transform is not None:
            return encode_numbers(self.transform, numbers)
        if self.codes is not None:
            return encode_values(self, numbers)
        return numbers.astype(np.float64) if self.scaling == "none" else self.scaled(numbers)

    @cached_property
    def code_rows(self) -> np.ndarray:
        """The encoded columns of each value: the pipeline's, or one-hot."""
        return np.eye(len(self.values)) if self.codes is None else np.array(self.codes, dtype=np.float64)

    @property
    def fills_missing(self) -> bool:
        """Whether a pipeline replaces a missing value by a number."""
        return any(name == "fill" for name, _ in self.transform or ())

    def costs(self, numbers: np.ndarray, origin: float) -> np.ndarray:
        """Return the paper's distance f between `origin` and each number.

        The cost table is not used.
        """
        if self.kind == "categorical":
            return np.where(numbers != origin, 2.0 * self.cost_weight, 0.0)
        costs: np.ndarray = self.cost_weight * np.abs(self.scaled(numbers) - self.scaled(np.array(origin)))
        return costs


_TEXT = {"name", "kind", "action", "unit", "label", "scaling"}
_NUMBERS = {"low", "high", "lower", "upper", "step", "weight", *RELATIVE}
_LISTS = {"values", "allowed", "forbidden", "cost_table"}


def typed(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Check the keys and types of a feature's table; an error names the wrong key."""
    known = sorted(f.name for f in fields(Feature))
    for key, value in table.items():
        if key not in known:
            raise SchemaError(f"feature {name!r} has an unknown key {key!r}; known: {', '.join(known)}")
        if key in _TEXT and not isinstance(value, str):
            raise SchemaError(f"feature {name!r}: {key} must be text, not {value!r}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if key in _NUMBERS and value is not None and not is_number:
            raise SchemaError(f"feature {name!r}: {key} must be a number, not {value!r}")
        if key in _LISTS and value is not None:
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise SchemaError(f"feature {name!r}: {key} must be a list, not {value!r}")
            scalars = all(isinstance(v, str | int | float | bool) for v in map(native, value))
            if key in ("values", "allowed") and not scalars:
                raise SchemaError(f"feature {name!r}: {key} must hold words or numbers")
    return {k: tuple(v) if k in _LISTS and v is not None else v for k, v in table.items()}
