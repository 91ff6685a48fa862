"""Candidate values of a feature: one for each outcome of the trees' tests.

This module uses no code of the engines. It finds numbers by bisection over the float64 numbers, with
scikit-learn's own test: the float32 of the encoded number against a float64 threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from robustcf.schema.schema import Feature
from robustcf.verify.reading import _ends, _number, broken, costs, encode

FARTHEST = 1e300


@dataclass(frozen=True)
class Candidates:
    """Rising values of a feature with costs and encoded columns.

    `own` is the customer's index.
    """

    numbers: np.ndarray
    costs: np.ndarray
    columns: np.ndarray
    own: int

    def __len__(self) -> int:
        return len(self.numbers)

    def within(self, most: float) -> Candidates:
        """Return the candidates without those that alone cost more than `most`."""
        kept = np.flatnonzero((self.costs <= most) | (np.arange(len(self)) == self.own))
        at = int(np.searchsorted(kept, self.own))
        return Candidates(self.numbers[kept], self.costs[kept], self.columns[kept], at)


Floats = tuple[type[np.floating[Any]], ...]


def candidates(
    feature: Feature,
    own: float,
    thresholds: list[np.ndarray],
    pushed: bool,
    floats: Floats = (np.float32,),
) -> Candidates:
    """Return the own number and the cheapest for each outcome of the trees' tests.

    Parameters
    ----------
    feature : Feature
    own : float
        The customer's number; a missing one (NaN) cannot change.
    thresholds : list of ndarray
        The thresholds of the tests on each encoded column of the feature.
    pushed : bool
        Whether a rule across features may require a move that no tree needs.
    floats : tuple of types
        The numbers that the trees compare: float32, or float64 for some boosted models.
    """
    if np.isnan(own) or feature.action == "fixed":
        numbers = np.array([own])
    elif feature.kind != "continuous" or feature.allowed is not None:
        listed = feature.values or feature.allowed or ()
        numbers = np.unique([_number(feature, v) for v in listed])
    else:
        edges = thresholds[0] if thresholds else np.zeros(0)
        numbers = np.concatenate([_ends_of_ranges(feature, own, edges, pushed, kind) for kind in floats])
    numbers = np.unique(np.append(numbers, own))
    moved = numbers != own if not np.isnan(own) else np.zeros(len(numbers), dtype=bool)
    fine = np.ones(len(numbers), dtype=bool)
    for wrong, _ in broken(feature, np.full(len(numbers), own), numbers):
        fine &= ~(wrong & moved)
    numbers = numbers[fine]
    price = costs(feature, np.full(len(numbers), own), numbers)
    price = np.where((numbers == own) | np.isnan(numbers), 0.0, price)
    columns = encode(feature, numbers)
    kept = _one_of_each(feature, own, numbers, price, columns, thresholds, pushed, floats)
    numbers, price, columns = numbers[kept], price[kept], columns[kept]
    home = np.flatnonzero((numbers == own) | np.isnan(numbers))[0]
    return Candidates(numbers, price, columns, int(home))


def _one_of_each(
    feature: Feature,
    own: float,
    numbers: np.ndarray,
    price: np.ndarray,
    columns: np.ndarray,
    thresholds: list[np.ndarray],
    pushed: bool,
    floats: Floats,
) -> np.ndarray:
    """Return the cheapest number per outcome of all tests.

    Always keep the customer's own.
    """
    tests = [columns[:, c].astype(kind)[:, None] <= t for kind in floats for c, t in enumerate(thresholds)]
    outcome = np.hstack([*tests, np.zeros((len(numbers), 1), dtype=bool)])
    direction = np.sign(np.nan_to_num(numbers - own)) if feature.ordered else 1.0 * (numbers != own)
    groups: dict[bytes, int] = {}
    for i in np.lexsort((np.abs(numbers - own), price)):
        key = outcome[i].tobytes() + (bytes([int(direction[i]) + 1]) if pushed else b"")
        groups.setdefault(key, int(i))
    return np.array(sorted(groups.values()), dtype=np.int64)


def _ends_of_ranges(
    feature: Feature, own: float, thresholds: np.ndarray, pushed: bool, floats: type[np.floating[Any]]
) -> np.ndarray:
    """Return the nearest number on each side of each threshold, within the bounds."""
    low, high = _limits(feature, own)
    wide = floats is np.float64
    beyond = np.nextafter(thresholds, np.inf) if wide else _next_float32(thresholds)  # the least to go right
    with np.errstate(over="ignore", invalid="ignore"):
        before = np.nextafter(beyond.astype(floats), floats(-np.inf)).astype(np.float64)
        if feature.step is None:
            up = _first(lambda x: encode(feature, x)[:, 0] >= beyond, len(beyond))
            down = np.nextafter(_first(lambda x: encode(feature, x)[:, 0] > before, len(beyond)), -np.inf)
            return np.unique(np.clip(np.concatenate([up, down]), low, high))
        right = _first(lambda x: encode(feature, x)[:, 0].astype(floats) >= beyond, len(beyond))
        ends = np.concatenate([right, np.nextafter(right, -np.inf), [own] if pushed else []])
        near = [m for x in ends if low <= x <= high for m in _multiples(feature.step, float(x))]
    return np.unique(np.array(near, dtype=np.float64)) if near else np.zeros(0)


def _multiples(step: float, x: float) -> list[float]:
    """Return the integer multiples of a step around a number."""
    exact = Decimal(repr(float(step)))
    k = int(Decimal(x) // exact)
    return [float(exact * m) for m in range(k - 2, k + 4)]


def _limits(feature: Feature, own: float) -> tuple[float, float]:
    """Return the lowest and highest allowed number.

    The customer's own is always within.
    """
    low, high = feature.span
    low, high = (
        (low if feature.lower is None else feature.lower),
        (high if feature.upper is None else feature.upper),
    )
    low, high = (
        (own if feature.action == "increase" else low),
        (own if feature.action == "decrease" else high),
    )
    for key, sign in (("at_most_up", 1), ("at_most_down", -1)):
        for name in (key, f"{key}_percent"):
            most = getattr(feature, name)
            if most is not None:
                end = float(_ends(np.array([own]), sign, most, name.endswith("percent"))[0])
                low, high = (low, min(high, end)) if sign > 0 else (max(low, end), high)
    return min(low, own), max(high, own)


def _next_float32(thresholds: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
        after = np.nextafter(near, np.float32(np.inf))
    return np.where(near > thresholds, near, after).astype(np.float64)


def _first(holds: Callable[[np.ndarray], np.ndarray], n: int) -> np.ndarray:
    """Return the smallest float64 at which a monotone condition holds, by bisection."""
    low, high = np.full(n, -FARTHEST), np.full(n, FARTHEST)
    a, b = _rank(low), _rank(high)
    while (a + 1 < b).any():
        middle = a // 2 + b // 2 + (a % 2 + b % 2) // 2
        there = holds(_at_rank(middle))
        a, b = np.where(there, a, middle), np.where(there, middle, b)
    return _at_rank(b)


def _rank(numbers: np.ndarray) -> np.ndarray:
    """Return float64 numbers as integers in the same order."""
    bits = np.ascontiguousarray(numbers).view(np.int64)
    return np.where(bits >= 0, bits, -(bits & np.int64(0x7FFFFFFFFFFFFFFF)))


def _at_rank(ranks: np.ndarray) -> np.ndarray:
    bits = np.where(ranks >= 0, ranks, -ranks)
    return np.where(ranks >= 0, 1.0, -1.0) * np.ascontiguousarray(bits.astype(np.int64)).view(np.float64)
