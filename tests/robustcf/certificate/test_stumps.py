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
from tests.helpers.stumps import SCHEMA, stumps

N, FEW, MANY = 25, 80, 1000
DESIGN = Design(forests=60, pool=50, pilot=200)


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
