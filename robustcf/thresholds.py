"""Thresholds on a forest's score, in the paper's notation."""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from typing import Literal, get_args, overload

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv, exp2, ndtri

Floats = npt.NDArray[np.float64]
Variant = Literal["agresti-coull", "one-sided"]
Condition = Literal["alpha", "p-star"]
MAX_TREES = 2**40  # limit of `trees_needed`; larger counts would suffer from rounding


@overload
def binomial_half_cdf(n_trees: int, p: float) -> float: ...
@overload
def binomial_half_cdf(n_trees: int, p: Floats) -> Floats: ...
def binomial_half_cdf(n_trees: int, p: float | Floats) -> float | Floats:
    """Return g_N(p) = B(⌊N/2⌋; N, p) (Lemma 1).

    This is the probability that no strict majority of N trees votes for the target class.

    Parameters
    ----------
    n_trees : int
        Size N of the forest.
    p : float or array of floats
        Probability in [0, 1] that one tree votes for the target class.

    Returns
    -------
    float or array
        Decreasing in p from 1 to 0.

    Examples
    --------
    >>> binomial_half_cdf(1, np.array([0.0, 0.25, 1.0])).tolist()
    [1.0, 0.75, 0.0]
    """
    n, half = _halves(n_trees)
    chance = np.asarray(p, dtype=np.float64)
    if not np.all((chance >= 0) & (chance <= 1)):
        raise ValueError(f"p must lie in [0, 1], got {p}")
    # The paper's proof prints I_{1-p}(N/2, N/2 + 1), which holds for even N; this form holds for odd N too.
    value = betainc(n - half, half + 1, 1 - chance)
    return float(value) if chance.ndim == 0 else np.asarray(value, dtype=np.float64)


def p_star(n_trees: int, alpha: float) -> float:
    """Return p* = g_N⁻¹(alpha), the Direct-SAA threshold (Prop. 1).

    Parameters
    ----------
    n_trees : int
        Size N of the forest.
    alpha : float
        Tolerance, strictly between 0 and 1. Up to 1/2, p* is at least 1/2 (Lemma 3).

    Returns
    -------
    float
        If each tree votes for the target with probability p*, a retrained forest lacks a strict majority
        with probability alpha.

    Examples
    --------
    >>> round(p_star(100, 0.2), 3), round(p_star(100, 0.05), 3)
    (0.547, 0.586)
    """
    return 1 - _one_minus_p_star(n_trees, alpha)


def robust_threshold(n_trees: int, alpha: float, beta: float, variant: Variant = "agresti-coull") -> float:
    """Return the Robust-SAA threshold ρ* (eq. 8); at least p* for alpha ≤ 1/2.

    A *smaller* beta is more conservative. The paper's text says that robustness grows with beta and that
    beta = 0 gives Direct-SAA. Its formula and results say the opposite (beta = 1 gives Direct-SAA), and this
    function follows them.

    Parameters
    ----------
    n_trees, alpha
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
    p, n = p_star(n_trees, alpha), n_trees
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
    n_trees: int, alpha: float, n_continuous: int, n_discrete: int, condition: Condition = "alpha"
) -> float:
    """Return log δ of the convex approximation's finite-sample bound (Prop. 5).

    With probability at least 1 - δ, a point on which all N trees agree is robust, provided that the
    learners are convex (stumps). The bound is vacuous if log δ ≥ 0.

    Parameters
    ----------
    n_trees, alpha
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
    slack = _one_minus_p_star(n_trees, alpha)  # always computed, because it checks both arguments
    epsilon = slack if condition == "p-star" else alpha
    dimension = float(exp2(n_discrete)) * (n_continuous + 1) - 1
    return dimension * (math.log(1 / epsilon) + epsilon) - epsilon / 2 * n_trees


def trees_needed(
    delta: float, alpha: float, n_continuous: int, n_discrete: int, condition: Condition = "alpha"
) -> int | float:
    """Return the least N for which the δ of `log_delta` is at most `delta`.

    The result is inf if N would exceed `MAX_TREES`. The other parameters are those of `log_delta`, with
    alpha ≤ 1/2 under "p-star". In that case p* decreases along odd N and along even N separately (Lemma 2),
    so one tree more than an odd result may be too few.

    Examples
    --------
    >>> trees_needed(0.05, 0.05, 57, 0), trees_needed(0.05, 0.05, 57, 0, condition="p-star")
    (7065, 325)
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
    if condition == "p-star" and alpha > 0.5:
        raise ValueError(f"alpha must be at most 1/2 under condition 'p-star', got {alpha}")

    def enough(n: int) -> bool:
        return log_delta(n, alpha, n_continuous, n_discrete, condition) <= math.log(delta)

    parities = (range(first, MAX_TREES + 1, 2) for first in (1, 2))
    tails = (sizes[bisect_left(sizes, True, key=enough) :] for sizes in parities)
    return min((tail[0] for tail in tails if tail), default=math.inf)


def _one_minus_p_star(n_trees: int, alpha: float) -> float:
    n, half = _halves(n_trees)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie strictly between 0 and 1, got {alpha}")
    return float(betaincinv(n - half, half + 1, alpha))


def _halves(n_trees: int) -> tuple[int, int]:
    n = operator.index(n_trees)
    if n < 1:
        raise ValueError(f"n_trees must be at least 1, got {n}")
    return n, n // 2


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
