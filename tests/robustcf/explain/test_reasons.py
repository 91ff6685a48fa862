"""Reasons against brute force: what each feature alone could gain."""

from __future__ import annotations

import numpy as np
import pytest

import robustcf as rc
from robustcf.schema.encode import encode
from robustcf.schema.lifting import constraints_of, lifted
from tests.helpers.by_hand import candidates_of
from tests.helpers.worlds import Score, World, make_worlds, roomy_world, scores_by_model


def gains_by_hand(world: World, target: object) -> dict[str, float]:
    """Per feature, the best score that it can reach alone, above the customer's own."""
    free = lifted(world.schema, constraints_of(world.schema)).with_rules()
    candidates = candidates_of(World(free, world.forest, world.row, world.voting, world.target, world.taus))
    own, column = world.numbers, world.forest.classes.index(target)
    base = scores_by_model(world.forest.judge, encode(free, own[None, :]), world.voting)[0, column]
    gains = {}
    for j, (numbers, _) in enumerate(candidates):
        points = [[*own[:j], number, *own[j + 1 :]] for number in numbers]
        scores = scores_by_model(world.forest.judge, encode(free, np.array(points)), world.voting)
        gains[world.schema.names[j]] = float(scores[:, column].max() - base)
    return gains


def test_reasons_agree_with_brute_force() -> None:
    checked = 0
    for seed in range(61_000, 61_040):
        for world in (roomy_world(seed), *make_worlds(seed, 1)):
            explainer = rc.Explainer(
                world.forest, world.schema, Score(0.5), target=world.target, voting=world.voting
            )
            customer = explainer.customer(world.row)
            found = rc.reasons_of(explainer, world.row)
            if customer is None:
                assert found == ()
                continue
            expected = {k: v for k, v in gains_by_hand(world, customer.target).items() if v > 1e-9}
            assert {r.feature: r.gain for r in found} == pytest.approx(expected, abs=1e-9)
            assert [r.gain for r in found] == sorted((r.gain for r in found), reverse=True)
            fixed = {f.name for f in world.schema.features if f.action == "fixed"}
            assert not any(r.changeable for r in found if r.feature in fixed)
            checked += len(found)
    assert checked >= 80
