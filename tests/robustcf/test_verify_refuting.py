"""Claims that are true withstand HiGHS and the attack; claims that are false do not."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import robustcf as rc
from robustcf.encode import read_rows
from robustcf.verify import Asked, Demand, Trees
from robustcf.verify.claims import Claim, judge, needed_score
from robustcf.verify.full import resolve
from tests.worlds import World, make_worlds

METHODS: list[Any] = [
    rc.Naive(),
    rc.DirectSAA(0.3),
    rc.DirectSAA(0.05),
    rc.RobustSAA(0.3, 0.5),
    rc.ConvexApproximation(0.05),
]


def asked_of(world: World, methods: list[Any]) -> Asked:
    demands = [
        Demand(m.name, m.alpha, m.beta, m.parameter, getattr(m, "voting", world.voting)) for m in methods
    ]
    return Asked(world.schema, Trees(world.forest), demands, world.voting, None, {})


def claims_of(world: World) -> tuple[Asked, list[tuple[Claim, rc.Counterfactual]]]:
    """The answers of the library to one customer, as claims."""
    asked = asked_of(world, METHODS)
    explainer = rc.Explainer(
        world.forest, world.schema, METHODS, target=world.target, voting=world.voting, solver="engine"
    )
    found = []
    for d, cf in enumerate(explainer.explain_grid(world.row)):
        if cf.status in ("optimal", "no_recourse"):
            least = cf.objective if cf.status == "optimal" else math.inf
            target = world.forest.class_index(cf.target)
            found.append((Claim(f"method {d}", "x", d, target, cf.status, least), cf))
    return asked, found


def numbers_at(world: World, cf: rc.Counterfactual) -> np.ndarray:
    return read_rows(world.schema, cf.point, missing=True).numbers[0]


def check_claims(seeds: range) -> Counter[str]:
    """True claims are confirmed, and made false they are refuted."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        for world in make_worlds(seed):
            asked, claims = claims_of(world)
            for claim, cf in claims:
                honest = resolve(asked, claim, world.numbers, 20.0)
                assert honest.outcome == "confirmed", (seed, claim, honest)
                seen[claim.status] += 1
                if claim.status != "optimal":
                    continue
                point = numbers_at(world, cf)
                found = judge(asked, claim.method, claim.target, world.numbers[None], point[None], True)
                need = needed_score(asked.demands[claim.method], len(world.forest), claim.target)
                if asked.demands[claim.method].voting == "soft" and found.score[0] < need + 1e-6:
                    seen["blurred"] += 1  # within rounding of the demand: no witness, whatever is claimed
                    continue
                assert found.good[0]
                denied = resolve(
                    asked, replace(claim, status="no_recourse", least=math.inf), world.numbers, 20.0
                )
                assert denied.outcome == "refuted", (seed, claim)
                if claim.least > 0:
                    farther = resolve(asked, replace(claim, least=1.2 * claim.least), world.numbers, 20.0)
                    assert farther.outcome == "refuted", (seed, claim)
                    assert farther.objective < 1.2 * claim.least
                seen["forged"] += 1
    return seen


def test_resolving_confirms_what_is_true_and_refutes_what_is_false() -> None:
    seen = check_claims(range(40))
    assert seen["optimal"] > 60
    assert seen["no_recourse"] > 30
    assert seen["forged"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_resolving_is_right_on_many(block: int) -> None:
    seen = check_claims(range(1000 + 200 * block, 1200 + 200 * block))
    assert seen["forged"] > 300
