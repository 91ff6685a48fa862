"""One column of the customer table: its kind, its allowed moves and their costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from robustcf.schema.coding import Codes, Operation, as_table, encode_numbers, encode_values, wrong_coding
from robustcf.schema.transitions import checked_table

Kind = Literal["binary", "categorical", "discrete", "continuous"]
Action = Literal["free", "fixed", "increase", "decrease"]
Scaling = Literal["minmax", "none"]
Value = str | int | float | bool
RELATIVE = ("at_most_up", "at_most_down", "at_most_up_percent", "at_most_down_percent")


class SchemaError(ValueError):
    """Raised when a schema contradicts itself, its data or its forest."""


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

    def __post_init__(self) -> None:
        for field, options in (("kind", Kind), ("action", Action), ("scaling", Scaling)):
            if getattr(self, field) not in get_args(options):
                self._fail(f"{field} is {getattr(self, field)!r}, not one of {get_args(options)}")
        object.__setattr__(self, "values", tuple(plain(v) for v in self.values))
        if self.allowed is not None:
            object.__setattr__(self, "allowed", tuple(plain(v) for v in self.allowed))
        if self.kind != "continuous" and not self.values:
            self._fail("has no values")
        if self.kind == "continuous" and self.values:
            self._fail("is continuous and cannot have values; use low and high for its range, or allowed")
        if len(set(self.values)) != len(self.values):
            self._fail("lists a value twice")
        if self.kind == "binary" and len(self.values) > 2:
            self._fail(f"is binary but has {len(self.values)} values")
        if self.kind == "categorical" and self.action in ("increase", "decrease"):
            self._fail(f"is categorical and has no order; it cannot have the action {self.action!r}")
        if self.weight is not None and not (math.isfinite(self.weight) and self.weight >= 0):
            self._fail(f"weight {self.weight} is not a finite number of at least 0")
        self._check_numbers()
        self._check_moves()
        object.__setattr__(self, "transform", as_table(self.transform))
        object.__setattr__(self, "codes", as_table(self.codes))
        if wrong := wrong_coding(self):
            self._fail(wrong)
        for value in self.allowed or ():
            if not self.is_number and value not in self._codes:
                self._fail(f"allows {value!r}, which is not one of its values")
        for key in (f.name for f in fields(self)):  # fingerprints and JSON hold only finite numbers
            for odd in _not_finite(getattr(self, key)):
                self._fail(f"{key} holds {odd}; give a finite number, or leave it out")

    def _check_numbers(self) -> None:
        declared = (self.lower, self.upper, self.step)
        if not self.is_number:
            if any(x is not None for x in declared):
                self._fail("does not hold numbers; it cannot have lower, upper or step")
            return
        if self.kind == "discrete":
            numbers = [float(v) for v in self.values]
            if not all(map(math.isfinite, numbers)) or sorted(numbers) != numbers:
                self._fail("values must be finite numbers in rising order")
        low, high = self.span
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            self._fail(f"range [{low}, {high}] is not a finite interval")
        if not math.isfinite(high - low):
            self._fail(f"range [{low}, {high}] is too wide: its width overflows float64")
        lower = -math.inf if self.lower is None else self.lower
        upper = math.inf if self.upper is None else self.upper
        if math.isnan(lower) or math.isnan(upper) or lower > upper:
            self._fail(f"bounds [{self.lower}, {self.upper}] are empty")
        if self.step is not None and not (math.isfinite(self.step) and self.step > 0):
            self._fail(f"step {self.step} is not a positive number")
        for value in self.allowed or ():
            if isinstance(value, str) or not math.isfinite(value):
                self._fail(f"allows {value!r}, which is not a number")

    def _check_moves(self) -> None:
        """Check the rules that depend on the customer's value: bounds and tables."""
        for key in RELATIVE:
            bound = getattr(self, key)
            if bound is None:
                continue
            if not self.ordered:
                self._fail(f"is categorical and has no order; it cannot have {key}")
            if key.endswith("percent") and not self.is_number:
                self._fail(f"does not hold numbers; it cannot have {key}")
            if not (math.isfinite(bound) and bound >= 0):
                self._fail(f"{key} {bound} is not a finite number of at least 0")
        for key in ("forbidden", "cost_table"):
            table = getattr(self, key)
            if table is None:
                continue
            if self.kind == "continuous":
                self._fail(f"is continuous; it cannot have {key}")
            lines = [[plain(v) for v in line] if isinstance(line, list | tuple) else line for line in table]
            try:
                known = checked_table(lines, self.values, priced=key == "cost_table")
            except ValueError as error:
                self._fail(f"{key} {error}")
            else:
                object.__setattr__(self, key, known)

    def _fail(self, message: str) -> None:
        raise SchemaError(f"feature {self.name!r} {message}")

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

    def value(self, number: float) -> Value:
        """Return the value that a number stands for, in the customer table's type."""
        if math.isnan(number):
            return number
        if not self.is_number:
            return self.values[int(number)]
        if self.kind == "discrete" and all(isinstance(v, int) for v in self.values):
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
            scalars = all(isinstance(v, str | int | float | bool) for v in map(plain, value))
            if key in ("values", "allowed") and not scalars:
                raise SchemaError(f"feature {name!r}: {key} must hold words or numbers")
    return {k: tuple(v) if k in _LISTS and v is not None else v for k, v in table.items()}


def _not_finite(value: Any) -> list[float]:
    """Return every `inf` and `nan` within a feature's value."""
    if isinstance(value, tuple | list):
        return [odd for inner in value for odd in _not_finite(inner)]
    return [value] if isinstance(value, float) and not math.isfinite(value) else []


def plain(value: Any) -> Value:
    """Convert a numpy scalar to Python's own type.

    Hashes and files then do not depend on numpy.
    """
    plain: Value = value.item() if isinstance(value, np.generic) else value
    return plain
