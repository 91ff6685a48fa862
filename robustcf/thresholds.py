"""Thresholds on a forest's score, in the paper's notation."""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, get_args, overload

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv, exp2, ndtri

Floats = npt.NDArray[np.float64]
Variant = Literal["agresti-coull", "one-sided"]
Condition = Literal["alpha", "p-star"]
MAX_TREES = 2**40  # limit of `trees_needed`; larger counts would suffer from rounding
_WINDOW = 2**14  # forest sizes below a sufficient one among which `trees_needed` looks for the least


@dataclass(frozen=True)
class Cutoff:
    """The score at which a model decides for a class: at least `score`, or more if `strict`.

    Its decimal digits count: 0.7 of 10 votes are 7 votes, although 0.7 has no exact binary form.

    `classes` is above 2 if the class with the most votes of so many classes wins. More than half of the votes
    then suffice, but a class can win with less (`least`).

    >>> Cutoff(0.7, strict=False).votes(10), Cutoff(0.7, strict=True).votes(10), MAJORITY.votes(11)
    (7, 8, 6)
    """

    score: float
    strict: bool
    classes: int = 2

    def __post_init__(self) -> None:
        number = isinstance(self.score, int | float) and not isinstance(self.score, bool)
        if not number or not 0 < self.score < 1:
            raise ValueError(f"cutoff is {self.score!r}; it must lie strictly between 0 and 1")
        object.__setattr__(self, "score", float(self.score))

    def votes(self, n_trees: int) -> int:
        """Return the least number of N votes that reaches the cut-off."""
        exact = Fraction(repr(self.score)) * _size(n_trees)
        return math.floor(exact) + 1 if self.strict else math.ceil(exact)

    @property
    def least(self) -> float:
        """The score below which the model never decides for the class.

        >>> Cutoff(0.5, strict=True, classes=4).least, Cutoff(0.7, strict=False).least
        (0.25, 0.7)
        """
        return self.score if self.classes == 2 else 1 / self.classes

    @property
    def opposite(self) -> Cutoff:
        """The cut-off of the other of two classes.

        >>> Cutoff(0.7, strict=False).opposite
        Cutoff(score=0.3, strict=True, classes=2)
        """
        return Cutoff(float(1 - Fraction(repr(self.score))), not self.strict)


MAJORITY = Cutoff(0.5, strict=True)  # more than half of the votes, as in the paper


def as_cutoff(cutoff: float | Cutoff) -> Cutoff:
    """Return a number as a cut-off: at least this score, and more than it at 1/2.

    >>> as_cutoff(0.5) == MAJORITY, as_cutoff(0.7)
    (True, Cutoff(score=0.7, strict=False, classes=2))
    """
    return cutoff if isinstance(cutoff, Cutoff) else Cutoff(cutoff, strict=cutoff == 0.5)


@overload
def miss_probability(n_trees: int, p: float, cutoff: float | Cutoff = MAJORITY) -> float: ...
@overload
def miss_probability(n_trees: int, p: Floats, cutoff: float | Cutoff = MAJORITY) -> Floats: ...
def miss_probability(n_trees: int, p: float | Floats, cutoff: float | Cutoff = MAJORITY) -> float | Floats:
    """Return g_N(p) = B(k - 1; N, p), the probability that N trees miss the cut-off (Lemma 1).

    k is the least number of votes that reaches the cut-off. At 1/2, k - 1 = ⌊N/2⌋, as in the paper.

    Parameters
    ----------
    n_trees : int
        Size N of the forest.
    p : float or array of floats
        Probability in [0, 1] that one tree votes for the target class.
    cutoff : float or Cutoff
        Share of votes at which the forest decides for the target.

    Returns
    -------
    float or array
        Decreasing in p from 1 to 0.

    Examples
    --------
    >>> miss_probability(1, np.array([0.0, 0.25, 1.0])).tolist()
    [1.0, 0.75, 0.0]
    >>> round(miss_probability(10, 0.7, cutoff=0.7), 3)
    0.35
    """
    n, k = _counts(n_trees, cutoff)
    chance = np.asarray(p, dtype=np.float64)
    if not np.all((chance >= 0) & (chance <= 1)):
        raise ValueError(f"p must lie in [0, 1], got {p}")
    # The paper's proof prints I_{1-p}(N/2, N/2 + 1), which holds for even N; this form holds for odd N too.
    value = betainc(n - k + 1, k, 1 - chance)
    return float(value) if chance.ndim == 0 else np.asarray(value, dtype=np.float64)


