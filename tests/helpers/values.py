"""Raw numbers that matter to a forest: multiples of a step, and the neighbours of its splits."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np

from robustcf.schema.schema import Feature


def multiples(step: float, low: float, high: float) -> list[float]:
    """Whole multiples of a step within a range (and one beyond), computed in decimals."""
    exact = Decimal(str(step))
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    return [float(exact * k) for k in range(first, last + 1)]


def around(f: Feature, thresholds: np.ndarray) -> np.ndarray:
    """Raw numbers that encode to the float32 neighbours of thresholds, from both sides."""
    nearest = thresholds[np.abs(thresholds) < 1e8].astype(np.float32)
    down, up = np.nextafter(nearest, np.float32(-np.inf)), np.nextafter(nearest, np.float32(np.inf))
    wanted = np.concatenate([down, nearest, up]).astype(np.float64)
    reached = _bisect(lambda x: f.encoded(x) >= wanted, len(wanted))
    passed = _bisect(lambda x: f.encoded(x) > wanted, len(wanted))
    return np.concatenate([reached, np.nextafter(passed, -np.inf)])


def beside(f: Feature, thresholds: np.ndarray) -> np.ndarray:
    """Raw numbers on both sides of thresholds, for models that compare float64 numbers."""
    near = thresholds[np.abs(thresholds) < 1e8]
    passed = _bisect(lambda x: f.encoded(x) > near, len(near))
    return np.concatenate([passed, np.nextafter(passed, -np.inf)])


def _bisect(holds: Callable[[np.ndarray], np.ndarray], n: int) -> np.ndarray:
    """The least float within 1e9 of zero for which each of n monotone conditions holds."""
    low, high = np.full(n, -1e9), np.full(n, 1e9)
    while True:
        middle = low + (high - low) / 2
        open_ = (low < middle) & (middle < high)
        if not open_.any():
            return high
        yes = holds(middle)
        high, low = np.where(open_ & yes, middle, high), np.where(open_ & ~yes, middle, low)
