"""What each column of a customer means: its kind, where it may move, and what a move costs."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import tomli_w

from robustcf.raw import numbers_of

Kind = Literal["binary", "categorical", "discrete", "continuous"]
Action = Literal["free", "fixed", "increase", "decrease"]
Scaling = Literal["minmax", "none"]
Value = str | int | float | bool


class SchemaError(ValueError):
    """A schema that contradicts itself, its data or its forest."""


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
        Where the value may move.
    values : tuple
        Binary and categorical: every category, in encoding order. Discrete: the ordered
        values a move may end on (numbers, or ordered words such as "low" < "high").
    low, high : float
        The observed range of a number. It is the unit of the distance (a move from `low` to
        `high` is 1) and, where nothing is declared, the limit of the search.
    lower, upper : float, optional
        Declared bounds. A customer outside them is `invalid_input`.
    allowed : tuple, optional
        The only values a move may end on; the customer's own value is always allowed.
    step : float, optional
        Moves end on whole multiples of it (whole euros, whole months).
    weight : float, optional
        Cost of the whole range, or of one changed encoded column. The paper's by default:
        1 for continuous features, 1/4 for all others.
    unit, label : str
        For people.
    scaling : {"minmax", "none"}
        What the model was trained on: numbers scaled to [0, 1], or as they are.

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
    weight: float | None = None
    unit: str = ""
    label: str = ""
    scaling: Scaling = "minmax"

    def __post_init__(self) -> None:
        for field, options in (("kind", Kind), ("action", Action), ("scaling", Scaling)):
            if getattr(self, field) not in get_args(options):
                self._fail(f"{field} is {getattr(self, field)!r}, not one of {get_args(options)}")
        object.__setattr__(self, "values", tuple(_plain(v) for v in self.values))
        if self.allowed is not None:
            object.__setattr__(self, "allowed", tuple(_plain(v) for v in self.allowed))
        if self.kind != "continuous" and not self.values:
            self._fail("has no values")
        if len(set(self.values)) != len(self.values):
            self._fail("lists a value twice")
        if self.kind == "binary" and len(self.values) > 2:
            self._fail(f"is binary but has {len(self.values)} values")
        if self.kind == "categorical" and self.action in ("increase", "decrease"):
            self._fail(f"is categorical and has no order: action {self.action!r} means nothing")
        if self.weight is not None and not (math.isfinite(self.weight) and self.weight >= 0):
            self._fail(f"weight {self.weight} is not a number of at least 0")
        self._check_numbers()
        for value in self.allowed or ():
            if not self.is_number and value not in self._codes:
                self._fail(f"allows {value!r}, which is not one of its values")

    def _check_numbers(self) -> None:
        declared = (self.lower, self.upper, self.step)
        if not self.is_number:
            if any(x is not None for x in declared):
                self._fail("has no numbers: lower, upper and step mean nothing")
            return
        if self.kind == "discrete":
            numbers = [float(v) for v in self.values]
            if not all(map(math.isfinite, numbers)) or sorted(numbers) != numbers:
                self._fail("values must be finite numbers in rising order")
        low, high = self.span
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            self._fail(f"range [{low}, {high}] is not a finite interval")
        if not math.isfinite(high - low):
            self._fail(f"range [{low}, {high}] is wider than a number can say")
        lower = -math.inf if self.lower is None else self.lower
        upper = math.inf if self.upper is None else self.upper
        if math.isnan(lower) or math.isnan(upper) or lower > upper:
            self._fail(f"bounds [{self.lower}, {self.upper}] are empty")
        if self.step is not None and not (math.isfinite(self.step) and self.step > 0):
            self._fail(f"step {self.step} is not a positive number")
        for value in self.allowed or ():
            if isinstance(value, str) or not math.isfinite(value):
                self._fail(f"allows {value!r}, which is not a number")

    def _fail(self, message: str) -> None:
        raise SchemaError(f"feature {self.name!r} {message}")

    @cached_property
    def is_number(self) -> bool:
        """Whether customers' values are numbers (and not names of categories or grades)."""
        if self.kind == "discrete":
            return not any(isinstance(v, str | bool) for v in self.values)
        return self.kind == "continuous"

    @property
    def ordered(self) -> bool:
        return self.kind != "categorical"

    @cached_property
    def span(self) -> tuple[float, float]:
        """The range that counts as distance 1 (before the weight)."""
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
        """Encoded columns: constant features have none, categories one each."""
        if self.kind == "categorical":
            return len(self.values) if len(self.values) > 1 else 0
        low, high = self.span
        return int(high > low)

    @cached_property
    def _codes(self) -> dict[Value, int]:
        return {value: code for code, value in enumerate(self.values)}

    def number(self, value: Value) -> float:
        """The number that stands for a value: itself, or the category's position.

        >>> Feature("sex", "binary", values=("female", "male")).number("male")
        1.0
        """
        return float(value) if self.is_number else float(self._codes[value])

    def value(self, number: float) -> Value:
        """The value that a number stands for, in the customer's own type."""
        if math.isnan(number):
            return number
        if not self.is_number:
            return self.values[int(number)]
        if self.kind == "discrete" and all(isinstance(v, int) for v in self.values):
            return int(number) if number == int(number) else number
        return float(number) + 0.0  # no -0.0

    def scaled(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers on the [0, 1] scale of the paper's distance."""
        low, high = self.span
        return (numbers - low) / (high - low) if high > low else np.zeros_like(numbers)

    def encoded(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers as the model's column holds them (ordered features only). Monotone."""
        return numbers.astype(np.float64) if self.scaling == "none" else self.scaled(numbers)

    def costs(self, numbers: np.ndarray, origin: float) -> np.ndarray:
        """The paper's distance f of moving this feature from `origin` to each number."""
        if self.kind == "categorical":
            return np.where(numbers != origin, 2.0 * self.cost_weight, 0.0)
        costs: np.ndarray = self.cost_weight * np.abs(self.scaled(numbers) - self.scaled(np.array(origin)))
        return costs


@dataclass(frozen=True)
class Schema:
    """All features, in the order of the model's columns.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [20, 30, 40], "job": ["clerk", "cook", "pilot"]})
    >>> schema = Schema.from_frame(frame, {"age": {"action": "increase"}})
    >>> schema.columns
    ('age', 'job=clerk', 'job=cook', 'job=pilot')
    """

    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        names = [f.name for f in self.features]
        if not names:
            raise SchemaError("a schema needs at least one feature")
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise SchemaError(f"feature {twice[0]!r} is listed twice")

    def __getitem__(self, name: str) -> Feature:
        for feature in self.features:
            if feature.name == name:
                return feature
        raise KeyError(name)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.features)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(name for f in self.features for name in _column_names(f))

    @cached_property
    def column_start(self) -> np.ndarray:
        """First encoded column of each feature, with the total appended."""
        return np.concatenate([[0], np.cumsum([f.n_columns for f in self.features])]).astype(np.int64)

    def replace(self, name: str, **changes: Any) -> Schema:
        """A copy in which one feature is changed."""
        self._require(name)
        return Schema(tuple(_with(f, changes) if f.name == name else f for f in self.features))

    def _require(self, name: str) -> None:
        if name not in self.names:
            raise SchemaError(f"no feature {name!r}; the schema has {', '.join(self.names)}")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what decides an answer (units and labels aside)."""
        plain = [{k: v for k, v in asdict(f).items() if k not in ("unit", "label")} for f in self.features]
        return hashlib.sha256(json.dumps(plain, sort_keys=True, allow_nan=False).encode()).hexdigest()

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame, overrides: Mapping[str, Mapping[str, Any]] | None = None
    ) -> Schema:
        """Infer kinds, values and ranges from data; `overrides` change any of them.

        Two values make a binary, words a categorical (ordered categories a discrete), whole
        numbers a discrete, other numbers a continuous feature. Columns go by their names as
        text: column 0 is "0".
        """
        named = {str(name): changes for name, changes in (overrides or {}).items()}
        unknown = [name for name in named if name not in map(str, frame.columns)]
        if unknown:
            raise SchemaError(f"override for {unknown[0]!r}, which is not a column of the data")
        return cls(tuple(infer_feature(column, **named.get(str(c), {})) for c, column in frame.items()))

    @classmethod
    def from_toml(cls, source: str | Path) -> Schema:
        """Read a schema file: one `[[feature]]` table per column, keys as in `Feature`."""
        path = Path(source)
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SchemaError(f"{path}: not a TOML file: {error}") from None
        unknown = sorted(document.keys() - {"feature"})
        if unknown:
            raise SchemaError(f"{path}: unknown key {unknown[0]!r}; expected [[feature]] tables")
        tables = document.get("feature")
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            raise SchemaError(f"{path}: no [[feature]] tables")
        return cls(tuple(_from_table(table, path) for table in tables))

    def to_toml(self) -> str:
        """The schema as a TOML text that `from_toml` reads back."""
        tables = [
            {k: v for k, v in asdict(f).items() if v not in (None, "") and (k, v) != ("values", ())}
            for f in self.features
        ]
        return tomli_w.dumps({"feature": tables})


def infer_feature(column: pd.Series, **overrides: Any) -> Feature:
    """The feature a column of data looks like, changed by what the user knows better."""
    name = str(column.name)
    data = column.dropna()
    if data.empty:
        raise SchemaError(f"column {name!r} has no values")
    if data.dtype.kind in "mMc" or isinstance(data.dtype, pd.PeriodDtype | pd.DatetimeTZDtype):
        raise SchemaError(f"column {name!r} holds {data.dtype}; turn it into numbers or words first")
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
    return Feature(name, **_typed(given | overrides, name))


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
        return tuple(_plain(v) for v in data.dtype.categories if v in present)
    try:
        return tuple(sorted(_plain(v) for v in data.unique()))
    except TypeError:
        raise SchemaError(f"column {name!r} mixes words and numbers") from None


def _from_table(table: Mapping[str, Any], path: Path) -> Feature:
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaError(f"{path}: a [[feature]] has no name")
    if "kind" not in table:
        raise SchemaError(f"{path}: feature {name!r} has no kind")
    return Feature(**_typed(table, name))


_TEXT = {"name", "kind", "action", "unit", "label", "scaling"}
_NUMBERS = {"low", "high", "lower", "upper", "step", "weight"}


def _typed(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Keys and types checked, so that a typing slip is an error that names it."""
    known = sorted(f.name for f in fields(Feature))
    for key, value in table.items():
        if key not in known:
            raise SchemaError(f"feature {name!r} has an unknown key {key!r}; known: {', '.join(known)}")
        if key in _TEXT and not isinstance(value, str):
            raise SchemaError(f"feature {name!r}: {key} must be text, not {value!r}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if key in _NUMBERS and value is not None and not is_number:
            raise SchemaError(f"feature {name!r}: {key} must be a number, not {value!r}")
        if key in ("values", "allowed") and value is not None:
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise SchemaError(f"feature {name!r}: {key} must be a list, not {value!r}")
            if not all(isinstance(v, str | int | float | bool) for v in map(_plain, value)):
                raise SchemaError(f"feature {name!r}: {key} must hold words or numbers")
    return {k: tuple(v) if k in ("values", "allowed") and v is not None else v for k, v in table.items()}


def _with(feature: Feature, changes: Mapping[str, Any]) -> Feature:
    return replace(feature, **_typed(changes, feature.name))


def _column_names(feature: Feature) -> list[str]:
    if feature.kind == "categorical" and feature.n_columns:
        return [f"{feature.name}={v}" for v in feature.values]
    return [feature.name] * feature.n_columns


def _plain(value: Any) -> Value:
    """A numpy scalar as Python's own type, so that hashes and files do not depend on numpy."""
    plain: Value = value.item() if isinstance(value, np.generic) else value
    return plain
