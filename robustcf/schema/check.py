"""Check a point's distance and constraints from the schema alone.

This module uses no cells, options or solvers. An auditor could write it from the schema's documentation.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from robustcf.schema.schema import Feature, Schema
from robustcf.support.tolerances import STEP_ROUNDING


def distance(schema: Schema, before: np.ndarray, after: np.ndarray) -> float:
    """Return the paper's f (eq. 2a): the weighted l1 distance of two rows.

    A move that a cost table lists has the table's cost instead.

    >>> schema = Schema((Feature("a", "continuous", low=0, high=4), Feature("b", "binary", values=(0, 1))))
    >>> distance(schema, np.array([0.0, 0.0]), np.array([1.0, 1.0]))
    0.5
    """
    moved = [j for j in range(len(schema)) if _differs(before[j], after[j])]
    return math.fsum(_price(schema.features[j], float(before[j]), float(after[j])) for j in moved)


def _price(feature: Feature, old: float, new: float) -> float:
    for start, end, cost in feature.cost_table or ():
        if start in ("*", feature.value(old)) and end in ("*", feature.value(new)):
            return cost
    return float(feature.costs(np.asarray(new), old))


def broken_rules(schema: Schema, before: np.ndarray, after: np.ndarray) -> list[str]:
    """Return the rules that a move breaks; none for an allowed move (eq. 2c)."""
    broken = []
    for feature, old, new in zip(schema.features, before, after, strict=True):
        if _differs(old, new) and (rule := _broken_rule(feature, float(old), float(new))):
            broken.append(f"{feature.name}: {rule}")
    return broken + broken_across(schema, before, after)


def broken_across(schema: Schema, before: np.ndarray, after: np.ndarray) -> list[str]:
    """Return the broken rules across features: links, and the limit on changes."""
    broken = []
    for link in schema.links:
        when, then = (schema.names.index(clause.feature) for clause in (link.when, link.then))
        triggered = _move(float(before[when]), float(after[when])) in link.when.moves
        if triggered and _move(float(before[then]), float(after[then])) not in link.then.moves:
            broken.append(f"link {link} does not hold")
    changed = sum(_differs(old, new) for old, new in zip(before, after, strict=True))
    if schema.max_changes is not None and changed > schema.max_changes:
        broken.append(f"{changed} features change, but max_changes is {schema.max_changes}")
    return broken


def _move(old: float, new: float) -> str:
    """Return "same", "up" or "down".

    For a changed category either word will do: links name both or neither.
    """
    return "same" if not _differs(old, new) else "up" if new > old else "down"


def _differs(old: float, new: float) -> bool:
    return not (old == new or (math.isnan(old) and math.isnan(new)))


def _broken_rule(feature: Feature, old: float, new: float) -> str | None:
    if math.isnan(old) or math.isnan(new):
        return "a missing value must stay missing, and a value may not become missing"
    if feature.action == "fixed":
        return "is fixed"
    if feature.action == "increase" and new < old:
        return "may only increase"
    if feature.action == "decrease" and new > old:
        return "may only decrease"
    if feature.allowed is not None and new not in [feature.number(v) for v in feature.allowed]:
        return f"may not become {feature.value(new)}"
    if feature.kind != "continuous" and new not in feature.listed_numbers:
        return f"{new} is not one of its values"
    if feature.lower is not None and new < feature.lower:
        return f"{new} is below {feature.lower}"
    if feature.upper is not None and new > feature.upper:
        return f"{new} is above {feature.upper}"
    if feature.kind == "continuous" and feature.allowed is None:
        low, high = feature.span
        low = low if feature.lower is None else feature.lower
        high = high if feature.upper is None else feature.upper
        if not min(low, old) <= new <= max(high, old):
            return f"{new} lies outside the observed range"
    if feature.step is not None and not _is_multiple(new, feature.step):
        return f"{new} is not a multiple of {feature.step}"
    return _too_far(feature, old, new) or _forbidden(feature, old, new)


def _too_far(feature: Feature, old: float, new: float) -> str | None:
    """Check the bounds relative to the customer, in decimal arithmetic."""
    own, size = _decimal(old), abs(_decimal(old))
    for bound, unit in ((feature.at_most_up, Decimal(1)), (feature.at_most_up_percent, size / 100)):
        if bound is not None and new > float(own + unit * _decimal(bound)):
            return f"rises from {old} to {new}, more than allowed"
    for bound, unit in ((feature.at_most_down, Decimal(1)), (feature.at_most_down_percent, size / 100)):
        if bound is not None and new < float(own - unit * _decimal(bound)):
            return f"falls from {old} to {new}, more than allowed"
    return None


def _decimal(number: float) -> Decimal:
    return Decimal(repr(number))


def _forbidden(feature: Feature, old: float, new: float) -> str | None:
    start, end = feature.value(old), feature.value(new)
    if any(a in ("*", start) and b in ("*", end) for a, b in feature.forbidden or ()):
        return f"may not go from {start} to {end}"
    return None


def _is_multiple(number: float, step: float) -> bool:
    """Whether a number is a multiple of the step up to rounding (0.3 and 0.1)."""
    nearest = round(number / step) * step
    return abs(number - nearest) <= STEP_ROUNDING * step + 2 * math.ulp(number)
