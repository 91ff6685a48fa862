"""The whole procedure on random stumps, whose truth is known.

A stump accepts x if x exceeds a threshold drawn from the uniform distribution. A stump therefore accepts x
with probability x, and a forest of N stumps with the probability of Prop. 1.
"""

from __future__ import annotations

import numpy as np
import pytest

import robustcf as rc
from robustcf.certificate.bounds import lower_bound
from robustcf.certificate.design import Design, orders
from robustcf.certificate.fresh import FreshForests
from robustcf.thresholds import binomial_half_cdf

N, FEW, MANY = 25, 80, 1000
SCHEMA = rc.Schema((rc.Feature("x", "continuous", low=0.0, high=1.0),))
DESIGN = Design(forests=60, pool=50, pilot=200)


def stumps(rng: np.random.Generator, n: int, low: float = 0.0, high: float = 1.0) -> rc.Forest:
    """Return n stumps that accept a number above a random threshold."""
    leaf = np.full(n, -1)
    first = 3 * np.arange(n)
    return rc.Forest(
        tree_start=3 * np.arange(n + 1),
        left=np.stack([first + 1, leaf, leaf], axis=1).ravel(),
        right=np.stack([first + 2, leaf, leaf], axis=1).ravel(),
        feature=np.tile([0, -1, -1], n),
        threshold=np.stack([rng.uniform(low, high, n), np.zeros(n), np.zeros(n)], axis=1).ravel(),
        missing_left=np.zeros(3 * n, dtype=bool),
        probabilities=np.tile([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], (n, 1)),
        classes=(0, 1),
        n_features=1,
    )


def certified(seed: int, method: rc.Certified, voting: str) -> rc.Counterfactual:
    rng = np.random.default_rng(seed)
    forest = stumps(rng, N)
    made = [(order, stumps(rng, order.n_trees)) for order in orders(DESIGN, N, seed)]
    explainer = rc.Explainer(
        forest,
        SCHEMA,
        method,
        target=1,
        voting=voting,
        training=(np.array([[0.1], [0.9]]), np.array([0, 1])),
        fresh=(FreshForests.assembled(forest, DESIGN, made),),
        best_score=False,
    )
    return explainer.explain({"x": 0.2})


def check(voting: str, test: str, repetitions: int) -> None:
    method = rc.Certified(0.05, 0.05, DESIGN.forests, DESIGN.pool, DESIGN.pilot)
    false = granted = 0
    for seed in range(repetitions):
        found = certified(seed, method, voting)
        assert found.verified, found.reason
        assert found.status == "optimal"
        assert found.certificate is not None
        assert found.certificate.test == test
        validity = 1 - binomial_half_cdf(N, float(found.point["x"]))
        granted += found.certificate.certified
        false += found.certificate.certified and validity < 0.95
    assert lower_bound(false, repetitions, 0.001) <= 0.05, false
    assert granted >= 0.9 * repetitions


BOTH = pytest.mark.parametrize(("voting", "test"), [("soft", "forests"), ("hard", "trees")])


@BOTH
def test_few_certificates_are_false_and_most_customers_get_one(voting: str, test: str) -> None:
    check(voting, test, FEW)


@pytest.mark.slow
@BOTH
def test_few_of_many_certificates_are_false(voting: str, test: str) -> None:
    check(voting, test, MANY)
