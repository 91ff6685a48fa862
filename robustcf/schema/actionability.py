"""Where a feature may move from the customer's own value, and at what cost."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from robustcf.schema.feature import Feature, Value
from robustcf.schema.transitions import ANY
from robustcf.support.tolerances import STEP_ROUNDING


def search_limits(feature: Feature) -> tuple[float, float]:
    """Return the declared bounds, or the observed range of a continuous feature."""
    low, high = (-np.inf, np.inf) if feature.is_listed else feature.span
    return (
        low if feature.lower is None else feature.lower,
        high if feature.upper is None else feature.upper,
    )


def listed_numbers(feature: Feature) -> np.ndarray:
    """Return the numbers that a move may end on, for a feature that lists its values."""
    numbers = np.unique([feature.number(v) for v in feature.values or feature.allowed or ()])
    if feature.allowed is not None:
        numbers = numbers[np.isin(numbers, [feature.number(v) for v in feature.allowed])]
    if feature.is_number:
        low, high = search_limits(feature)
        numbers = numbers[(numbers >= low) & (numbers <= high)]
        if feature.step is not None:
            dust = STEP_ROUNDING * feature.step + 2 * np.spacing(np.abs(numbers))
            numbers = numbers[np.abs(numbers - on_step(feature.step, numbers / feature.step)) <= dust]
    return numbers


def reach(feature: Feature, own: float) -> tuple[float, float]:
    """Return the lowest and highest value that an ordered feature may take.

    The interval always contains the customer's own value.

    >>> income = Feature("income", "continuous", low=0, high=9000, at_most_up=300, at_most_down_percent=50)
    >>> reach(income, 2000.0)
    (1000.0, 2300.0)
    """
    low, high = search_limits(feature) if feature.is_number else (-np.inf, np.inf)
    if feature.action in ("fixed", "increase"):
        low = own
    if feature.action in ("fixed", "decrease"):
        high = own
    x, size = Decimal(repr(float(own))), abs(Decimal(repr(float(own))))
    if feature.at_most_up is not None:
        high = min(high, float(x + _decimal(feature.at_most_up)))
    if feature.at_most_down is not None:
        low = max(low, float(x - _decimal(feature.at_most_down)))
    if feature.at_most_up_percent is not None:
        high = min(high, float(x + size * _decimal(feature.at_most_up_percent) / 100))
    if feature.at_most_down_percent is not None:
        low = max(low, float(x - size * _decimal(feature.at_most_down_percent) / 100))
    return min(low, own), max(high, own)


def _decimal(number: float) -> Decimal:
    return Decimal(repr(float(number)))


def may_become(feature: Feature, own: float, numbers: np.ndarray) -> np.ndarray:
    """Return which of the listed numbers the customer may move to."""
    if feature.ordered:
        low, high = reach(feature, own)
        open_ = (numbers >= low) & (numbers <= high)
    else:
        open_ = np.full(numbers.shape, feature.action != "fixed") | (numbers == own)
    for start, end in feature.forbidden or ():
        open_ &= ~_fits(feature, start, end, own, numbers)
    return open_


def move_costs(feature: Feature, own: float, numbers: np.ndarray) -> np.ndarray:
    """Return the cost of moving from the customer's own value to each number.

    The cost table comes first. Moves that it does not list are priced by the weight.
    """
    costs = feature.costs(numbers, own)
    for start, end, cost in reversed(feature.cost_table or ()):  # reversed: the first matching line wins
        costs = np.where(_fits(feature, start, end, own, numbers), cost, costs)
    return costs


def _fits(feature: Feature, start: Value, end: Value, own: float, numbers: np.ndarray) -> np.ndarray:
    """Return whether a table line covers the move from `own` to each number."""
    if start != ANY and feature.number(start) != own:
        return np.zeros(numbers.shape, dtype=np.bool_)
    fits: np.ndarray = numbers != own
    return fits if end == ANY else fits & (numbers == feature.number(end))


def on_step(step: float, multiples: np.ndarray) -> np.ndarray:
    """Return whole multiples of a step without rounding residue: 3 * 0.1 is 0.3."""
    exponent = Decimal(str(step)).as_tuple().exponent
    digits = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    rounded: np.ndarray = np.round(np.rint(multiples) * step, digits)
    return rounded


def up_to_step(step: float, numbers: np.ndarray) -> np.ndarray:
    """Return the least whole multiple of the step that is not below each number."""
    multiple = np.floor(numbers / step) - 1
    for _ in range(3):  # the rounded quotient may be off by one
        multiple = multiple + (on_step(step, multiple) < numbers)
    return on_step(step, multiple)


def next_on_step(step: float, number: float, upwards: bool) -> float:
    """Return the nearest multiple of the step strictly above (or below) a number."""
    if upwards:
        return float(up_to_step(step, np.array(math.nextafter(number, math.inf))))
    return -float(up_to_step(step, np.array(math.nextafter(-number, math.inf))))
