"""Summaries that can be put together from parts: exact sums, quantiles, intervals, Pareto fronts.

Sums are kept as whole multiples of the smallest float64, so neither the order of the rows nor how
they are cut into shards can change a digit of a mean.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import binomtest

LEVEL = 0.95
QUANTILE_ERROR = 1 / 128  # of `Quantiles`, relative: half a bin
_UNIT = 1074  # every float64 is a whole multiple of 2**-1074
_BINS = 64  # per power of two


def exact_sums(values: np.ndarray, groups: np.ndarray | None = None, n_groups: int = 1) -> list[int]:
    """The exact sum of each group's values, in multiples of 2**-1074.

    Parameters
    ----------
    values : ndarray of finite float64
    groups : ndarray of int, optional
        Group of each value; one group for all by default.

    Examples
    --------
    >>> mean(exact_sums(np.array([1e16, 1.0, -1e16]))[0], 1)
    1.0
    """
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("only finite values have a sum")
    fraction, exponent = np.frexp(values)
    mantissa = np.ldexp(fraction, 53).astype(np.int64)  # whole: |fraction| has 53 bits
    group = np.zeros(len(values), dtype=np.int64) if groups is None else np.asarray(groups, dtype=np.int64)
    key = group * 4096 + (exponent.astype(np.int64) + 1100)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1)) if len(key) else np.zeros(0, dtype=np.int64)
    totals = [0] * n_groups
    if not len(starts):
        return totals
    sorted_mantissa = mantissa[order]
    # In two halves, so that 2**36 rows fit an int64.
    high = np.add.reduceat(sorted_mantissa >> 27, starts)
    low = np.add.reduceat(sorted_mantissa & (2**27 - 1), starts)
    for k, h, m in zip(key[order][starts], high, low, strict=True):
        shift = int(k % 4096) - 1100 - 53 + _UNIT
        total = (int(h) << 27) + int(m)
        # Subnormals have spare low bits in the mantissa: the shift to the right loses nothing.
        totals[int(k // 4096)] += total << shift if shift >= 0 else total >> -shift
    return totals


def mean(total: int, count: int) -> float:
    """The mean of values with that exact sum, correctly rounded; NaN of nothing."""
    return total / (count << _UNIT) if count else math.nan


@dataclass
class Quantiles:
    """Counts in fixed bins, 64 to each power of two: mergeable, quantiles to 1/128 relative.

    Examples
    --------
    >>> q = Quantiles.of(np.arange(1.0, 101.0))
    >>> abs(q.quantile(0.5) / 50 - 1) <= QUANTILE_ERROR
    True
    """

    counts: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, values: np.ndarray) -> Quantiles:
        bins, counts = np.unique(bin_of(values), return_counts=True)
        return cls(Counter(dict(zip(bins.tolist(), counts.tolist(), strict=True))))

    def quantile(self, share: float) -> float:
        """The value below which a share of the values lies; NaN of nothing."""
        wanted = max(1, math.ceil(share * self.counts.total()))
        seen = 0
        for number in sorted(self.counts):
            seen += self.counts[number]
            if seen >= wanted:
                return _middle(number)
        return math.nan


_ZERO = -(2**40)  # the bin of values that are not above 0


def bin_of(values: np.ndarray) -> np.ndarray:
    """The bin of each value; exact, whatever the machine's logarithm."""
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    inner = np.floor((2 * fraction - 1) * _BINS).astype(np.int64)
    return np.where(np.asarray(values) > 0, exponent.astype(np.int64) * _BINS + inner, _ZERO)


def _middle(number: int) -> float:
    if number == _ZERO:
        return 0.0
    exponent, inner = divmod(number, _BINS)
    return math.ldexp((1 + (inner + 0.5) / _BINS) / 2, exponent)


def wilson(successes: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """The Wilson interval of a proportion; NaN of nothing.

    >>> tuple(round(end, 3) for end in wilson(5, 5))
    (0.566, 1.0)
    """
    if trials == 0:
        return math.nan, math.nan
    interval = binomtest(successes, trials).proportion_ci(level, method="wilson")
    return float(interval.low), float(interval.high)


def cluster_bootstrap(
    sums: Sequence[float], sizes: Sequence[float], level: float = LEVEL, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of sum/size when whole clusters are drawn again.

    Parameters
    ----------
    sums, sizes : sequences of float
        What each cluster adds to the numerator and to the denominator.

    Returns
    -------
    tuple of float
        NaN where there are fewer than two clusters with anything in them.

    Examples
    --------
    >>> low, high = cluster_bootstrap([1, 5, 3], [5, 5, 5])
    >>> low < 0.6 < high
    True
    """
    used = [(s, n) for s, n in zip(sums, sizes, strict=True) if n]
    if len(used) < 2:
        return math.nan, math.nan
    top, bottom = np.array(used, dtype=np.float64).T
    drawn = np.random.default_rng(seed).integers(0, len(used), size=(draws, len(used)))
    ratios = top[drawn].sum(axis=1) / bottom[drawn].sum(axis=1)
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def normal_interval(total: int, squares: int, count: int, level: float = LEVEL) -> tuple[float, float]:
    """Mean ± z·s/√n from exact sums of values and of their squares; NaN below two values."""
    if count < 2:
        return math.nan, math.nan
    from scipy.special import ndtri

    centre = mean(total, count)
    # n·Σx² - (Σx)² in whole numbers: no cancellation
    spread = (count * (squares << _UNIT) - total * total) / (count * (count - 1) << 2 * _UNIT)
    half = float(ndtri((1 + level) / 2)) * math.sqrt(max(spread, 0.0) / count)
    return centre - half, centre + half


def envelope(*intervals: tuple[float, float]) -> tuple[float, float]:
    """The hull of the intervals that are there."""
    there = [i for i in intervals if not math.isnan(i[0])]
    if not there:
        return math.nan, math.nan
    return min(low for low, _ in there), max(high for _, high in there)


def pareto_front(distances: Sequence[float], validities: Sequence[float]) -> list[bool]:
    """Which (distance, validity) pairs no other pair beats: nearer and at least as valid, or the reverse.

    >>> pareto_front([1.0, 2.0, 2.0], [0.5, 0.9, 0.8])
    [True, True, False]
    """
    pairs = list(zip(distances, validities, strict=True))
    return [not (math.isnan(d) or math.isnan(v)) and not _beaten(d, v, pairs) for d, v in pairs]


def _beaten(d: float, v: float, pairs: Iterable[tuple[float, float]]) -> bool:
    return any((a <= d and b > v) or (a < d and b >= v) for a, b in pairs)


def merged(parts: Iterable[Mapping[int, int]]) -> Counter[int]:
    """Counts added up."""
    total: Counter[int] = Counter()
    for part in parts:
        total.update(part)
    return total
