"""Find sentinels: numbers that stand for "unknown" or "capped".

An example is 99999 in a column whose other values end at 41310.

A sentinel stretches its column's range. A move's cost is a share of the range, so all moves of the column
become too cheap, and a counterfactual may even end on the sentinel.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

MOST = 3  # most sentinels at one end of a column
LEAST_OTHERS = 4  # least number of distinct other values
CODED_GAP = 0.5  # least gap to the other values, in units of their range, for a number that looks like a code
GAP = 10.0  # the same for any other number
_NINES = re.compile(r"9{2,}[6-9]")  # 999, 99999, 9998
_ROUND = 10**6  # the least power of ten that looks like a code
_LIMITS = {2**15 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63}  # of integer types


@dataclass(frozen=True)
class Sentinels:
    """The sentinels of a column, their rows, and the range of all other values."""

    numbers: tuple[float, ...]
    rows: int
    low: float
    high: float


def find_sentinels(column: np.ndarray) -> Sentinels | None:
    """Return the numbers at a column's ends that lie far outside all others, or None.

    Examples
    --------
    >>> find_sentinels(np.array([0.0, 120.0, 300.0, 500.0, 800.0, 99999.0, 99999.0]))
    Sentinels(numbers=(99999.0,), rows=2, low=0.0, high=800.0)
    >>> find_sentinels(np.array([0.0, 120.0, 300.0, 500.0, 800.0, 1100.0]))
    """
    finite = np.asarray(column, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    others = np.unique(finite)
    for _ in range(2):  # a sentinel at one end can hide one at the other
        others = -_without_highest(-_without_highest(others)[::-1])[::-1]
    if not len(others) or (others[0] <= finite.min() and others[-1] >= finite.max()):
        return None
    outside = finite[(finite < others[0]) | (finite > others[-1])]
    return Sentinels(tuple(np.unique(outside).tolist()), len(outside), float(others[0]), float(others[-1]))


def _without_highest(numbers: np.ndarray) -> np.ndarray:
    """Drop the few highest of the sorted numbers if they lie far above the others."""
    for count in range(1, MOST + 1):
        rest, apart = numbers[:-count], numbers[-count:]
        if len(rest) < LEAST_OTHERS:
            break
        factor = CODED_GAP if all(map(looks_like_a_code, apart)) else GAP
        if apart[0] - rest[-1] > factor * (rest[-1] - rest[0]):
            return rest
    return numbers


def looks_like_a_code(number: float) -> bool:
    """Whether a number is a common code for "unknown".

    Such codes are rows of nines, high powers of ten and the limits of integer types.

    >>> [looks_like_a_code(x) for x in (999, -99999, 1e12, 2**31 - 1, 98, 41310, 1000, 0.5)]
    [True, True, True, True, False, False, False, False]
    """
    size = abs(float(number))
    if size > 1e30:
        return True
    if size != math.floor(size):
        return False
    whole = int(size)
    nines = _NINES.fullmatch(str(whole)) or (number < 0 and whole == 99)
    round_ = whole >= _ROUND and str(whole).strip("0") == "1"
    return bool(nines or round_ or whole in _LIMITS)
