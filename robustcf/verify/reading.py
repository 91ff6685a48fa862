"""The auditor's reading of a schema: values, encoding, costs and rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from robustcf.schema.schema import Feature
from robustcf.support.tolerances import STEP_ROUNDING

_OPERATIONS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "at_least": np.maximum,
    "at_most": np.minimum,
    "fill": lambda x, a: np.where(np.isnan(x), a, x),
}
_UNDO = {"add": "subtract", "subtract": "add", "multiply": "divide", "divide": "multiply"}
_ABSENT = ("nan", "None", "NaN", "<NA>", "NaT")


def read_texts(feature: Feature, texts: np.ndarray) -> np.ndarray:
    """Return the number that each text of a table represents.

    The result is NaN if it represents none.

    >>> read_texts(Feature("job", "categorical", values=("clerk", "cook")), np.array(["cook", "king"]))
    array([ 1., nan])
    """
    codes, distinct = pd.factorize(texts)
    found = np.array([_read_text(feature, text) for text in distinct] or [math.nan])
    return np.where(codes >= 0, found[codes], np.nan)


def _read_text(feature: Feature, text: Any) -> float:
    if feature.missing is not None and text in _ABSENT:
        return _number(feature, feature.missing)
    if feature.is_number:
        return _as_float(text)
    for code, value in enumerate(feature.values):
        if str(value) == text:
            return float(code)
    number = {"True": 1.0, "False": 0.0}.get(text, _as_float(text))  # 1, 1.0 and True are one category
    for code, value in enumerate(feature.values):
        if not isinstance(value, str) and float(value) == number:
            return float(code)
    return math.nan if feature.other is None or text in _ABSENT else _number(feature, feature.other)


def _as_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _number(feature: Feature, value: Any) -> float:
    return float(value) if feature.is_number else float(feature.values.index(value))


def encode(feature: Feature, numbers: np.ndarray) -> np.ndarray:
    """Return a feature's encoded columns, one row per number."""
    if feature.codes is not None:
        known = [_number(feature, v) for v in feature.values]
        rows = np.array([*feature.codes, [math.nan] * feature.n_columns], dtype=np.float64)
        place = pd.Index(known).get_indexer(pd.Index(numbers))
        return np.asarray(rows[place])
    if feature.transform is not None:
        encoded = numbers.astype(np.float64)
        for name, argument in feature.transform:
            encoded = _OPERATIONS[name](encoded, argument)
        return encoded[:, None]
    if feature.kind == "categorical":
        hot: np.ndarray = numbers[:, None] == np.arange(feature.n_columns)
        return np.where(np.isnan(numbers)[:, None], np.nan, hot)
    if not feature.n_columns:
        return np.zeros((len(numbers), 0))
    low, high = feature.span
    return (numbers if feature.scaling == "none" else (numbers - low) / (high - low))[:, None]


def encode_rows(features: tuple[Feature, ...], numbers: np.ndarray) -> np.ndarray:
    """Encode rows of numbers (one column per feature) as the model expects them."""
    return np.hstack([encode(f, numbers[:, j]) for j, f in enumerate(features)])


def numbers_of(features: tuple[Feature, ...], encoded: np.ndarray) -> np.ndarray:
    """Decode rows to numbers, up to rounding; NaN where the encoding is constant.

    >>> numbers_of((Feature("age", "continuous", low=20, high=60),), np.array([[0.25]]))
    array([[30.]])
    """
    numbers, start = np.zeros((len(encoded), len(features))), 0
    for j, feature in enumerate(features):
        block = encoded[:, start : start + feature.n_columns]
        start += feature.n_columns
        if not feature.n_columns:
            numbers[:, j] = feature.span[0] if feature.ordered else 0.0
        elif feature.transform is not None:
            numbers[:, j] = _undone(feature, block[:, 0])
        elif feature.kind == "categorical" or feature.codes is not None:
            known = np.array([_number(feature, v) for v in feature.values])
            same = (block[:, None, :] == encode(feature, known)[None]).all(axis=2)
            numbers[:, j] = np.where(same.any(axis=1), known[same.argmax(axis=1)], np.nan)
        else:
            low, high = feature.span
            numbers[:, j] = block[:, 0] if feature.scaling == "none" else low + block[:, 0] * (high - low)
            if feature.kind != "continuous":  # use the listed value, not one that differs by rounding
                known = np.array([_number(feature, v) for v in feature.values])
                near = known[np.abs(numbers[:, j][:, None] - known).argmin(axis=1)]
                own = encode(feature, near)[:, 0] == block[:, 0]
                numbers[:, j] = np.where(own, near, numbers[:, j])
    return numbers


