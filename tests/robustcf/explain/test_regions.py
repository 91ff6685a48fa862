"""Regions around answers, against brute force: sound, tight, and as long as they can be."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import robustcf as rc
from robustcf.schema.encode import encode
from tests.helpers.by_hand import Everything, candidates_of
from tests.helpers.worlds import Score, World, make_worlds, roomy_world, scores_by_model


def _scores(world: World, target: object, axes: list[np.ndarray]) -> np.ndarray:
    points = np.array(list(product(*axes)))
    scores = scores_by_model(world.forest.judge, encode(world.schema, points), world.voting)
    return scores[:, world.forest.classes.index(target)]


def _reach(world: World, target: object, scores: np.ndarray, tau: float) -> np.ndarray:
    empty = np.zeros((len(scores), len(world.schema)))
    return Everything(world.own, target, empty, np.zeros(len(scores)), scores).reaching(world, tau)


def check(world: World, rng: np.random.Generator) -> Counter[str]:
    tau = world.taus[0]
    explainer = rc.Explainer(
        world.forest, world.schema, Score(tau), target=world.target, voting=world.voting, best_score=False
    )
    kinds: Counter[str] = Counter()
    free = replace(world, schema=replace(world.schema, links=(), max_changes=None))
    candidates = candidates_of(free)
    for cf in explainer.alternatives(world.row, 2):
        if not cf.works:
            continue
        region = rc.region_of(explainer, world.row, cf)
        assert region is not None
        axes = _axes(free, region, cf, candidates, rng)
        scores = _scores(world, cf.target, axes)
        assert _reach(world, cf.target, scores, tau).all(), (region, cf)
        assert scores.min() >= region.worst_score - 1e-9
        for side in region.sides:
            j = world.schema.names.index(side.feature)
            if side.end is None or side.direction == "none":
                continue
            kinds["ends"] += 1
            sign = 1 if side.direction == "up" else -1
            last = world.schema[side.feature].number(side.end)
            beyond = [x for x in candidates[j][0] if sign * x > sign * last]
            nearest = min(beyond, key=lambda x: sign * x)
            longer = [np.append(axis, nearest) if k == j else axis for k, axis in enumerate(axes)]
            assert not _reach(world, cf.target, _scores(world, cf.target, longer), tau).all()
        exact = _scores(world, cf.target, axes).min()
        assert region.worst_score == pytest.approx(exact, abs=1e-9)
        kinds["regions"] += 1
        kinds["safe"] += int(region.overshoot_is_safe)
    return kinds


def _axes(
    world: World,
    region: rc.Region,
    cf: rc.Counterfactual,
    candidates: list[tuple[np.ndarray, np.ndarray]],
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Per feature, the values of the region: one of each kind that the model sees, and random ones."""
    axes = [np.array([number]) for number in world.numbers]
    for side in region.sides:
        feature, j = world.schema[side.feature], world.schema.names.index(side.feature)
        first = feature.number(side.value)
        sign = 1 if side.direction == "up" else -1
        last = sign * math.inf if side.end is None else feature.number(side.end)
        numbers = candidates[j][0]
        inside = numbers[(sign * numbers >= sign * first) & (sign * numbers <= sign * last)]
        if side.direction == "none":
            inside = np.array([], dtype=float)
        some = [first] if math.isinf(last) else [first, last]
        if feature.kind == "continuous" and not math.isinf(last):
            some += [first + (last - first) * share for share in rng.random(2)]
        axes[j] = np.unique(np.concatenate([inside, some]))
    return axes


def check_block(first: int, n: int) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for seed in range(first, first + n):
        for i, world in enumerate([roomy_world(seed), *make_worlds(seed, cutoffs=True)]):
            try:
                kinds += check(world, np.random.default_rng([seed, i]))
            except Exception as error:
                error.add_note(f"seed {seed}, world {i}")
                raise
    return kinds


def test_regions_agree_with_brute_force() -> None:
    kinds = check_block(51_000, 36)
    assert kinds["regions"] >= 50, kinds
    assert kinds["safe"] >= 10, kinds
    assert kinds["ends"] >= 2, kinds


@pytest.mark.slow
def test_regions_agree_with_brute_force_on_many() -> None:
    kinds = check_block(52_000, 600)
    assert kinds["regions"] >= 1000, kinds
    assert kinds["ends"] >= 50, kinds
