"""The level of the procedure, by simulations whose truth is known."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.stats import binom

from robustcf.certificate.bounds import (
    chance_to_pass,
    forests_needed,
    hard_vote_bound,
    least_agreeing,
    lower_bound,
    soft_vote_bound,
)
from robustcf.certificate.walk import walk_down
from robustcf.thresholds import p_star

ALPHA, DELTA, FORESTS, LEVELS, REPETITIONS = 0.05, 0.05, 100, 10, 20_000


def walked(passes: np.ndarray) -> np.ndarray:
    """Return whether each repetition's walk from the last level down certifies anything."""
    return np.array([bool(walk_down(range(LEVELS - 1, -1, -1), row.__getitem__)) for row in passes])


def upper_end(false: int, repetitions: int) -> float:
    """Return the 99.9 % upper Clopper-Pearson end of a rate."""
    return 1 - lower_bound(repetitions - false, repetitions, 0.001)


def test_forest_test_keeps_its_level_when_every_level_is_just_below_the_promise() -> None:
    rng = np.random.default_rng(0)
    agreeing = rng.binomial(FORESTS, 1 - ALPHA - 1e-9, size=(REPETITIONS, LEVELS))
    passes = agreeing >= least_agreeing(FORESTS, ALPHA, DELTA)
    false = walked(passes)
    exact = chance_to_pass(1 - ALPHA, FORESTS, ALPHA, DELTA)
    assert exact == pytest.approx(0.0371, abs=2e-4)
    # only the first level tested can make a false certificate, so the rate is that of one test
    assert binom.cdf(false.sum(), REPETITIONS, exact) > 1e-4 < binom.sf(false.sum() - 1, REPETITIONS, exact)
    assert upper_end(int(false.sum()), REPETITIONS) <= DELTA


def test_walking_up_to_the_first_pass_breaks_the_level() -> None:
    rng = np.random.default_rng(1)
    agreeing = rng.binomial(FORESTS, 1 - ALPHA - 1e-9, size=(REPETITIONS, LEVELS))
    passes = agreeing >= least_agreeing(FORESTS, ALPHA, DELTA)
    assert passes.any(axis=1).mean() > 5 * DELTA  # many looks at one sample


def test_hard_vote_test_keeps_its_level_when_every_level_is_just_below_the_promise() -> None:
    rng, n = np.random.default_rng(2), 100
    votes = rng.binomial(FORESTS * n, p_star(n, ALPHA) - 1e-9, size=(REPETITIONS, LEVELS))
    bounds = {int(v): hard_vote_bound(int(v), FORESTS * n, n, DELTA) for v in np.unique(votes)}
    passes = np.vectorize(bounds.__getitem__)(votes) >= 1 - ALPHA
    false = int(walked(passes).sum())
    assert false / REPETITIONS > 0.03
    assert false / REPETITIONS <= DELTA + 3e-3  # two standard errors
    exact = sum(b >= 1 - ALPHA for b in bounds.values())  # the test is not vacuous
    assert 0 < exact < len(bounds)


def test_hard_vote_test_has_exact_size_at_most_delta() -> None:
    n, trees = 100, 100 * FORESTS
    least = next(v for v in range(trees // 2, trees) if hard_vote_bound(v, trees, n, DELTA) >= 1 - ALPHA)
    assert binom.sf(least - 1, trees, p_star(n, ALPHA)) <= DELTA


def test_power_at_a_validity_of_995_per_mille() -> None:
    assert chance_to_pass(0.995, FORESTS, ALPHA, DELTA) >= 0.85


def test_soft_vote_test_has_roughly_its_size(capsys: pytest.CaptureFixture[str]) -> None:
    """The asymptotic test promises no size. It is measured and printed here."""
    rng, n, forests = np.random.default_rng(3), 50, 60
    sizes = {}
    for a, b in ((8.0, 6.6), (2.0, 1.62), (0.6, 0.46)):  # from symmetric to two-peaked
        means = rng.beta(a, b, size=(200_000, n)).mean(axis=1)
        shift = float(np.quantile(means, ALPHA)) - 0.5  # the validity becomes exactly 1 - α
        passed = [
            soft_vote_bound(rng.beta(a, b, size=forests * n) - shift, n, DELTA) >= 1 - ALPHA
            for _ in range(1000)
        ]
        sizes[a, b] = float(np.mean(passed))
    with capsys.disabled():
        sys.stdout.write(f"\nsize of the asymptotic test at the boundary (δ = {DELTA}): {sizes}\n")
    assert all(0.01 < size < 0.12 for size in sizes.values())


def test_forests_needed() -> None:
    assert forests_needed(0.05, 0.05) == 59
    for alpha in (0.01, 0.05, 0.1, 0.2, 0.5):
        for delta in (0.2, 0.05, 1e-3, 1e-6):
            m = forests_needed(alpha, delta)
            assert (1 - alpha) ** m <= delta * (1 + 1e-12)
            assert m == 1 or (1 - alpha) ** (m - 1) > delta * (1 - 1e-12)
            assert least_agreeing(m, alpha, delta) is not None
            assert m == 1 or least_agreeing(m - 1, alpha, delta) is None


@pytest.mark.parametrize("trials", [1, 7, 100, 1000])
def test_lower_bound_is_clopper_pearsons(trials: int) -> None:
    from scipy.stats import binomtest

    for agreeing in {0, 1, trials // 2, trials - 1, trials}:
        interval = binomtest(agreeing, trials, alternative="greater").proportion_ci(0.95, method="exact")
        assert lower_bound(agreeing, trials, 0.05) == pytest.approx(interval.low, abs=1e-9)


def test_a_share_must_be_one() -> None:
    with pytest.raises(ValueError, match="11 of 10"):
        lower_bound(11, 10, 0.05)
