"""Compare shares: intervals of differences, and tests with Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, ndtri

from robustcf.stats import LEVEL


@dataclass(frozen=True)
class Share:
    """A share of `n` clustered rows.

    `effect` is the design effect (rows per independent row).
    """

    value: float
    n: float
    effect: float = 1.0

    @property
    def effective(self) -> float:
        return self.n / self.effect


def clustered_share(successes: Sequence[float], sizes: Sequence[float]) -> Share:
    """Return the share over all clusters with its design effect (at least 1).

    Parameters
    ----------
    successes, sizes : sequences of float
        Per cluster: the number of valid rows and of all rows.

    Examples
    --------
    >>> clustered_share([5, 0, 5, 0], [5, 5, 5, 5]).effect  # each cluster is all valid or all invalid
    6.67
    >>> clustered_share([3, 2, 3, 2], [5, 5, 5, 5]).effect
    1.0
    """
    good, rows = np.asarray(successes, dtype=float), np.asarray(sizes, dtype=float)
    good, rows = good[rows > 0], rows[rows > 0]
    n = float(rows.sum())
    if not n:
        return Share(math.nan, 0.0)
    p, k = float(good.sum() / n), len(rows)
    independent = p * (1 - p) / n
    if k < 2 or independent == 0:
        return Share(p, n)
    between = float(((good - p * rows) ** 2).sum()) * k / (k - 1) / n**2
    return Share(p, n, max(1.0, round(between / independent, 2)))


def wilson_of(share: Share, level: float = LEVEL) -> tuple[float, float]:
    """Return the Wilson interval for the effective number of rows.

    >>> tuple(round(end, 3) for end in wilson_of(Share(1.0, 5)))
    (0.566, 1.0)
    """
    n, p = share.effective, share.value
    if not n:
        return math.nan, math.nan
    z = float(ndtri((1 + level) / 2))
    centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)


def difference(one: Share, other: Share, level: float = LEVEL) -> tuple[float, float, float]:
    """Return `one` - `other` with Newcombe's interval.

    >>> d, low, high = difference(Share(56 / 70, 70), Share(48 / 80, 80))  # Newcombe 1998, table II
    >>> round(d, 4), round(low, 4), round(high, 4)
    (0.2, 0.0524, 0.3339)
    """
    d = one.value - other.value
    (l1, u1), (l2, u2) = wilson_of(one, level), wilson_of(other, level)
    low = d - math.hypot(one.value - l1, u2 - other.value)
    return d, low, d + math.hypot(u1 - one.value, other.value - l2)


def chance_of_fewer(share: Share, target: float) -> float:
    """Return P(this few valid rows or fewer | validity = target).

    It is small if the target is missed.

    >>> round(chance_of_fewer(Share(0.5, 10), 0.9), 4)  # 5 or fewer of 10
    0.0016
    """
    n = share.effective
    k = share.value * n
    return float(betainc(n - k, k + 1, 1 - target)) if k < n else 1.0


def chance_of_more(share: Share, target: float) -> float:
    """Return P(this many valid rows or more | validity = target).

    It is small if the target is surpassed.

    >>> round(chance_of_more(Share(1.0, 10), 0.5), 4)
    0.001
    """
    n = share.effective
    k = share.value * n
    return float(betainc(k, n - k + 1, target)) if k > 0 else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values in the given order.

    They control the family-wise error.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(raised, 1.0)
    return [float(a) for a in adjusted]
