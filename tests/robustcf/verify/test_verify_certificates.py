"""The definitions that `verify` uses for certificates are those of the method and of its tests."""

from __future__ import annotations

import numpy as np
import pytest

import robustcf as rc
from robustcf.certificate.bounds import lower_bound
from robustcf.certificate.fresh import Forests
from robustcf.forest.forest import Voting
from robustcf.verify.certificates import chosen_test, least_shares, levels_of
from tests.helpers.worlds import make_worlds


@pytest.mark.parametrize("n_trees", [1, 2, 7, 15, 100, 333, 1000])
@pytest.mark.parametrize("levels", [None, (0.5, 0.6), (0.7, 0.9, 1.0)])
def test_the_levels_are_the_methods(n_trees: int, levels: tuple[float, ...] | None) -> None:
    path = rc.Certified(0.05, levels=levels).path(n_trees)
    assert levels_of(n_trees, levels) == pytest.approx(path, abs=1e-12)


@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("scenario", ["same-data", "bootstrap"])
def test_the_test_is_the_methods(voting: Voting, classes: int, scenario: str) -> None:
    method = rc.Certified(0.05, scenario=scenario)
    found = chosen_test(method.test, voting, classes, method.design.resamples)
    assert found == method.test_for(voting, classes)


def test_bounds_agree_with_those_of_the_certificates() -> None:
    agreeing = np.arange(101)
    mine = least_shares(agreeing, 100, 0.05)
    assert mine == pytest.approx([lower_bound(int(a), 100, 0.05) for a in agreeing], abs=1e-12)


def test_many_points_are_asked_as_each_alone() -> None:
    for world in make_worlds(3):
        forests = Forests.of([world.forest, world.forest, world.forest])
        points = np.random.default_rng(0).random((20, world.forest.n_features))
        votings: tuple[Voting, ...] = ("soft", "hard")
        for voting in votings:
            for label in world.forest.classes:
                alone = [forests.agree(p, label, voting) for p in points]
                assert np.array_equal(forests.agree(points, label, voting), alone)
                alone = [forests.values(p, label, voting) for p in points]
                assert np.array_equal(forests.values(points, label, voting), alone)
                predicted = world.forest.predict(points, voting) == world.forest.class_index(label)
                assert np.array_equal(forests.agree(points, label, voting)[:, 0], predicted)
