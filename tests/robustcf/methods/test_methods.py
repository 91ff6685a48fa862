"""What methods refuse, what they demand, and what the convex approximation promises."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.thresholds import log_delta, trees_needed


@cache
def credit() -> tuple[rc.datasets.Dataset, np.ndarray, rc.Forest]:
    data = rc.datasets.synthetic_credit(n=400, seed=0)
    X = data.encode(data.X)
    return (
        data,
        X,
        rc.Forest.from_sklearn(RandomForestClassifier(15, max_depth=3, random_state=0).fit(X, data.y)),
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rc.DirectSAA(0.6), "alpha"),
        (lambda: rc.RobustSAA(0.05, 0.0), "beta"),
        (lambda: rc.ConvexApproximation(0.0), "alpha"),
        (lambda: rc.ConvexApproximation(delta=1.0), "delta"),
        (lambda: rc.ConvexApproximation(voting="soft"), "the convex approximation needs 'hard'"),
        (lambda: rc.IsolationForest(0.6), "contamination"),
        (lambda: rc.IsolationForest(0.0), "contamination"),
        (lambda: rc.IsolationForest("none"), "contamination"),  # type: ignore[arg-type]
        (lambda: rc.IsolationForest(0.1, rc.RobX()), "cannot set the threshold"),
        (lambda: rc.IsolationForest(0.1, n_trees=0), "tree"),
        (lambda: rc.LocalOutlierFactor(-0.1), "weight"),
        (lambda: rc.LocalOutlierFactor(math.nan), "weight"),
        (lambda: rc.LocalOutlierFactor(0.1, rc.LocalOutlierFactor()), "cannot set the threshold"),
        (lambda: rc.LocalOutlierFactor(neighbours=0), "neighbours"),
        (lambda: rc.LocalOutlierFactor(gap=1.0), "gap"),
        (lambda: rc.RobX(1.5), "tau"),
        (lambda: rc.RobX(k=0), "at least 1"),
        (lambda: rc.RobX(sigma=0.0), "sigma"),
        (lambda: rc.RobX(step=0.0), "step"),
        (lambda: rc.RobX(on="votes"), "class"),  # type: ignore[arg-type]
    ],
)
def test_bad_parameters_are_refused_at_construction(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("method", [rc.IsolationForest(), rc.LocalOutlierFactor(), rc.RobX()])
def test_methods_that_look_at_training_rows_say_so(method: Any) -> None:
    data, X, forest = credit()
    with pytest.raises(ValueError, match="training"):
        rc.Explainer(forest, data.schema, method)
    with pytest.raises(ValueError, match="no row of the target class"):
        rc.Explainer(forest, data.schema, method, target=1, training=(X, np.zeros(len(X), dtype=int)))
    with pytest.raises(ValueError, match="columns"):
        rc.Explainer(forest, data.schema, method, training=(X[:, :2], data.y))
    with pytest.raises(ValueError, match="labels"):
        rc.Explainer(forest, data.schema, method, training=(X, data.y[:5]))


def test_a_training_set_predicted_as_one_class_is_refused() -> None:
    data, X, forest = credit()
    rejected = X[forest.predict(X) == 0]
    labels = np.arange(len(rejected)) % 2
    for method in (rc.LocalOutlierFactor(), rc.RobX()):
        with pytest.raises(ValueError, match=r"predicted as|predicts as"):
            rc.Explainer(forest, data.schema, method, target=1, training=(rejected, labels))


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_every_method_answers_under_both_votings(voting: Any) -> None:
    data, X, forest = credit()
    methods = [
        rc.Naive(), rc.DirectSAA(0.1), rc.RobustSAA(0.1, 0.1), rc.ConvexApproximation(),
        rc.IsolationForest(0.1, n_trees=8), rc.IsolationForest(0.1, rc.DirectSAA(0.1), n_trees=8),
        rc.LocalOutlierFactor(0.1), rc.LocalOutlierFactor(0.1, rc.DirectSAA(0.1)), rc.RobX(0.3, k=100),
    ]  # fmt: skip
    explainer = rc.Explainer(forest, data.schema, methods, target=1, voting=voting, training=(X, data.y))
    answers = explainer.explain_many(data.X.iloc[np.flatnonzero(forest.predict(X, voting) == 0)[:3]])
    for i in range(0, len(answers), len(methods)):
        naive, direct, robust, convex, plausible, both, dense, dense_direct, robx = answers[
            i : i + len(methods)
        ]
        for a in (naive, direct, robust, plausible, both, dense, dense_direct):
            assert a.status in ("optimal", "no_recourse", "relaxed"), a
            assert a.verified
            assert 0 <= a.predicted_validity <= 1
        assert naive.distance <= direct.distance <= robust.distance or robust.status == "no_recourse"
        assert naive.distance <= plausible.distance + 1e-12
        assert plausible.distance <= both.distance + 1e-12 or "relaxed" in (plausible.status, both.status)
        assert naive.distance + dense.penalty * 0 <= dense.distance + 1e-12
        assert dense.objective <= dense_direct.objective + 1e-9
        assert robx.status == "heuristic"
        assert robx.distance >= naive.distance - 1e-12
        if convex.status == "optimal":
            assert convex.score == 1.0
        assert convex.guarantee is not None
        assert convex.guarantee.verdict == "not guaranteed"


def test_all_stumps_agree_and_the_guarantee_is_stated() -> None:
    data, X, _ = credit()
    stumps = RandomForestClassifier(60, max_depth=1, random_state=0).fit(X, data.y)
    forest = rc.Forest.from_sklearn(stumps)
    explainer = rc.Explainer(forest, data.schema, rc.ConvexApproximation(0.05), target=1)
    declined = np.flatnonzero(forest.predict(X) == 0)[:5]
    for answer in explainer.explain_many(data.X.iloc[declined]):
        if answer.status == "optimal":
            votes = [tree.predict(answer.encoded[None, :])[0] for tree in stumps.estimators_]
            assert all(stumps.classes_[int(v)] == 1 for v in votes)
        g = answer.guarantee
        assert g is not None
        assert g.convex
        movable = [f for f in data.schema.features if f.action != "fixed" and f.n_columns]
        assert g.n_continuous <= sum(f.kind == "continuous" for f in movable)
        assert g.log_delta == log_delta(60, 0.05, g.n_continuous, g.n_discrete)
        assert g.log_delta_p_star == log_delta(60, 0.05, g.n_continuous, g.n_discrete, "p-star")
        assert g.trees_needed == trees_needed(0.05, 0.05, g.n_continuous, g.n_discrete)
        assert ("vacuous" in str(g)) == (min(g.log_delta, g.log_delta_p_star) >= 0)


def test_only_features_that_can_move_count() -> None:
    from robustcf.guarantee import guarantee_of

    X = np.random.default_rng(0).random((100, 7))
    X[:, 3:] = np.eye(4)[np.arange(100) % 4]
    forest = rc.Forest.from_sklearn(
        RandomForestClassifier(10, max_depth=1, random_state=0).fit(X, np.arange(100) % 2)
    )
    schema = rc.Schema(
        (
            rc.Feature("free", "continuous", low=0, high=1),
            rc.Feature("up", "continuous", "increase", low=0, high=1),
            rc.Feature("fixed", "continuous", "fixed", low=0, high=1),
            rc.Feature("job", "categorical", values=("a", "b", "c", "d"), allowed=("a", "b")),
        )
    )
    g = guarantee_of(forest, schema, np.array([0.5, 1.0, 0.5, 2.0]), 0.05)  # "up" is at its top, job is "c"
    assert (g.n_continuous, g.n_discrete) == (1, 2)
    g = guarantee_of(forest, schema, np.array([0.5, 0.9, 0.5, 0.0]), 0.05)
    assert (g.n_continuous, g.n_discrete) == (2, 1)


def test_one_isolation_forest_serves_all_rows() -> None:
    data, X, forest = credit()
    methods = [rc.IsolationForest(0.1, m, n_trees=5) for m in (rc.Naive(), rc.DirectSAA(0.1))]
    explainer = rc.Explainer(forest, data.schema, methods, target=1, training=(X, data.y))
    assert len(explainer._families) == 1
    before = explainer._families[0][0].detectors[1].model
    explainer.explain_many(data.X.head(3))
    assert explainer._families[0][0].detectors[1].model is before


def test_a_method_given_twice_is_answered_twice() -> None:
    data, X, forest = credit()
    row = data.X.iloc[np.flatnonzero(forest.predict(X) == 0)[0]]
    methods = [rc.IsolationForest(0.2, n_trees=5), rc.Naive(), rc.IsolationForest(0.2, n_trees=5)]
    a, b, c = rc.Explainer(forest, data.schema, methods, training=(X, data.y)).explain_grid(row)
    assert (a.distance, a.status) == (c.distance, c.status)
    assert b.method == rc.Naive()
