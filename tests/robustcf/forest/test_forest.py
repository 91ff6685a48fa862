"""`Forest` against scikit-learn itself, to the last bit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import robustcf as rc
from robustcf import Forest, ForestError, load_forest, save_forest
from tests.helpers.worlds import remade, scores_by_model

LABELS = {
    "int": [0, 1],
    "other int": [-4, 9],
    "str": ["no", "yes"],
    "bool": [False, True],
    "float": [1.0, 2.0],
    "three": ["a", "b", "c"],
    "five": [1, 2, 3, 5, 8],
}
MODELS = {
    "forest": lambda: RandomForestClassifier(25, max_depth=5, random_state=1),
    "deep forest": lambda: RandomForestClassifier(9, random_state=1, class_weight="balanced"),
    "extra trees": lambda: ExtraTreesClassifier(25, max_depth=5, random_state=1, bootstrap=True),
    "stumps": lambda: RandomForestClassifier(30, max_depth=1, random_state=1),
    "one tree": lambda: DecisionTreeClassifier(max_depth=4, random_state=1),
    "bagging": lambda: BaggingClassifier(DecisionTreeClassifier(max_depth=4), 15, random_state=1),
    "default bagging": lambda: BaggingClassifier(n_estimators=5, random_state=1),
    "subsets": lambda: BaggingClassifier(
        DecisionTreeClassifier(max_depth=4), 15, max_features=0.5, bootstrap_features=True, random_state=1
    ),
    "members that miss classes": lambda: BaggingClassifier(
        DecisionTreeClassifier(max_depth=4), 15, max_samples=3, max_features=2, random_state=1
    ),
    "log loss": lambda: RandomForestClassifier(10, criterion="log_loss", max_depth=3, random_state=1),
}


def data(labels: list[Any], n: int = 150, d: int = 4, missing: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((n, d)).round(2)
    value = X @ rng.normal(size=d) + rng.normal(scale=0.2, size=n)
    codes = np.searchsorted(np.quantile(value, np.linspace(0, 1, len(labels) + 1)[1:-1]), value)
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    return X, np.array(labels)[codes]


def hostile_rows(forest: Forest, X: np.ndarray) -> np.ndarray:
    """Values that lie on thresholds, and on the floats and doubles next to them."""
    rng = np.random.default_rng(7)
    inner = (forest.left >= 0) & np.isfinite(forest.threshold)  # infinite: "is it missing?"
    t = forest.threshold[inner]
    f32 = t.astype(np.float32)
    around = [t, np.nextafter(t, 9), np.nextafter(t, -9), f32, np.nextafter(f32, np.float32(9))]
    around += [np.nextafter(f32, np.float32(-9)), t + 1e-8, t - 1e-8]
    rows = X[rng.integers(len(X), size=len(t) * len(around))].copy()
    rows[np.arange(len(rows)), np.tile(forest.feature[inner], len(around))] = np.concatenate(around)
    return np.vstack([X, rows, rng.normal(scale=1e6, size=(50, X.shape[1]))])


CASES = [(model, labels, False) for model in ("forest", "members that miss classes") for labels in LABELS]
CASES += [(model, labels, True) for model in MODELS for labels in ("int", "three")]


@pytest.mark.parametrize(("model", "labels", "missing"), CASES)
def test_scores_and_predictions_are_scikit_learns_bit_for_bit(model: Any, labels: Any, missing: bool) -> None:
    labels = LABELS[labels]
    X, y = data(labels, missing=missing)
    model = MODELS[model]().fit(X, y)
    forest = Forest.from_sklearn(model)
    assert forest.classes == tuple(labels)
    assert [type(c) for c in forest.classes] == [type(c) for c in labels]
    assert forest.accepts_missing
    rows = hostile_rows(forest, X)
    if not missing:  # trained without missing values, asked with some
        rows = np.vstack([rows, np.where(np.random.default_rng(3).random(X.shape) < 0.3, np.nan, X)])
    proba = model.predict_proba(rows)
    rebuilt = remade(forest)
    assert rebuilt.judge is not model
    assert np.array_equal(forest.predict_proba(rows), proba)
    assert np.array_equal(rebuilt.judge.predict_proba(rows), proba)
    assert np.array_equal(np.array(forest.classes)[forest.predict(rows)], model.predict(rows))
    assert np.array_equal(rebuilt.judge.predict(rows), model.predict(rows))
    hard = scores_by_model(model, rows, "hard")
    for c, label in enumerate(labels):
        assert np.array_equal(forest.score(rows, label), proba[:, c])
        assert np.allclose(forest.score(rows, label, "hard"), hard[:, c], rtol=0, atol=1e-15)
        for f in (forest, rebuilt):
            score, predicted = f.judged_score(rows, label)
            assert np.array_equal(score, proba[:, c])
            assert np.array_equal(model.classes_[predicted], model.predict(rows))
            score, predicted = f.judged_score(rows, label, "hard")
            assert np.allclose(score, hard[:, c], rtol=0, atol=1e-15)
            assert np.array_equal(predicted, forest.predict(rows, "hard"))
    assert np.array_equal(forest.predict(rows, "hard"), hard.argmax(axis=1))


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_a_model_trained_on_a_frame_is_judged_without_a_warning(make: Any, voting: Any) -> None:
    X, y = data(["no", "yes"])
    schema = rc.Schema(
        tuple(rc.Feature(f"f{i}", "continuous", low=0, high=1, scaling="none") for i in range(4))
    )
    frame = pd.DataFrame(X, columns=list(schema.names))
    model = make().fit(frame, y)
    assert list(model.feature_names_in_) == list(schema.names)
    answers = rc.Explainer(Forest.from_sklearn(model), schema, voting=voting, solver="highs").explain_many(
        frame[:3]
    )
    assert all(a.status == "no_recourse" or a.verified for a in answers)
    assert {a.status for a in answers} <= {"optimal", "no_recourse"}


def test_monotonic_trees_take_no_missing_values() -> None:
    X, y = data([0, 1])
    model = RandomForestClassifier(5, max_depth=3, monotonic_cst=[1, 0, 0, 0], random_state=0).fit(X, y)
    forest = Forest.from_sklearn(model)
    X[0, 0] = np.nan
    try:
        expected = model.predict_proba(X)
    except ValueError:
        assert not forest.accepts_missing
    else:
        assert forest.accepts_missing
        assert np.array_equal(forest.predict_proba(X), expected)


# ----------------------------------------------------------------------------- fingerprint


def small(labels: list[Any] | None = None) -> Forest:
    return Forest.from_sklearn(MODELS["forest"]().fit(*data(labels or ["no", "yes"])))


def test_the_fingerprint_outlives_pickle_and_disk(tmp_path: Path) -> None:
    forest = small()
    again = pickle.loads(pickle.dumps(forest))
    save_forest(forest, tmp_path)
    assert again.fingerprint == forest.fingerprint == load_forest(tmp_path).fingerprint == small().fingerprint
    assert again == forest
    assert hash(again) == hash(forest)
    X, _ = data(["no", "yes"])
    assert np.array_equal(again.judge.predict_proba(X), forest.judge.predict_proba(X))


def test_a_pickle_carries_no_model() -> None:
    forest = small()
    assert "judge" in forest.__dict__
    assert b"RandomForest" not in pickle.dumps(remade(forest))
    assert "judge" not in pickle.loads(pickle.dumps(forest)).__dict__


def test_the_fingerprint_changes_with_anything_that_decides() -> None:
    forest = small()
    leaf, inner = int(np.flatnonzero(forest.left < 0)[0]), int(np.flatnonzero(forest.left >= 0)[0])
    p, t, m = forest.probabilities.copy(), forest.threshold.copy(), forest.missing_left.copy()
    p[leaf] = p[leaf][::-1] if p[leaf, 0] != p[leaf, 1] else [0.25, 0.75]
    t[inner] = np.nextafter(t[inner], np.inf)
    m[inner] = ~m[inner]
    others = [remade(forest, probabilities=p), remade(forest, threshold=t), remade(forest, missing_left=m)]
    others += [small([0, 1]), small([False, True]), small([0.0, 1.0]), small(["0", "1"])]
    prints = {f.fingerprint for f in [forest, *others]}
    assert len(prints) == len(others) + 1
    assert remade(forest).fingerprint == forest.fingerprint


def test_arrays_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        small().threshold[0] = 3.0


def test_scores_of_wrong_rows_and_unknown_classes_are_refused() -> None:
    with pytest.raises(ForestError, match="takes 4 columns"):
        small().score(np.zeros((2, 3)), "yes")
    with pytest.raises(ForestError, match=r"'maybe'.*'no', 'yes'"):
        small().class_index("maybe")
    with pytest.raises(ForestError, match="no class '0'"):
        small([0, 1]).class_index("0")


# --------------------------------------------------------------------------- not explained


class Odd:
    """Not a model at all."""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Odd(), "cannot explain a Odd"),
        (None, "cannot explain a NoneType"),
        (RandomForestClassifier(), "not fitted"),
        (ExtraTreesClassifier(), "not fitted"),
        (BaggingClassifier(), "not fitted"),
        (DecisionTreeClassifier(), "not fitted"),
        (RandomForestRegressor(2).fit([[0.0], [1.0]], [0.0, 1.0]), "cannot explain a RandomForestRegressor"),
        (
            AdaBoostClassifier(n_estimators=2).fit([[0.0], [1.0]], [0, 1]),
            "AdaBoostClassifier",
        ),
        (
            BaggingClassifier(LogisticRegression(), 2).fit([[0.0], [1.0]] * 9, [0, 1] * 9),
            "LogisticRegression",
        ),
        (RandomForestClassifier(2).fit([[0.0], [1.0]], [[0, 1], [1, 0]]), "several outputs"),
        (DecisionTreeClassifier().fit([[0.0], [1.0]], [[0, 1], [1, 0]]), "several outputs"),
        (RandomForestClassifier(2).fit([[0.0], [1.0]], ["only", "only"]), "only the class 'only'"),
        (BaggingClassifier(n_estimators=2).fit([[0.0], [1.0]], [3, 3]), "only the class 3"),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_what_cannot_be_explained_is_one_clear_error(model: Any, message: str) -> None:
    with pytest.raises(ForestError, match=message) as caught:
        Forest.from_sklearn(model)
    assert "\n" not in str(caught.value)
