"""Gradient boosting of four libraries: brute force with the library's own code decides, as for forests."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
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


def fitted(model: Any, **more: Any) -> tuple[rc.datasets.Dataset, Any]:
    data = rc.datasets.synthetic_credit(300, seed=0)
    return data, model.fit(data.encode(data.X), data.y, **more)


def test_xgboost_margins_have_the_bits_of_its_float32_sums() -> None:
    """Rows at the splits and missing values too: `<`, the default direction, and the order of the sum."""
    _, model = fitted(xgboost.XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1))
    forest = Forest.from_sklearn(model)
    rng = np.random.default_rng(0)
    splits = np.unique(forest.threshold[forest.left >= 0])
    X = splits[rng.integers(len(splits), size=(4000, forest.n_features))]
    X[rng.random(X.shape) < 0.5] += rng.choice([1e-8, 1e-3, -1e-3])
    X[rng.random(X.shape) < 0.1] = np.nan
    ours = forest.boosting.margins(forest.probabilities[:, 1][forest.leaves(X)])
    assert np.array_equal(ours, model.predict(X, output_margin=True).astype(np.float64))


@pytest.mark.parametrize("library", ["hist", "lightgbm"])
def test_float64_splits_tell_numbers_apart_that_are_one_float32(library: str) -> None:
    """Two neighbouring float64 numbers on both sides of a split are decided by it, unlike in a forest."""
    rng = np.random.default_rng(0)
    x = 1.0 + np.arange(200)[rng.permutation(200)] * 2.0**-40
    y = (x > np.median(x)).astype(int)
    model = small_model(rng, library).set_params(learning_rate=1.0).fit(x[:, None], y)
    forest = Forest.from_sklearn(model)
    assert forest.wide
    split = forest.threshold[forest.left >= 0][0]
    sides = np.array([[split], [np.nextafter(split, np.inf)]])
    assert np.float32(sides[0, 0]) == np.float32(sides[1, 0])
    assert np.ptp(forest.predict_proba(sides)[:, 1]) > 0
    assert forest.predict_proba(sides) == pytest.approx(model.predict_proba(sides), abs=1e-15)
    schema = rc.Schema((rc.Feature("x", "continuous", low=1.0, high=2.0, scaling="none"),))
    answer = rc.Explainer(forest, schema, target=1).explain({"x": float(x.min())})
    assert answer.status == "optimal"
    assert answer.point["x"] == np.nextafter(split, np.inf)


def test_early_stopping_uses_the_trees_that_predict_uses() -> None:
    data = rc.datasets.synthetic_credit(300, seed=0)
    X = data.encode(data.X)
    held = X[200:], data.y[200:]
    stopping = {"n_estimators": 200, "early_stopping_rounds": 3, "n_jobs": 1}
    for model, more in (
        (xgboost.XGBClassifier(**stopping), {"verbose": False, "eval_set": [held]}),
        (lightgbm.LGBMClassifier(**stopping, verbose=-1), {"eval_X": held[0], "eval_y": held[1]}),
    ):
        model.fit(X[:200], data.y[:200], **more)
        forest = Forest.from_sklearn(model)
        assert len(forest) < 200
        assert forest.predict_proba(X) == pytest.approx(model.predict_proba(X), abs=2 * forest.score_rounding)


def test_a_cutoff_and_refits_of_a_boosted_model() -> None:
    data, model = fitted(lightgbm.LGBMClassifier(n_estimators=20, num_leaves=5, verbose=-1, n_jobs=1))
    forest, X = Forest.from_sklearn(model), data.encode(data.X)
    explainer = rc.Explainer(forest, data.schema, [rc.Naive(), rc.Margin(0.8)], target=1, cutoff=0.7)
    answers = [a for a in explainer.explain_many(data.X.iloc[:40]) if a.status == "optimal"]
    assert answers
    scores = model.predict_proba(np.array([a.encoded for a in answers]))[:, 1]
    wanted = [0.7 if a.method.name == "naive" else 0.8 for a in answers]
    assert (scores >= wanted).all()
    drawn = np.random.default_rng(1).integers(len(X), size=len(X))
    again = rc.validate.retrain(forest.decided_at(1, 0.7), X[drawn], data.y[drawn], seed=3)
    assert again.decision == forest.decided_at(1, 0.7).decision
    assert again.fingerprint != forest.decided_at(1, 0.7).fingerprint
    assert rc.predicted_validity(forest, X[:2], 1).estimate == pytest.approx(np.nan, nan_ok=True)
    with pytest.raises(rc.ForestError, match="is the same model after each training"):
        rc.validate.check_scenario(forest, "same-data")
    rc.validate.check_scenario(forest, "bootstrap")


def test_methods_for_independent_trees_are_refused_with_the_reason() -> None:
    data, model = fitted(GradientBoostingClassifier(n_estimators=3))
    forest = Forest.from_sklearn(model)
    for method in (
        rc.DirectSAA(0.1), rc.RobustSAA(0.1, 0.1), rc.ConvexApproximation(0.1), rc.Certified(0.1),
        rc.IsolationForest(0.1, rc.DirectSAA(0.1)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="trained independently"):
            rc.Explainer(forest, data.schema, method, target=1)
    with pytest.raises(ValueError, match="have no votes"):
        rc.Explainer(forest, data.schema, rc.Naive(), target=1, voting="hard")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (GradientBoostingClassifier(n_estimators=2), "3 classes; boosting is supported for two"),
        (
            GradientBoostingClassifier(n_estimators=2, init=LogisticRegression()),
            "starts from a LogisticRegression",
        ),
        (xgboost.XGBClassifier(n_estimators=2, booster="dart"), "booster='dart' is not supported"),
        (xgboost.XGBClassifier(n_estimators=2, objective="binary:hinge"), "only 'binary:logistic'"),
        (xgboost.XGBClassifier(n_estimators=2, missing=0.0), "only NaN"),
        (lightgbm.LGBMClassifier(n_estimators=2, zero_as_missing=True, verbose=-1), "use NaN for missing"),
        (xgboost.XGBClassifier(), "is not fitted"),
        (lightgbm.LGBMClassifier(), "is not fitted"),
        (HistGradientBoostingClassifier(), "is not fitted"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(model: Any, words: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2)) * (rng.random((90, 2)) < 0.7)
    if "fitted" not in words:
        model.fit(X, np.arange(90) % 3 if "3 classes" in words else X[:, 0] > 0)
    with pytest.raises(rc.ForestError, match=words) as told:
        Forest.from_sklearn(model)
    assert "\n" not in str(told.value)


def test_an_altered_folder_of_a_boosted_model_is_refused(tmp_path: Path) -> None:
    _, model = fitted(xgboost.XGBClassifier(n_estimators=3, n_jobs=1))
    forest = Forest.from_sklearn(model)
    rc.save_forest(forest, tmp_path)
    assert rc.load_forest(tmp_path) == forest
    head = json.loads((tmp_path / "forest.json").read_text())
    for wrong in ({"base": 0.0}, {**head["boosting"], "scale": "1"}, {**head["boosting"], "scale": -1.0}):
        (tmp_path / "forest.json").write_text(json.dumps({**head, "boosting": wrong}))
        with pytest.raises(rc.ForestError, match="boost"):
            rc.load_forest(tmp_path)
    (tmp_path / "forest.json").write_text(json.dumps({**head, "boosting": {**head["boosting"], "base": 9.0}}))
    with pytest.raises(rc.ForestError, match="fingerprint"):
        rc.load_forest(tmp_path)
