"""Mergeable summaries: exact sums, quantiles, intervals, Pareto fronts.

Sums are stored as integer multiples of the smallest float64. The order of rows and their division into shards
therefore cannot change a digit of a mean.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import binomtest

LEVEL = 0.95
QUANTILE_ERROR = 1 / 128  # relative error of `Quantiles`: half a bin
_UNIT = 1074  # every float64 is an integer multiple of 2**-1074
_BINS = 64  # bins per power of two


def exact_sums(values: np.ndarray, groups: np.ndarray | None = None, n_groups: int = 1) -> list[int]:
    """Return the exact sum of each group's values, in multiples of 2**-1074.

    Parameters
    ----------
    values : ndarray of finite float64
    groups : ndarray of int, optional
        Group of each value; by default, all values form one group.

    Examples
    --------
    >>> mean(exact_sums(np.array([1e16, 1.0, -1e16]))[0], 1)
    1.0
    """
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("values must be finite")
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
    # The sum is taken in two halves, so that 2**36 rows fit an int64.
    high = np.add.reduceat(sorted_mantissa >> 27, starts)
    low = np.add.reduceat(sorted_mantissa & (2**27 - 1), starts)
    for k, h, m in zip(key[order][starts], high, low, strict=True):
        shift = int(k % 4096) - 1100 - 53 + _UNIT
        total = (int(h) << 27) + int(m)
        # The low mantissa bits of subnormals are zero, so the right shift is exact.
        totals[int(k // 4096)] += total << shift if shift >= 0 else total >> -shift
    return totals


def mean(total: int, count: int) -> float:
    """Return the correctly rounded mean of values with this exact sum; NaN if none."""
    return total / (count << _UNIT) if count else math.nan


@dataclass
class Quantiles:
    """Mergeable counts in fixed bins, 64 per power of two.

    Quantiles have a relative error of at most 1/128.

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
        """Return the value below which a share of the values lies; NaN if there are none."""
        wanted = max(1, math.ceil(share * self.counts.total()))
        seen = 0
        for number in sorted(self.counts):
            seen += self.counts[number]
            if seen >= wanted:
                return _middle(number)
        return math.nan


_ZERO = -(2**40)  # the bin of values that are not positive


def bin_of(values: np.ndarray) -> np.ndarray:
    """Return the bin of each value, exactly and without a logarithm."""
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    inner = np.floor((2 * fraction - 1) * _BINS).astype(np.int64)
    return np.where(np.asarray(values) > 0, exponent.astype(np.int64) * _BINS + inner, _ZERO)


def _middle(number: int) -> float:
    if number == _ZERO:
        return 0.0
    exponent, inner = divmod(number, _BINS)
    return math.ldexp((1 + (inner + 0.5) / _BINS) / 2, exponent)


def wilson(successes: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the Wilson interval of a proportion; NaN without trials.

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
    """Return the percentile interval of sum/size when whole clusters are resampled.

    Parameters
    ----------
    sums, sizes : sequences of float
        Each cluster's contribution to the numerator and to the denominator.

    Returns
    -------
    tuple of float
        NaN if there are fewer than two non-empty clusters.

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
    """Return mean ± z·s/√n from exact sums; NaN for fewer than two values."""
    if count < 2:
        return math.nan, math.nan
    from scipy.special import ndtri

    centre = mean(total, count)
    # n·Σx² - (Σx)² in integers avoids cancellation.
    spread = (count * (squares << _UNIT) - total * total) / (count * (count - 1) << 2 * _UNIT)
    half = float(ndtri((1 + level) / 2)) * math.sqrt(max(spread, 0.0) / count)
    return centre - half, centre + half


def envelope(*intervals: tuple[float, float]) -> tuple[float, float]:
    """Return the hull of the intervals that are not NaN."""
    there = [i for i in intervals if not math.isnan(i[0])]
    if not there:
        return math.nan, math.nan
    return min(low for low, _ in there), max(high for _, high in there)


def pareto_front(distances: Sequence[float], validities: Sequence[float]) -> list[bool]:
    """Return which (distance, validity) pairs are not dominated.

    A pair is dominated if another one is nearer and at least as valid, or more valid and at least as near.

    >>> pareto_front([1.0, 2.0, 2.0], [0.5, 0.9, 0.8])
    [True, True, False]
    """
    pairs = list(zip(distances, validities, strict=True))
    return [not (math.isnan(d) or math.isnan(v)) and not _beaten(d, v, pairs) for d, v in pairs]


def _beaten(d: float, v: float, pairs: Iterable[tuple[float, float]]) -> bool:
    return any((a <= d and b > v) or (a < d and b >= v) for a, b in pairs)


def merged(parts: Iterable[Mapping[int, int]]) -> Counter[int]:
    """Return the sum of several counts."""
    total: Counter[int] = Counter()
    for part in parts:
        total.update(part)
    return total


def share_interval(share: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Return the Wilson interval of a mean of n values in [0, 1]; NaN without values.

    Such a mean varies at most as much as a proportion, so the interval is not too short.

    >>> tuple(round(end, 3) for end in share_interval(1.0, 5))
    (0.566, 1.0)
    """
    if not n:
        return math.nan, math.nan
    from scipy.special import ndtri

    z2 = float(ndtri((1 + level) / 2)) ** 2
    centre, spread = share + z2 / (2 * n), math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n)))
    return max(0.0, (centre - spread) / (1 + z2 / n)), min(1.0, (centre + spread) / (1 + z2 / n))


def difference_interval(
    one: float, n_one: float, other: float, n_other: float, level: float = LEVEL
) -> tuple[float, float]:
    """Return Newcombe's interval of the difference `one - other` of two independent shares.

    NaN if one of them has no values.

    >>> tuple(round(end, 2) for end in difference_interval(56 / 70, 70, 48 / 80, 80))
    (0.05, 0.33)
    """
    (low, high), (low_other, high_other) = (
        share_interval(one, n_one, level),
        share_interval(other, n_other, level),
    )
    down = math.hypot(one - low, high_other - other)
    up = math.hypot(high - one, other - low_other)
    return one - other - down, one - other + up