def _undone(feature: Feature, encoded: np.ndarray) -> np.ndarray:
    numbers = encoded.copy()
    for name, argument in reversed(feature.transform or ()):
        if name in _UNDO:
            numbers = _OPERATIONS[_UNDO[name]](numbers, argument)
        elif name != "fill":
            numbers = np.where(numbers == argument, np.nan, numbers)
    return numbers


def weight_of(feature: Feature) -> float:
    """Return the feature's weight; the paper's by default."""
    if feature.weight is not None:
        return feature.weight
    return 1.0 if feature.kind == "continuous" else 0.25


def paper_costs(feature: Feature, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return the paper's distance between numbers, without the cost table."""
    weight = weight_of(feature)
    if feature.kind == "categorical":
        return np.where(old == new, 0.0, 2 * weight)
    low, high = feature.span
    return weight * np.abs(new - old) / (high - low) if high > low else np.zeros(len(old))


def costs(feature: Feature, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return each move's cost.

    It is the first matching line of the cost table, else the distance.
    """
    cost = paper_costs(feature, old, new)
    open_ = np.ones(len(old), dtype=bool)
    for start, end, price in feature.cost_table or ():
        fits = open_ & _fits(feature, start, end, old, new)
        cost, open_ = np.where(fits, price, cost), open_ & ~fits
    return np.where(old == new, 0.0, cost)


def _fits(feature: Feature, start: Any, end: Any, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    fits = np.ones(len(old), dtype=bool)
    if start != "*":
        fits &= old == _number(feature, start)
    if end != "*":
        fits &= new == _number(feature, end)
    return fits


def broken(feature: Feature, old: np.ndarray, new: np.ndarray) -> Iterator[tuple[np.ndarray, str]]:
    """Yield, for each rule of a feature, which moves break it and a message."""
    f = feature
    if f.action == "fixed":
        yield np.ones(len(old), dtype=bool), "is fixed"
    if f.action == "increase":
        yield new < old, "may only increase"
    if f.action == "decrease":
        yield new > old, "may only decrease"
    if f.allowed is not None:
        yield ~np.isin(new, [_number(f, v) for v in f.allowed]), "is not one of the allowed values"
    if f.kind != "continuous":
        yield ~np.isin(new, [_number(f, v) for v in f.values]), "is not one of its values"
    if f.lower is not None:
        yield np.minimum(old, new) < f.lower, f"is below the declared bound {f.lower:g}"
    if f.upper is not None:
        yield np.maximum(old, new) > f.upper, f"is above the declared bound {f.upper:g}"
    if f.kind == "continuous" and f.allowed is None:
        low, high = f.span
        low, high = (low if f.lower is None else f.lower), (high if f.upper is None else f.upper)
        yield (new < np.minimum(low, old)) | (new > np.maximum(high, old)), "lies outside the observed range"
    if f.step is not None:
        nearest = np.rint(new / f.step) * f.step
        dust = STEP_ROUNDING * f.step + 2 * np.spacing(np.abs(new))
        yield np.abs(new - nearest) > dust, f"is not a multiple of {f.step:g}"
    for start, end in f.forbidden or ():
        yield _fits(f, start, end, old, new), "is a forbidden move"
    for key, sign in (("at_most_up", 1), ("at_most_down", -1)):
        for name in (key, f"{key}_percent"):
            most = getattr(f, name)
            if most is not None:
                ends = _ends(old, sign, most, name.endswith("percent"))
                yield sign * new > np.maximum(sign * ends, sign * old), f"goes farther than {name} {most:g}"


def _ends(old: np.ndarray, sign: int, most: float, percent: bool) -> np.ndarray:
    """Return how far each customer may go, computed in decimals."""
    distinct, place = np.unique(old, return_inverse=True)
    bound, ends = Decimal(repr(float(most))), []
    for value in distinct:
        x = Decimal(repr(float(value)))
        ends.append(float(x + sign * (abs(x) * bound / 100 if percent else bound)))
    return np.array(ends)[place]
