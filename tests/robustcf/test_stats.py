"""Sums that no order changes, quantiles within their stated error, intervals and fronts."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from robustcf.stats import (
    QUANTILE_ERROR,
    Quantiles,
    bin_of,
    cluster_bootstrap,
    envelope,
    exact_sums,
    mean,
    merged,
    normal_interval,
    pareto_front,
    wilson,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(st.lists(FINITE, max_size=30))
def test_sums_are_exact_even_of_subnormals(values: list[float]) -> None:
    total = exact_sums(np.array(values, dtype=np.float64))[0]
    assert Fraction(total, 2**1074) == sum(map(Fraction, values))


@given(arrays(np.float64, 20, elements=st.floats(-1e6, 1e6)), st.randoms())
def test_order_and_shards_change_no_digit(values: np.ndarray, random: object) -> None:
    whole = exact_sums(values)[0]
    shuffled = values.tolist()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    parts = [exact_sums(np.array(part))[0] for part in (shuffled[:3], shuffled[3:11], shuffled[11:])]
    assert sum(parts) == whole
    assert mean(whole, 20) == pytest.approx(values.mean(), rel=1e-9, abs=1e-9)


def test_groups_are_summed_apart() -> None:
    values, groups = np.array([1.0, 2.0, 4.0, 0.5]), np.array([2, 0, 2, 0])
    assert [mean(total, 1) for total in exact_sums(values, groups, 3)] == [2.5, 0.0, 5.0]
    with pytest.raises(ValueError, match="finite"):
        exact_sums(np.array([1.0, np.inf]))


@given(arrays(np.float64, st.integers(1, 50), elements=st.floats(1e-9, 1e9)), st.floats(0.01, 0.99))
def test_quantiles_are_within_their_error(values: np.ndarray, share: float) -> None:
    exact = np.sort(values)[max(1, math.ceil(share * len(values))) - 1]
    assert abs(Quantiles.of(values).quantile(share) / exact - 1) <= QUANTILE_ERROR


def test_quantiles_merge_and_know_zero() -> None:
    one, two = Quantiles.of(np.array([0.0, 1.0])), Quantiles.of(np.array([4.0]))
    both = Quantiles(merged([one.counts, two.counts]))
    assert both.counts == Quantiles.of(np.array([4.0, 0.0, 1.0])).counts
    assert both.quantile(0.1) == 0.0
    assert math.isnan(Quantiles().quantile(0.5))
    assert (np.diff(bin_of(np.array([0.5, 0.6, 1.0, 1.02, 2.0]))) > 0).all()


def test_intervals() -> None:
    low, high = wilson(30, 100)
    assert (round(low, 3), round(high, 3)) == (0.219, 0.396)  # a textbook value
    assert all(math.isnan(end) for end in (*wilson(0, 0), *cluster_bootstrap([1], [2]), *envelope()))
    values = np.random.default_rng(0).normal(3, 1, 1000)
    ends = normal_interval(exact_sums(values)[0], exact_sums(values * values)[0], 1000)
    half = 1.959964 * values.std(ddof=1) / math.sqrt(1000)
    assert ends == pytest.approx((values.mean() - half, values.mean() + half), rel=1e-5)
    assert envelope((0.2, 0.4), (math.nan, math.nan), (0.3, 0.5)) == (0.2, 0.5)


def test_the_cluster_bootstrap_sees_that_rows_of_a_cluster_go_together() -> None:
    low, high = cluster_bootstrap([0, 0, 0, 20, 20, 20], [20] * 6)
    narrow_low, narrow_high = wilson(60, 120)
    assert high - low > 2 * (narrow_high - narrow_low)


def test_coverage_of_the_cluster_bootstrap() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        chance = rng.beta(2, 2, 40)
        good = rng.binomial(5, chance)
        low, high = cluster_bootstrap(good.tolist(), [5] * 40, draws=400)
        hits += low <= 0.5 <= high
    assert 176 <= hits <= 198


def test_pareto_fronts() -> None:
    assert pareto_front([1, 1, 2, 3], [0.5, 0.6, 0.6, 0.9]) == [False, True, False, True]
    assert pareto_front([1, 1], [0.5, 0.5]) == [True, True]
    assert pareto_front([math.nan, 1], [0.5, math.nan]) == [False, False]
