"""The paper's lemmas and propositions as properties; `scipy.stats.binom` and plain sums are the judges."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from robustcf.thresholds import (
    MAX_TREES,
    Condition,
    binomial_half_cdf,
    log_delta,
    p_star,
    robust_threshold,
    trees_needed,
)

SIZES = st.integers(1, 2000)
HALVES = st.integers(1, 1000)
ALPHAS = st.floats(1e-9, 1 - 1e-9)
TOLERANCES = st.floats(1e-9, 0.5)  # what the methods accept
SMALL = 1e-12
CLOSE = 1 + 1e-9


def g(n: int, p: float) -> float:
    return float(binom.cdf(n // 2, n, p))


# Lemma 1


@given(SIZES, st.floats(0, 1))
def test_lemma_1_half_cdf_is_the_binomial_cdf(n: int, p: float) -> None:
    assert binomial_half_cdf(n, p) == pytest.approx(g(n, p), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("n", range(1, 16))
def test_lemma_1_against_an_exact_sum(n: int) -> None:
    for p in (Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(5, 8), Fraction(1)):
        exact = sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n // 2 + 1))
        assert binomial_half_cdf(n, float(p)) == pytest.approx(float(exact), rel=1e-13)


@given(SIZES, st.floats(0, 1), st.floats(0, 1))
def test_lemma_1_decreasing(n: int, p: float, q: float) -> None:
    low, high = sorted((p, q))
    assert binomial_half_cdf(n, high) <= binomial_half_cdf(n, low) + SMALL
    assert binomial_half_cdf(n, 0.0) == 1
    assert binomial_half_cdf(n, 1.0) == 0


@given(SIZES, ALPHAS)
def test_lemma_1_invertible(n: int, alpha: float) -> None:
    p = p_star(n, alpha)
    assert 0 < p < 1
    assert g(n, p) == pytest.approx(alpha, rel=1e-6)
    assert g(n, max(p - 1e-6, 0)) > alpha > g(n, min(p + 1e-6, 1))


def test_half_cdf_takes_arrays_and_keeps_their_shape() -> None:
    p = np.linspace(0, 1, 12).reshape(3, 4)
    np.testing.assert_allclose(binomial_half_cdf(10, p), binom.cdf(5, 10, p), atol=1e-14)
    assert isinstance(binomial_half_cdf(10, 0.5), float)


# Propositions 1 to 3


@given(SIZES, ALPHAS, st.floats(0, 1))
def test_proposition_1(n: int, alpha: float, p: float) -> None:
    """p >= p* suffices for P(h >= 1/2) >= 1 - alpha, and is needed when N is odd."""
    threshold = p_star(n, alpha)
    assume(abs(p - threshold) > 1e-9)
    fails = float(binom.cdf(math.ceil(n / 2) - 1, n, p))  # P(h < 1/2): a tie counts as valid
    if p > threshold:
        assert fails <= alpha * CLOSE
    elif n % 2:
        assert fails >= alpha / CLOSE


def test_proposition_1_is_not_needed_when_n_is_even() -> None:
    assert p_star(2, 0.05) > 0.97
    assert binom.sf(0, 2, 0.78) >= 0.95


@given(SIZES, ALPHAS, ALPHAS)
def test_proposition_2_p_star_grows_with_the_robustness_target(n: int, a: float, b: float) -> None:
    low, high = sorted((a, b))
    assume(high - low > 1e-6)
    assert p_star(n, low) > p_star(n, high)


@given(HALVES, st.integers(1, 1000), TOLERANCES)
def test_proposition_3_even_size_covers_every_larger_one(m: int, more: int, alpha: float) -> None:
    assert g(2 * m + more, p_star(2 * m, alpha)) <= alpha * CLOSE
    assert p_star(2 * m + more, alpha) <= p_star(2 * m, alpha) + SMALL


def test_proposition_3_needs_an_even_size_and_a_tolerance_up_to_a_half() -> None:
    assert p_star(6, 0.2) > p_star(5, 0.2)
    assert p_star(100, 0.75) > p_star(4, 0.75)


# Lemmas 2 and 3


@given(st.integers(0, 1000), TOLERANCES)
def test_lemma_2a_falls_along_odd_sizes(m: int, alpha: float) -> None:
    assert g(2 * m + 3, p_star(2 * m + 1, alpha)) <= alpha * CLOSE
    assert p_star(2 * m + 3, alpha) <= p_star(2 * m + 1, alpha) + SMALL


@given(HALVES, TOLERANCES)  # from m = 1: g_0 is constant, so p* of no trees does not exist
def test_lemma_2b_falls_along_even_sizes(m: int, alpha: float) -> None:
    assert g(2 * m + 2, p_star(2 * m, alpha)) <= alpha * CLOSE
    assert p_star(2 * m + 2, alpha) <= p_star(2 * m, alpha) + SMALL


@given(HALVES, ALPHAS)
def test_lemma_2c_falls_from_even_to_the_next_odd_size(m: int, alpha: float) -> None:
    assert g(2 * m + 1, p_star(2 * m, alpha)) <= alpha * CLOSE
    assert p_star(2 * m + 1, alpha) <= p_star(2 * m, alpha) + SMALL


@given(SIZES, TOLERANCES)
def test_lemma_3_p_star_is_at_least_a_half(n: int, alpha: float) -> None:
    """The proof prints B(N/2; N, 1/2) < 1/2 for N even: a misprint, it is > 1/2, as the proof needs."""
    assert p_star(n, alpha) >= 0.5 - SMALL
    if n % 2:
        assert g(n, 0.5) == pytest.approx(0.5)
        assert p_star(n, 0.5) == pytest.approx(0.5)
    else:
        assert g(n, 0.5) > 0.5
        assert p_star(n, 0.5) > 0.5


def test_p_star_at_known_values() -> None:
    assert p_star(100, 0.2) == pytest.approx(0.547, abs=5e-4)
    assert p_star(100, 0.05) == pytest.approx(0.586, abs=5e-4)


# Robust-SAA

VARIANTS = st.sampled_from(["agresti-coull", "one-sided"])
# Down to 0.005: the printed formula rises with p* only while z < 2 sqrt(2), that is beta > 0.0047.
BETAS = st.floats(0.005, 0.5)


@given(SIZES, TOLERANCES, BETAS)
def test_printed_threshold_is_the_formula(n: int, alpha: float, beta: float) -> None:
    p = p_star(n, alpha)
    rho = (n * p + 2) / (n + 4)
    expected = p + norm.ppf(1 - beta / 2) * math.sqrt(rho * (1 - rho) / n)
    assert robust_threshold(n, alpha, beta) == pytest.approx(expected, rel=1e-12)


@given(SIZES, TOLERANCES, st.floats(1e-6, 0.49))
def test_one_sided_threshold_is_the_least_score_whose_lower_limit_reaches_p_star(
    n: int, alpha: float, beta: float
) -> None:
    def lower_limit(score: float) -> float:
        c = min((n * score + 2) / (n + 4), 1)
        return c - float(norm.ppf(1 - beta)) * math.sqrt(c * (1 - c) / n)

    threshold = robust_threshold(n, alpha, beta, "one-sided")
    p = p_star(n, alpha)
    # Near c = 1 the limit is steep: the score is well determined, the limit at it is not.
    assert lower_limit(threshold - 1e-9) < p < lower_limit(threshold + 1e-9)
    below = np.linspace(0, min(threshold, 1), 50)[:-1]
    assert all(lower_limit(score) < p for score in below)


def test_one_sided_threshold_on_the_authors_grid() -> None:
    """Their search, 20,000 scores in [0, 1], for N = 100, alpha = 0.05, beta = 0.1."""
    scores = np.linspace(0, 1, 20000)
    c = (100 * scores + 2) / 104
    lower = c - norm.ppf(0.9) * np.sqrt(c * (1 - c) / 100)
    first = scores[np.argmax(binom.cdf(50, 100, lower) <= 0.05)]
    exact = robust_threshold(100, 0.05, 0.1, "one-sided")
    assert first - 1 / 19999 < exact <= first


@given(SIZES, TOLERANCES, TOLERANCES, BETAS, BETAS, VARIANTS)
def test_robust_threshold_falls_with_alpha_with_beta_and_with_two_trees_more(
    n: int, a1: float, a2: float, b1: float, b2: float, variant: str
) -> None:
    (alpha, alpha2), (beta, beta2) = sorted((a1, a2)), sorted((b1, b2))
    tau = robust_threshold(n, alpha, beta, variant)
    assert tau >= p_star(n, alpha) - SMALL
    assert robust_threshold(n, alpha2, beta, variant) <= tau + SMALL
    assert robust_threshold(n, alpha, beta2, variant) <= tau + SMALL
    assert robust_threshold(n + 2, alpha, beta, variant) <= tau + SMALL


def test_beta_one_gives_direct_saa_and_a_small_beta_more_than_any_score() -> None:
    assert robust_threshold(100, 0.05, 1) == p_star(100, 0.05)
    assert robust_threshold(10, 0.05, 0.01) > 1
    assert robust_threshold(10, 0.05, 0.01, "one-sided") > 1


# The finite-sample bound


@given(SIZES, TOLERANCES, st.integers(0, 60), st.integers(0, 8))
def test_log_delta_is_proposition_5(n: int, alpha: float, k: int, discrete: int) -> None:
    for condition, eps in (("alpha", alpha), ("p-star", 1 - p_star(n, alpha))):
        expected = (2**discrete * (k + 1) - 1) * (math.log(1 / eps) + eps) - eps / 2 * n
        assert log_delta(n, alpha, k, discrete, condition) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_trees_needed_for_57_continuous_features() -> None:
    """The bound is 7,064.1 trees with α; 372 holds p* at its value for 100 trees."""
    assert trees_needed(0.05, 0.05, 57, 0) == 7065
    assert trees_needed(0.05, 1 - p_star(100, 0.05), 57, 0) == 372
    assert trees_needed(0.05, 0.05, 57, 0, "p-star") == 325
    assert log_delta(326, 0.05, 57, 0, "p-star") > math.log(0.05)  # parity: one tree more is too few


@pytest.mark.parametrize("condition", ["alpha", "p-star"])
@pytest.mark.parametrize(("k", "discrete"), [(0, 0), (1, 0), (5, 0), (3, 2), (0, 4)])
@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.5])
def test_trees_needed_is_the_first_in_a_plain_scan(
    alpha: float, k: int, discrete: int, condition: Condition
) -> None:
    for delta in (0.3, 0.01):
        scan = next(
            n for n in range(1, 10**5) if log_delta(n, alpha, k, discrete, condition) <= math.log(delta)
        )
        assert trees_needed(delta, alpha, k, discrete, condition) == scan


@given(st.floats(1e-6, 0.9), st.floats(0.001, 0.5), st.integers(0, 60), st.sampled_from(["alpha", "p-star"]))
def test_no_fewer_trees_are_enough_of_either_parity(
    delta: float, alpha: float, k: int, condition: Condition
) -> None:
    """A search that ignores parity can step over an odd answer."""
    n = int(trees_needed(delta, alpha, k, 0, condition))
    assert log_delta(n, alpha, k, 0, condition) <= math.log(delta)
    assert all(log_delta(m, alpha, k, 0, condition) > math.log(delta) for m in range(max(1, n - 9), n))


def test_the_bound_survives_any_number_of_discrete_features() -> None:
    assert log_delta(100, 0.05, 3, 100) > 1e29
    assert log_delta(100, 0.05, 3, 5000) == math.inf
    assert trees_needed(0.05, 0.05, 3, 5000) == math.inf
    # p* tends to 1/2, so N tends to 4 (2^31 - 1)(log 2 + 1/2)
    limit = 4 * (2**31 - 1) * (math.log(2) + 0.5)
    assert trees_needed(0.05, 0.05, 0, 31, "p-star") == pytest.approx(limit, rel=1e-4)
    assert trees_needed(0.05, 0.05, 0, 33) <= MAX_TREES
    assert trees_needed(0.05, 0.05, 0, 34) == math.inf


# Bad input


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.1, math.nan])
def test_alpha_outside_the_open_interval_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha must lie strictly between 0 and 1"):
        p_star(100, alpha)
    with pytest.raises(ValueError, match="alpha must"):
        log_delta(100, alpha, 1, 1)


@pytest.mark.parametrize(
    ("beta", "variant", "message"),
    [
        (0, "agresti-coull", "beta must be above 0 and at most 1 "),
        (1.5, "agresti-coull", "beta must be above 0 and at most 1 "),
        (math.nan, "agresti-coull", "beta must"),
        (0.6, "one-sided", "beta must be above 0 and at most 0.5 "),
        (0.1, "wald", "variant must be one of agresti-coull, one-sided, got 'wald'"),
    ],
)
def test_bad_beta_or_variant_is_refused(beta: float, variant: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        robust_threshold(100, 0.05, beta, variant)


def test_other_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="n_trees must be at least 1"):
        p_star(0, 0.05)
    with pytest.raises(TypeError):
        p_star(10.5, 0.05)
    with pytest.raises(ValueError, match=r"p must lie in \[0, 1\]"):
        binomial_half_cdf(10, np.array([0.5, 1.5]))
    with pytest.raises(ValueError, match="cannot be negative"):
        log_delta(100, 0.05, -1, 0)
    with pytest.raises(ValueError, match="condition must be one of"):
        log_delta(100, 0.05, 1, 0, "beta")
    with pytest.raises(ValueError, match="delta must"):
        trees_needed(1, 0.05, 1, 0)
    with pytest.raises(ValueError, match="alpha must be at most 1/2"):
        trees_needed(0.05, 0.6, 1, 0, "p-star")
