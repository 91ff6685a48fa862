"""The statistics of a certificate: exact binomial bounds and the forests they need.

A certificate tests the hypothesis "a retrained forest accepts the point with probability below 1 - α" on
forests that were not used to find the point. Each test has size at most δ, except the asymptotic one.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.special import bdtrc, betaincinv, ndtr, ndtri

from robustcf.thresholds import MAJORITY, Cutoff, miss_probability

NEARLY_ALL = 0.98  # the chance of a safe point to pass, see `granting_forests`


def lower_bound(agreeing: int, trials: int, delta: float) -> float:
    """Return the exact one-sided Clopper-Pearson lower bound of a share.

    >>> round(lower_bound(99, 100, 0.05), 4), lower_bound(0, 10, 0.05)
    (0.9534, 0.0)
    """
    if not 0 <= agreeing <= trials or trials < 1:
        raise ValueError(f"{agreeing} of {trials} is not a share")
    if agreeing == 0:
        return 0.0
    return float(betaincinv(agreeing, trials - agreeing + 1, delta))


def forests_needed(alpha: float, delta: float) -> int:
    """Return the least number of forests that can certify 1 - α: all of them must agree.

    >>> forests_needed(0.05, 0.05), forests_needed(0.05, 0.05 / 1000)
    (59, 194)
    """
    m = max(1, math.ceil(math.log(delta) / math.log1p(-alpha)) - 2)  # -2: the logarithms are rounded
    while lower_bound(m, m, delta) < 1 - alpha:
        m += 1
    return m


def granting_forests(alpha: float, delta: float) -> tuple[int, float]:
    """Return about how many forests grant nearly all certificates, and the true validity assumed.

    Nearly all means that a point with this validity passes with probability `NEARLY_ALL`.

    >>> granting_forests(0.05, 0.05 / 1000)
    (598, 0.99)
    """
    validity = max(0.99, 1 - alpha / 5)  # a point with a validity below 1 - α must not pass
    forests, failures = forests_needed(alpha, delta), 0  # the least forests that may have so many failures
    while bdtrc(forests - failures - 1, forests, validity) < NEARLY_ALL:
        failures += 1
        while lower_bound(forests - failures, forests, delta) < 1 - alpha:
            forests += 1
    return forests, validity


def enough_forests(alpha: float, delta: float) -> str:
    """Return `granting_forests` as text.

    >>> enough_forests(0.05, 0.05 / 1000)
    'about 598 grant nearly all certificates, at a true validity of 0.99'
    """
    forests, validity = granting_forests(alpha, delta)
    return f"about {forests} grant nearly all certificates, at a true validity of {validity:g}"


@cache
def least_agreeing(forests: int, alpha: float, delta: float) -> int | None:
    """Return the least number of agreeing forests that certifies 1 - α; None if none does.

    >>> least_agreeing(100, 0.05, 0.05), least_agreeing(58, 0.05, 0.05)
    (99, None)
    """
    if lower_bound(forests, forests, delta) < 1 - alpha:
        return None
    least, most = 0, forests  # the bound of `most` suffices, that of `least` does not
    while most - least > 1:
        middle = (least + most) // 2
        if lower_bound(middle, forests, delta) >= 1 - alpha:
            most = middle
        else:
            least = middle
    return most


def chance_to_pass(validity: np.ndarray | float, forests: int, alpha: float, delta: float) -> np.ndarray:
    """Return how likely points with these validities pass the test of all forests.

    >>> chance_to_pass(np.array([0.95, 0.995]), 100, 0.05, 0.05).round(3).tolist()
    [0.037, 0.91]
    """
    least = least_agreeing(forests, alpha, delta)
    if least is None:
        return np.zeros_like(validity, dtype=np.float64)
    return np.asarray(bdtrc(least - 1, forests, validity))


def hard_vote_bound(
    votes: int, trees: int, n_trees: int, delta: float, cutoff: float | Cutoff = MAJORITY
) -> float:
    """Return a lower bound of the validity from the votes of independent trees (Prop. 1).

    The bound of the trees' probability p becomes one of the probability that `n_trees` trees reach the
    cut-off. At 1/2, a tie counts as lost.

    >>> round(hard_vote_bound(6100, 10_000, 100, 0.05), 3)
    0.975
    """
    return 1.0 - miss_probability(n_trees, lower_bound(votes, trees, delta), cutoff)


def soft_vote_bound(values: np.ndarray, n_trees: int, delta: float, cutoff: float = 0.5) -> float:
    """Return an *asymptotic* lower bound of the validity from the trees' class fractions.

    The mean of `n_trees` trees is approximated as normal with a correction for skewness. The ratio of mean
    and deviation has a standard error by the delta method. Nothing guarantees the size of this test.

    Parameters
    ----------
    values : ndarray
        The class fraction that each independent tree gives the target.
    """
    excess, spread = float(values.mean()) - cutoff, float(values.std(ddof=1))
    if spread == 0.0:
        return 1.0 if excess > 0 else 0.0
    standard = (values - values.mean()) / spread
    skew, kurtosis = float((standard**3).mean()), float((standard**4).mean())
    ratio = excess / spread
    error = math.sqrt(max(1 - skew * ratio + (kurtosis - 1) / 4 * ratio**2, 0.0) / len(values))
    return chance_to_reach(ratio - float(ndtri(1 - delta)) * error, skew, n_trees)


def chance_to_reach(ratio: float, skew: float, n_trees: int) -> float:
    """Return the chance that a mean of trees exceeds the cut-off.

    The mean is approximated as normal, with Edgeworth's first correction, which is for skewness. `ratio` is
    (mean - cut-off) / deviation of one tree's class fraction.
    """
    z = ratio * math.sqrt(n_trees)
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    chance = float(ndtr(z)) + skew / (6 * math.sqrt(n_trees)) * (z * z - 1) * density
    return min(max(chance, 0.0), 1.0)
