"""The key of an answer: every setting that can change the answer changes the key."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

import robustcf as rc
from robustcf.methods.answer_key import answer_key, training_digest

FACTS: dict[str, Any] = {
    "forest": "forest",
    "schema": "schema",
    "target": 1,
    "voting": "soft",
    "solver": "auto",
    "seed": 0,
    "training": "rows",
    "versions": {"robustcf": "1", "numpy": "2", "scikit-learn": "1"},
}
OTHER: dict[str, Any] = {
    "forest": "another",
    "schema": "another",
    "target": "1",
    "voting": "hard",
    "solver": "highs",
    "versions": {"robustcf": "2", "numpy": "2", "scikit-learn": "1"},
}
METHODS: list[rc.Method] = [
    rc.Naive(),
    rc.DirectSAA(0.1),
    rc.RobustSAA(0.1, 0.1),
    rc.ConvexApproximation(0.1),
    rc.IsolationForest(0.1),
    rc.LocalOutlierFactor(0.1),
    rc.RobX(0.5),
]
# Another value for every field of every method; a field without one fails the test below.
VALUES: dict[str, Any] = {
    "alpha": 0.2,
    "beta": 0.2,
    "variant": "one-sided",
    "delta": 0.1,
    "contamination": 0.2,
    "method": rc.DirectSAA(0.1),
    "n_trees": 60,
    "weight": 0.2,
    "neighbours": 7,
    "gap": 0.1,
    "tau": 0.7,
    "k": 500,
    "sigma": 0.2,
    "step": 0.1,
    "on": "score",
}
ONE_VALUE_ONLY = {"voting"}  # the convex approximation counts hard votes


def key(method: rc.Method, **changes: Any) -> str:
    return answer_key(method, **(FACTS | changes))


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_every_field_of_a_method_changes_the_key(method: Any) -> None:
    assert is_dataclass(method)
    for field in fields(method):
        if field.name not in ONE_VALUE_ONLY:
            assert key(replace(method, **{field.name: VALUES[field.name]})) != key(method), field.name


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_every_setting_changes_the_key_of_the_methods_that_use_it(method: rc.Method) -> None:
    for name, value in OTHER.items():
        assert key(method, **{name: value}) != key(method), name
    assert (key(method, seed=1) != key(method)) == method.needs_training
    assert (key(method, training="other rows") != key(method)) == method.needs_training
    assert key(method, seed=1, solver="highs") != key(method, solver="highs")


def test_a_field_of_a_nested_method_changes_the_key() -> None:
    one = rc.IsolationForest(0.1, rc.RobustSAA(0.1, 0.1))
    other = rc.IsolationForest(0.1, rc.RobustSAA(0.1, 0.1, "one-sided"))
    assert (one.alpha, one.beta, one.parameter) == (other.alpha, other.beta, other.parameter)
    assert key(one) != key(other)


def test_methods_of_two_classes_never_share_a_key() -> None:
    assert len({key(method) for method in METHODS}) == len(METHODS)


def test_the_seed_of_a_threshold_method_changes_nothing_in_its_answer() -> None:
    data = rc.datasets.synthetic_credit(300, seed=0)
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(20, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
    forest = rc.Forest.from_sklearn(model)
    methods = [m for m in METHODS if not m.needs_training]
    answers = [
        rc.Explainer(forest, data.schema, methods, target=1, seed=seed).explain_many(data.X[:40])
        for seed in (0, 1)
    ]
    assert any(cf.status == "optimal" for cf in answers[0])
    for one, other in zip(*answers, strict=True):
        assert (one.status, one.point, one.objective) == (other.status, other.point, other.objective)


def test_the_digest_of_training_rows_sees_a_value_a_label_and_the_order() -> None:
    X, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 1])
    moved, relabelled = X.copy(), y.copy()
    moved[1, 1] += 1e-12
    relabelled[2] = 0
    digests = [
        training_digest(X, y),
        training_digest(moved, y),
        training_digest(X, relabelled),
        training_digest(X[::-1], y[::-1]),
        training_digest(X, y.astype(str)),
    ]
    assert len(set(digests)) == len(digests)
