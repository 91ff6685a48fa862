"""The search at the levels against brute force: pool score and explained forest together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from robustcf.forest.forest import Forest
from robustcf.forest.join import join_forests
from robustcf.methods.certified.ladder import Ladder, Pool
from robustcf.methods.family import Customer, Tools
from robustcf.methods.threshold_family import Thresholds
from robustcf.schema.check import distance
from robustcf.schema.encode import encode
from robustcf.solve import Limits, get_engine
from tests.helpers.by_hand import candidates_of, keeping_rules, reaches
from tests.helpers.worlds import World, make_worlds, scores_by_model


def divided(forest: Forest) -> tuple[Forest, Forest]:
    """Return a forest's first trees, and its others."""
    n = max(1, len(forest) // 3)
    return _trees(forest, 0, n), _trees(forest, n, len(forest))


def _trees(forest: Forest, first: int, end: int) -> Forest:
    a, b = int(forest.tree_start[first]), int(forest.tree_start[end])

    def shifted(nodes: np.ndarray) -> np.ndarray:
        return np.where(nodes >= 0, nodes - a, nodes)

    return Forest(
        tree_start=forest.tree_start[first : end + 1] - a,
        left=shifted(forest.left[a:b]),
        right=shifted(forest.right[a:b]),
        feature=forest.feature[a:b],
        threshold=forest.threshold[a:b],
        missing_left=forest.missing_left[a:b],
        probabilities=forest.probabilities[a:b],
        classes=forest.classes,
        n_features=forest.n_features,
        accepts_missing=forest.accepts_missing,
    )


def check(world: World) -> Counter[str]:
    """Compare the nearest points at three levels, in an order that is not sorted."""
    seen: Counter[str] = Counter()
    if len(world.forest) < 2:
        return seen
    explained, fresh = divided(world.forest)
    joined = join_forests([explained, fresh])
    assert joined == world.forest  # the same trees in the same order
    numbers, schema, voting = world.numbers, world.schema, world.voting
    encoded = encode(schema, numbers[None, :])[0]
    target = world.target if world.target is not None else next(c for c in joined.classes if c != world.own)
    c = joined.classes.index(target)
    candidates = candidates_of(world)
    points = np.stack([g.ravel() for g in np.meshgrid(*[n for n, _ in candidates], indexing="ij")], axis=1)
    points = points[keeping_rules(world, points)]
    if not len(points):
        return seen
    cost = np.array([distance(schema, numbers, p) for p in points])
    scores = [scores_by_model(f.judge, encode(schema, points), voting)[:, c] for f in (joined, explained)]
    accepted = reaches(scores[1], 0.5, len(explained), voting, c == 0)
    tools = Tools(get_engine("auto"), Limits(60.0))
    pool = Pool(Thresholds(explained, schema, voting), Thresholds(joined, schema, voting))
    ladder = Ladder(pool, Customer(numbers, encoded, target), tools)
    for level in (0.6, 0.5, 0.8):
        answer = ladder.at(level)
        in_pool = reaches(scores[0], level, len(joined), voting, c == 0)
        ok = accepted & in_pool
        seen[answer.status] += 1
        if not ok.any():
            assert answer.status == "no_recourse"
            continue
        assert answer.status == "optimal"
        assert answer.objective == pytest.approx(cost[ok].min(), rel=1e-9, abs=1e-12)
        seen["explained forest binds"] += bool(cost[ok].min() > cost[in_pool].min())
    return seen


def check_many(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        for i, world in enumerate(make_worlds(seed)):
            try:
                seen += check(replace(world))
            except Exception as error:
                error.add_note(f"make_worlds({seed})[{i}]")
                raise
    return seen


def test_levels_agree_with_brute_force() -> None:
    seen = check_many(range(80))
    assert min(seen["optimal"], seen["no_recourse"]) >= 100, seen
    assert seen["explained forest binds"] >= 5, seen


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_levels_agree_with_brute_force_on_many(block: int) -> None:
    assert check_many(range(10**6 + 500 * block, 10**6 + 500 * (block + 1)))["optimal"] >= 1000
