"""Gradient boosting of four libraries: brute force with the library's own code decides, as for forests."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

import robustcf as rc
from robustcf.forest.forest import Forest
from robustcf.schema.check import broken_across
from robustcf.schema.encode import encode
from robustcf.solve import get_engine
from tests.helpers.by_hand import candidates_of
from tests.helpers.worlds import MOST_POINTS, World, asked_of, points_of, world_parts

LIBRARIES = ("gradient", "hist", "xgboost", "lightgbm")
FAST, SLOW_BLOCKS, SLOW = 25, 4, 160  # models per library; three customers each
ENGINES = ("engine", "highs")


def small_model(rng: np.random.Generator, library: str) -> Any:
    n, seed = int(rng.integers(1, 8)), int(rng.integers(2**31))
    depth, rate = int(rng.integers(1, 4)), float(rng.choice([0.1, 0.5, 1.0]))
    if library == "gradient":
        loss = str(rng.choice(["log_loss", "exponential"]))
        init = None if rng.random() < 0.7 else "zero"
        return GradientBoostingClassifier(
            loss=loss, n_estimators=n, max_depth=depth, learning_rate=rate, random_state=seed, init=init
        )
    if library == "hist":
        return HistGradientBoostingClassifier(
            max_iter=n, max_depth=depth, learning_rate=rate, min_samples_leaf=3, random_state=seed
        )
    if library == "xgboost":
        base = None if rng.random() < 0.7 else float(rng.uniform(0.2, 0.8))
        return xgboost.XGBClassifier(
            n_estimators=n, max_depth=depth, learning_rate=rate, random_state=seed, base_score=base, n_jobs=1
        )
    return lightgbm.LGBMClassifier(
        n_estimators=n, num_leaves=int(rng.integers(2, 7)), learning_rate=rate, min_child_samples=3,
        sigmoid=float(rng.choice([1.0, 2.0])), random_state=seed, verbose=-1, n_jobs=1,
    )  # fmt: skip


def margins_by_library(model: Any, X: np.ndarray) -> np.ndarray:
    """The margin of the second class, by the library's own code."""
    if isinstance(model, xgboost.XGBClassifier):
        return model.predict(X, output_margin=True).astype(np.float64)
    if isinstance(model, lightgbm.LGBMClassifier):
        return model.predict(X, raw_score=True)
    return model.decision_function(X)


def boosted_worlds(seed: int, library: str, n: int = 3) -> list[tuple[World, Any]]:
    """Customers of one random small model; at most a few thousand points each."""
    rng = np.random.default_rng([seed, LIBRARIES.index(library)])
    while True:
        parts = world_parts(rng)
        if parts is None:
            continue
        schema, frame, X, y = parts
        X = X.copy()
        if library != "gradient" and rng.random() < 0.4:  # missing values teach a direction
            X[rng.random(X.shape) < 0.1] = np.nan
        model = small_model(rng, library)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        forest = Forest.from_sklearn(model)
        if (forest.left >= 0).any() and 3 <= points_of(schema, forest) <= MOST_POINTS:
            break
    worlds = []
    for _ in range(n):
        taus = tuple(float(t) for t in rng.choice([0.0, 0.55, 0.6, 0.7, 0.9], size=2, replace=False))
        world = asked_of(rng, schema, forest, frame, taus)
        if rng.random() < 0.5:
            decided = forest.decided_at(1, float(rng.choice([0.2, 0.3, 0.45, 0.7])))
            world = World(schema, decided, world.row, "soft", None, taus)
        worlds.append((world, model))
    return worlds


def check(world: World, model: Any, kinds: Counter[str]) -> None:
    forest, schema = world.forest, world.schema
    assert forest.boosting is not None
    numbers, costs = zip(*candidates_of(world), strict=True)
    points = np.stack([g.ravel() for g in np.meshgrid(*numbers, indexing="ij")], axis=1)
    cost = np.sum([c.ravel() for c in np.meshgrid(*costs, indexing="ij")], axis=0)
    if schema.has_rules:
        kept = [not broken_across(schema, world.numbers, p) for p in points]
        points, cost = points[kept], cost[kept]
    if not len(points):  # rules that no point keeps
        return
    X = encode(schema, points)
    margin, own_row = margins_by_library(model, X), encode(schema, world.numbers[None])
    assert forest.boosting.margins(forest.probabilities[:, 1][forest.leaves(X)]) == pytest.approx(
        margin, abs=forest.margin_rounding
    )
    surely = np.abs(margin - forest.boosting.margin(forest.cutoff(1).score)) > 1e-6
    favourable = model.predict_proba(X)[:, 1] >= forest.cutoff(1).score
    assert np.array_equal(forest.predict(X)[surely], favourable[surely].astype(int))
    own = int(forest.predict(own_row)[0])
    target = 1 - own
    cut = forest.cutoff(target).score
    signed = margin if target == 1 else -margin
    methods = [rc.Margin(tau) if tau else rc.Naive() for tau in world.taus]
    explainer = rc.Explainer(forest, schema, methods)
    for solver in ENGINES:
        explainer.engine = get_engine(solver)
        explainer._best.clear()
        for tau, answer in zip(world.taus, explainer.explain_grid(world.row), strict=True):
            assert answer.target == forest.classes[target]
            score = max(tau, cut)
            band = forest.boosting.band(score, forest.margin_rounding)
            excess = signed - forest.boosting.margin(score) - band
            if (np.abs(excess) <= 3 * forest.margin_rounding + 1e-11).any():
                kinds["within rounding"] += 1  # nothing is claimed there
                continue
            kinds[answer.status] += 1
            if not (excess > 0).any():
                assert answer.status == "no_recourse", answer
                best = forest.boosting.scores(np.array([signed.max()]))[0, 1]
                assert answer.best_score == pytest.approx(best, abs=3 * forest.score_rounding + 1e-9)
                continue
            assert answer.status == "optimal", answer
            assert answer.verified
            assert answer.distance == pytest.approx(float(cost[excess > 0].min()), abs=1e-8)
            assert model.predict_proba(answer.encoded[None])[0, target] >= score


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small models are slower on several threads."""
    with threadpool_limits(1):
        yield


def check_many(seeds: range, library: str) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for seed in seeds:
        for i, (world, model) in enumerate(boosted_worlds(seed, library)):
            try:
                check(world, model, kinds)
            except Exception as error:
                error.add_note(f"boosted_worlds({seed}, {library!r})[{i}]")
                raise
    return kinds


@pytest.mark.parametrize("library", LIBRARIES)
def test_small_models_agree_with_brute_force(library: str) -> None:
    kinds = check_many(range(FAST), library)
    assert min(kinds["optimal"], kinds["no_recourse"]) > FAST // 2, kinds
    assert kinds["within rounding"] < sum(kinds.values()) // 4, kinds


@pytest.mark.slow
@pytest.mark.parametrize("block", range(SLOW_BLOCKS))
@pytest.mark.parametrize("library", LIBRARIES)
def test_many_small_models_agree_with_brute_force(library: str, block: int) -> None:
    kinds = check_many(range(10**6 + block * SLOW, 10**6 + (block + 1) * SLOW), library)
    assert kinds["optimal"] + kinds["no_recourse"] > 2 * SLOW, kinds
