"""p*(N, α, c) and its relatives at any cut-off; scipy's binomial law and plain counting are the judges."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom

import robustcf as rc
from robustcf.thresholds import (
    MAJORITY,
    Cutoff,
    as_cutoff,
    log_delta,
    miss_probability,
    p_star,
    robust_threshold,
    trees_needed,
)

SIZES = st.integers(1, 2000)
CUTS = st.one_of(st.sampled_from([0.2, 0.3, 0.5, 0.7, 0.55]), st.floats(0.01, 0.99))
ALPHAS = st.floats(1e-6, 0.5)


def votes_by_counting(n: int, c: float) -> int:
    """The least number of votes, found one by one, with the cut-off as it is written."""
    share = Fraction(str(c))
    return next(k for k in range(n + 1) if (k > share * n if c == 0.5 else k >= share * n))


@pytest.mark.parametrize("c", [0.2, 0.3, 0.5, 0.7])
@pytest.mark.parametrize("alpha", [0.5, 0.2, 0.05, 0.01])
def test_p_star_is_the_root_on_the_binomial_law(c: float, alpha: float) -> None:
    for n in range(1, 501):
        k = votes_by_counting(n, c)
        root = brentq(lambda p, k=k, n=n: binom.sf(k - 1, n, p) - (1 - alpha), 0, 1, xtol=1e-14, rtol=1e-14)
        assert p_star(n, alpha, c) == pytest.approx(root, abs=1e-10), n


@given(SIZES, CUTS)
def test_votes_are_counted_with_the_digits_of_the_cutoff(n: int, c: float) -> None:
    assert as_cutoff(c).votes(n) == votes_by_counting(n, c)
    one = as_cutoff(c)
    assert one.opposite.votes(n) == n - one.votes(n) + 1  # one of the two classes always wins


@given(SIZES, CUTS, st.floats(0, 1), st.floats(0, 1))
def test_lemma_1_at_every_cutoff(n: int, c: float, p: float, q: float) -> None:
    low, high = sorted((p, q))
    assert miss_probability(n, high, c) <= miss_probability(n, low, c) + 1e-12
    assert miss_probability(n, p, c) == pytest.approx(
        float(binom.cdf(votes_by_counting(n, c) - 1, n, p)), abs=1e-12
    )
    assert (miss_probability(n, 0.0, c), miss_probability(n, 1.0, c)) == (1, 0)


@given(SIZES, CUTS, ALPHAS, ALPHAS)
def test_p_star_decreases_in_alpha_at_every_cutoff(n: int, c: float, a: float, b: float) -> None:
    strict, mild = sorted((a, b))
    assert p_star(n, strict, c) >= p_star(n, mild, c) - 1e-12
    assert robust_threshold(n, strict, 0.1, cutoff=c) >= p_star(n, strict, c)


@given(st.integers(2, 60), st.floats(1e-6, 0.2), st.sampled_from([(1, 5), (3, 10), (7, 10), (1, 2)]))
def test_p_star_decreases_along_sizes_that_divide_evenly(k: int, alpha: float, c: tuple[int, int]) -> None:
    """For c = a/b, along N, N + b, N + 2b, ...: c·N is whole. Elsewhere whole votes are rounded up.

    It does not hold for α near 1/2: at c < 1/2, p* can then lie below c and rise towards it.
    """
    a, b = c
    assert p_star((k + 1) * b, alpha, a / b) <= p_star(k * b, alpha, a / b) + 1e-12


def test_at_one_half_nothing_has_changed() -> None:
    assert p_star(100, 0.05, 0.5) == p_star(100, 0.05) == p_star(100, 0.05, MAJORITY)
    assert rc.Naive().threshold(100, 0.7) == 0.7
    assert rc.DirectSAA(0.05).threshold(100, 0.7) == p_star(100, 0.05, 0.7)
    assert p_star(10, 0.05, Cutoff(0.5, strict=False)) < p_star(10, 0.05)


@pytest.mark.parametrize("c", [0.0, 1.0, -0.3, 1.2, math.nan, True, "0.7"])
def test_a_bad_cutoff_is_one_clear_line(c: object) -> None:
    with pytest.raises(ValueError, match=r"cutoff is .*; it must lie strictly between 0 and 1"):
        Cutoff(c, strict=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("c", [0.2, 0.3, 0.7, 0.55])
@pytest.mark.parametrize("features", [(2, 0), (3, 2)])
def test_trees_needed_is_the_least_size(c: float, features: tuple[int, int]) -> None:
    needed = trees_needed(0.05, 0.05, *features, condition="p-star", cutoff=c)
    good = [
        n for n in range(1, int(needed) + 50) if log_delta(n, 0.05, *features, "p-star", c) <= math.log(0.05)
    ]
    assert good[0] == needed


def test_predicted_validity_uses_the_cutoff() -> None:
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    X = rng.random((300, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=300) > 0.5).astype(int)
    forest = rc.Forest.from_sklearn(RandomForestClassifier(50, max_depth=3, random_state=0).fit(X, y))
    strict = forest.decided_at(1, 0.7)
    share = strict.score(X, 1, "hard")
    found = rc.predicted_validity(strict, X, 1, "hard").estimate
    np.testing.assert_allclose(found, binom.sf(34, 50, share), atol=1e-12)
    other = rc.predicted_validity(strict, X, 0, "hard").estimate  # more than 15 votes
    np.testing.assert_allclose(other, binom.sf(15, 50, 1 - share), atol=1e-12)
    soft = rc.predicted_validity(strict, X, 1).estimate
    assert (soft <= rc.predicted_validity(forest, X, 1).estimate + 1e-12).all()
