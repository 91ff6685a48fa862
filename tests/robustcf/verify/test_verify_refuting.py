"""Claims that are true withstand HiGHS and the attack; claims that are false do not."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import robustcf as rc
from robustcf.schema.encode import read_rows
from robustcf.verify import Demand, ShardQuestion, Trees
from robustcf.verify.attack import attack, donors
from robustcf.verify.claims import Claim, judge
from robustcf.verify.demands import needed_score
from robustcf.verify.full import resolve
from robustcf.verify.sample import least_share_found, missed, sample_size
from tests.helpers.worlds import World, make_worlds

METHODS: list[Any] = [
    rc.Naive(),
    rc.DirectSAA(0.3),
    rc.DirectSAA(0.05),
    rc.RobustSAA(0.3, 0.5),
    rc.ConvexApproximation(0.05),
]


def asked_of(world: World, methods: list[Any]) -> ShardQuestion:
    demands = [Demand(m.name, m.alpha, m.beta, m.parameter, m.voting or world.voting) for m in methods]
    return ShardQuestion(world.schema, Trees(world.forest), demands, world.voting, None, {})


def claims_of(world: World) -> tuple[ShardQuestion, list[tuple[Claim, rc.Counterfactual]]]:
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
        for world in make_worlds(seed, cutoffs=True):
            asked, claims = claims_of(world)
            for claim, cf in claims:
                honest = resolve(asked, claim, world.numbers, 20.0)
                assert honest.outcome == "confirmed", (seed, claim, honest)
                seen[claim.status] += 1
                if claim.status != "optimal":
                    continue
                point = numbers_at(world, cf)
                found = judge(asked, claim, world.numbers[None], point[None])
                bar = asked.trees.bar(claim.target)
                need = needed_score(asked.demands[claim.method], len(world.forest), bar)
                if asked.demands[claim.method].voting == "soft" and found.score[0] < need + 1e-6:
                    seen["blurred"] += 1  # within rounding of the demand: no witness, whatever is claimed
                    continue
                assert found.good[0]
                denied = resolve(
                    asked, replace(claim, status="no_recourse", least=math.inf), world.numbers, 20.0
                )
                assert denied.outcome == "refuted", (seed, claim)
                if claim.least > 10 * found.blur[0]:
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


def test_an_attack_refutes_planted_claims_and_no_true_one() -> None:
    """Customers of one forest, each attacked with the answers of all."""
    planted = pairs = 0
    for seed in range(25):
        worlds = [w for w in make_worlds(seed, 5, rules=False) if w.voting == "soft"]
        same = [w for w in worlds if w.schema.fingerprint == worlds[0].schema.fingerprint]
        if not same:
            continue
        asked, claims, own, points, starts = asked_of(same[0], METHODS), [], [], [], []
        for world in same:
            for claim, cf in claims_of(world)[1]:
                claims.append(claim)
                own.append(world.numbers)
                if cf.point is not None:
                    points.append(numbers_at(world, cf))
                    starts.append(world.numbers)
        if not points:
            continue
        given = donors(np.array(starts), np.array(points))
        hits, tried = attack(asked, claims, np.array(own), given)
        assert hits == []
        pairs += tried
        farther = [replace(c, least=1.5 * c.least) for c in claims]
        planted += len(attack(asked, farther, np.array(own), given)[0])
        denied = [replace(c, status="no_recourse", least=math.inf) for c in claims if c.status == "optimal"]
        theirs = [o for o, c in zip(own, claims, strict=True) if c.status == "optimal"]
        refuted = attack(asked, denied, np.array(theirs), given)[0] if denied else []
        assert len(refuted) >= 0.5 * len(denied)
    assert planted > 20
    assert pairs > 500


def test_a_point_within_the_grain_of_float32_refutes_nothing() -> None:
    """Answers end on float32 numbers; amounts far from 0 have coarse ones."""
    schema = rc.Schema((rc.Feature("x", "continuous", low=1e7, high=1.01e7, scaling="none"),))
    found = judge_of(schema, 1e7 + 50_000.0, 1e7 + 51_000.0)
    assert found.refutes(found.objective[0] * (1 + 2e-6))[0] == (found.blur[0] < 1.9e-6 * found.objective[0])
    assert found.blur[0] > 1e-6 * found.objective[0]


def judge_of(schema: rc.Schema, own: float, point: float) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    model = DecisionTreeClassifier().fit([[own], [point]], [0, 1])
    forest = rc.Forest.from_sklearn(model)
    asked = ShardQuestion(
        schema, Trees(forest), [Demand("naive", None, None, None, "soft")], "soft", None, {}
    )
    return judge(asked, Claim("", "", 0, 1, "optimal", math.inf), np.array([[own]]), np.array([[point]]))


@pytest.mark.parametrize(("claims", "size"), [(10**6, 299), (1000, 258), (100, 95), (20, 19)])
def test_the_sample_finds_one_percent_of_forged_claims(claims: int, size: int) -> None:
    assert sample_size(claims) == size
    forged = max(1, math.ceil(claims / 100))
    assert missed(claims, forged, size) <= 0.05 + 1e-9 < missed(claims, forged, size - 1)
    assert least_share_found(claims, size) <= forged / claims
    rng = np.random.default_rng(0)
    drawn = [rng.hypergeometric(forged, claims - forged, size) > 0 for _ in range(4000)]
    assert np.mean(drawn) > 0.93
