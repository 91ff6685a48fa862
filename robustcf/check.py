"""An independent word on a point: its distance and its constraints, from the schema alone.

Nothing here knows cells, options or solvers; it is what an auditor would write from the
schema's documentation.
"""

from __future__ import annotations

import math

import numpy as np

from robustcf.schema import Feature, Schema


def distance(schema: Schema, before: np.ndarray, after: np.ndarray) -> float:
    """The paper's f: weighted l1 distance between two rows of numbers.

    >>> schema = Schema((Feature("a", "continuous", low=0, high=4), Feature("b", "binary", values=(0, 1))))
    >>> distance(schema, np.array([0.0, 0.0]), np.array([1.0, 1.0]))
    0.5
    """
    moved = [j for j in range(len(schema)) if _differs(before[j], after[j])]
    return math.fsum(float(schema.features[j].costs(after[j], before[j])) for j in moved)


def broken_rules(schema: Schema, before: np.ndarray, after: np.ndarray) -> list[str]:
    """What a move breaks, feature by feature; empty for an allowed one."""
    broken = []
    for feature, old, new in zip(schema.features, before, after, strict=True):
        if _differs(old, new) and (rule := _broken_rule(feature, float(old), float(new))):
            broken.append(f"{feature.name}: {rule}")
    return broken


def _differs(old: float, new: float) -> bool:
    return not (old == new or (math.isnan(old) and math.isnan(new)))


def _broken_rule(feature: Feature, old: float, new: float) -> str | None:
    if math.isnan(old) or math.isnan(new):
        return "a missing value may not change, nor a value go missing"
    if feature.action == "fixed":
        return "is fixed"
    if feature.action == "increase" and new < old:
        return "may only increase"
    if feature.action == "decrease" and new > old:
        return "may only decrease"
    if feature.allowed is not None and new not in [feature.number(v) for v in feature.allowed]:
        return f"may not become {feature.value(new)}"
    if feature.kind != "continuous" and new not in [feature.number(v) for v in feature.values]:
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
    return None


def _is_multiple(number: float, step: float) -> bool:
    """Whether a number is a whole multiple, as nearly as float64 can hold one (0.3 and 0.1)."""
    nearest = round(number / step) * step
    return abs(number - nearest) <= 1e-9 * step + 2 * math.ulp(number)