def binomial_half_cdf(n_trees: int, p: float | Floats) -> float | Floats:
    """Return g_N(p) = B(⌊N/2⌋; N, p) as printed in Lemma 1: `miss_probability` at the cut-off 1/2."""
    return miss_probability(n_trees, p)


def p_star(n_trees: int, alpha: float, cutoff: float | Cutoff = MAJORITY) -> float:
    """Return p* = g_N⁻¹(alpha), the Direct-SAA threshold (Prop. 1).

    Parameters
    ----------
    n_trees : int
        Size N of the forest.
    alpha : float
        Tolerance, strictly between 0 and 1. Up to 1/2, and at the cut-off 1/2, p* is at least 1/2 (Lemma 3).
    cutoff : float or Cutoff
        Share of votes at which a retrained forest decides for the target. At 1/2 it needs more votes than
        half; at any other number, at least that share.

    Returns
    -------
    float
        If each tree votes for the target with probability p*, a retrained forest misses the cut-off with
        probability alpha.

    Examples
    --------
    >>> round(p_star(100, 0.2), 3), round(p_star(100, 0.05), 3), round(p_star(100, 0.05, cutoff=0.7), 3)
    (0.547, 0.586, 0.766)
    """
    return 1 - _one_minus_p_star(n_trees, alpha, cutoff)


def robust_threshold(
    n_trees: int,
    alpha: float,
    beta: float,
    variant: Variant = "agresti-coull",
    cutoff: float | Cutoff = MAJORITY,
) -> float:
    """Return the Robust-SAA threshold ρ* (eq. 8); at least p* for alpha ≤ 1/2.

    A *smaller* beta is more conservative. The paper's text says that robustness grows with beta and that
    beta = 0 gives Direct-SAA. Its formula and results say the opposite (beta = 1 gives Direct-SAA), and this
    function follows them.

    Parameters
    ----------
    n_trees, alpha, cutoff
        As in `p_star`.
    beta : float
        Confidence level: in (0, 1] for "agresti-coull", in (0, 1/2] for "one-sided".
    variant : {"agresti-coull", "one-sided"}
        "agresti-coull" is the printed formula, p* + z·sqrt(ρ(1-ρ)/N) with ρ = (N p* + 2)/(N + 4) and
        z = Φ⁻¹(1 - beta/2). "one-sided" is what the authors' code computes: the least score s whose
        lower confidence limit c - z·sqrt(c(1-c)/N) reaches p*, with c = (N s + 2)/(N + 4) and
        z = Φ⁻¹(1 - beta). The authors search a grid; this function solves the equation. As in their code,
        the constants 2 and 4 do not depend on beta.

    Returns
    -------
    float
        It may exceed 1. Then no score reaches it, and there is no recourse at this confidence level.

    Examples
    --------
    >>> round(robust_threshold(100, 0.05, 0.1), 3)
    0.667
    >>> round(robust_threshold(100, 0.05, 0.1, variant="one-sided"), 3)
    0.654
    """
    p, n = p_star(n_trees, alpha, cutoff), n_trees
    _check_choice("variant", variant, get_args(Variant))
    most = 1 if variant == "agresti-coull" else 0.5
    if not 0 < beta <= most:
        raise ValueError(f"beta must be above 0 and at most {most} for variant {variant!r}, got {beta}")
    if variant == "agresti-coull":
        rho = (n * p + 2) / (n + 4)
        return p - float(ndtri(beta / 2)) * math.sqrt(rho * (1 - rho) / n)
    # The larger root of (c - p*)² = z² c(1 - c)/N is the upper Wilson limit of p*.
    zz = float(ndtri(beta)) ** 2 / n
    c = (p + zz / 2 + math.sqrt(zz * (p * (1 - p) + zz / 4))) / (1 + zz)
    return ((n + 4) * c - 2) / n


def log_delta(
    n_trees: int,
    alpha: float,
    n_continuous: int,
    n_discrete: int,
    condition: Condition = "alpha",
    cutoff: float | Cutoff = MAJORITY,
) -> float:
    """Return log δ of the convex approximation's finite-sample bound (Prop. 5).

    With probability at least 1 - δ, a point on which all N trees agree is robust, provided that the
    learners are convex (stumps). The bound is vacuous if log δ ≥ 0.

    Parameters
    ----------
    n_trees, alpha, cutoff
        As in `p_star`.
    n_continuous, n_discrete : int
        Numbers of features that can move: k and d - k.
    condition : {"alpha", "p-star"}
        The share of trees that may vote against the target: "alpha" as printed, or "p-star" for
        1 - p*(N, alpha), which Prop. 1 requires. For retrained forests of another size M, pass
        `1 - p_star(M, alpha)` as alpha.

    Returns
    -------
    float
        log δ; inf if 2^(d-k) overflows.

    Examples
    --------
    >>> round(log_delta(100, 0.05, 2, 1), 2), round(log_delta(100, 0.05, 2, 1, condition="p-star"), 2)
    (12.73, -14.2)
    """
    _check_choice("condition", condition, get_args(Condition))
    if min(n_continuous, n_discrete) < 0:
        raise ValueError(f"counts of features cannot be negative, got {n_continuous} and {n_discrete}")
    slack = _one_minus_p_star(n_trees, alpha, cutoff)  # always computed, because it checks all arguments
    epsilon = slack if condition == "p-star" else alpha
    return _log_delta(n_trees, epsilon, _dimension(n_continuous, n_discrete))


def _dimension(n_continuous: int, n_discrete: int) -> float:
    return float(exp2(n_discrete)) * (n_continuous + 1) - 1


def _log_delta(n_trees: int, epsilon: float, dimension: float) -> float:
    return dimension * (math.log(1 / epsilon) + epsilon) - epsilon / 2 * n_trees


def trees_needed(
    delta: float,
    alpha: float,
    n_continuous: int,
    n_discrete: int,
    condition: Condition = "alpha",
    cutoff: float | Cutoff = MAJORITY,
) -> int | float:
    """Return the least N for which the δ of `log_delta` is at most `delta`.

    The result is inf if N would exceed `MAX_TREES`. The other parameters are those of `log_delta`, with
    alpha ≤ 1/2 under "p-star". In that case p* does not decrease in N: more trees than the result may be too
    few. At the cut-off 1/2, it decreases along odd N and along even N separately (Lemma 2).

    Examples
    --------
    >>> trees_needed(0.05, 0.05, 57, 0), trees_needed(0.05, 0.05, 57, 0, condition="p-star")
    (7065, 325)
    >>> trees_needed(0.05, 0.05, 57, 0, condition="p-star", cutoff=0.7)
    680
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
    if condition == "p-star" and alpha > 0.5:
        raise ValueError(f"alpha must be at most 1/2 under condition 'p-star', got {alpha}")
    asked, wish = as_cutoff(cutoff), math.log(delta)

    def enough(n: int) -> bool:
        return log_delta(n, alpha, n_continuous, n_discrete, condition, asked) <= wish

    if condition == "alpha" or asked == MAJORITY:
        parities = (range(first, MAX_TREES + 1, 2) for first in (1, 2))
        tails = (sizes[bisect_left(sizes, True, key=enough) :] for sizes in parities)
        return min((tail[0] for tail in tails if tail), default=math.inf)

    def surely_enough(n: int) -> bool:
        """One vote more than c·N needs a larger p*, which decreases in N."""
        slack = float(betaincinv(n * (1 - asked.score), n * asked.score + 1, alpha))
        return slack > 0 and _log_delta(n, slack, _dimension(n_continuous, n_discrete)) <= wish

    sizes = range(1, MAX_TREES + 1)
    most = bisect_left(sizes, True, key=surely_enough)
    if most == len(sizes):
        return math.inf
    return next(n for n in range(max(1, sizes[most] - _WINDOW), sizes[most] + 1) if enough(n))


@lru_cache(maxsize=1024)  # asked again for every row
def _one_minus_p_star(n_trees: int, alpha: float, cutoff: float | Cutoff) -> float:
    n, k = _counts(n_trees, cutoff)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie strictly between 0 and 1, got {alpha}")
    return float(betaincinv(n - k + 1, k, alpha))


def _counts(n_trees: int, cutoff: float | Cutoff) -> tuple[int, int]:
    n = _size(n_trees)
    return n, as_cutoff(cutoff).votes(n)


def _size(n_trees: int) -> int:
    n = operator.index(n_trees)
    if n < 1:
        raise ValueError(f"n_trees must be at least 1, got {n}")
    return n


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
