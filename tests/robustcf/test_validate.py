"""Retraining: the same estimator with another seed, on the rows that a scenario names."""

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from robustcf import Forest, ForestError
from robustcf.validate import (
    Scenario,
    build_estimator,
    derive_seed,
    first_rows,
    retrain,
    training_rows,
    validity,
)

RNG = np.random.default_rng(0)
X = RNG.random((120, 4))
Y = np.where(X[:, 0] + 0.3 * RNG.random(120) > 0.6, "yes", "no")
MODELS = [
    RandomForestClassifier(7, max_depth=3, class_weight={"no": 1.0, "yes": 2.5}, random_state=0, n_jobs=2),
    ExtraTreesClassifier(5, max_features=2, random_state=1),
    BaggingClassifier(
        DecisionTreeClassifier(max_depth=2, criterion="entropy"), 6, max_samples=0.7, random_state=2
    ),
    DecisionTreeClassifier(max_depth=3, random_state=3),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_retraining_is_fitting_the_same_estimator_with_another_seed(model: object) -> None:
    forest = Forest.from_sklearn(model.fit(X, Y))  # type: ignore[attr-defined]
    again = retrain(forest, X, Y, seed=11)
    by_hand = Forest.from_sklearn(model.set_params(random_state=11).fit(X, Y))  # type: ignore[attr-defined]
    assert again == by_hand
    assert retrain(forest, X, Y, seed=11, threads=2) == again


def test_another_number_of_trees() -> None:
    forest = Forest.from_sklearn(MODELS[0].fit(X, Y))
    assert len(retrain(forest, X, Y, seed=1, n_trees=12)) == 12
    tree = Forest.from_sklearn(MODELS[3].fit(X, Y))
    with pytest.raises(ForestError, match="single tree"):
        retrain(tree, X, Y, seed=1, n_trees=12)


def test_what_cannot_be_trained_again_says_why() -> None:
    with pytest.raises(ForestError, match="cannot be retrained: its class"):
        build_estimator({}, 0)
    with pytest.raises(ForestError, match="cannot be retrained: its class"):
        build_estimator({"class": "os.system", "parameters": {}}, 0)
    metadata = Forest.from_sklearn(MODELS[1].fit(X, Y)).estimator
    with pytest.raises(ForestError, match="'colour' is not a parameter"):
        build_estimator({**metadata, "parameters": {**metadata["parameters"], "colour": 1}}, 0)
    forest = Forest.from_sklearn(MODELS[1].fit(X, Y))
    with pytest.raises(ForestError, match="the training labels are"):
        retrain(forest, X, np.where(Y == "yes", "ja", "nein"), seed=0)
    with pytest.raises(ForestError, match="takes 4 columns"):
        retrain(forest, X[:, :3], Y, seed=0)


def test_scenarios_name_their_rows() -> None:
    first = first_rows(100, 0.8, seed=4)
    assert len(first) == len(set(first)) == 80
    y = Y[:100]
    assert training_rows(Scenario.parse("same-data"), first, y, 5) is first
    assert training_rows(Scenario.parse("trees-400"), first, y, 5) is first
    assert training_rows(Scenario.parse("evolving"), first, y, 5).tolist() == list(range(100))
    drawn = training_rows(Scenario.parse("bootstrap"), first, y, 5)
    assert len(drawn) == 80
    assert set(drawn) < set(first)
    assert drawn.tolist() == training_rows(Scenario.parse("bootstrap"), first, y, 5).tolist()
    assert drawn.tolist() != training_rows(Scenario.parse("bootstrap"), first, y, 6).tolist()
    for bad in ("", "trees-0", "trees-x", "same"):
        with pytest.raises(ValueError, match="unknown scenario"):
            Scenario.parse(bad)
    with pytest.raises(ValueError, match="share"):
        first_rows(10, 0.0, 1)


def test_a_bootstrap_never_loses_a_class() -> None:
    y = np.array([0] * 30 + [1])
    for seed in range(20):
        drawn = training_rows(Scenario.parse("bootstrap"), np.arange(31), y, seed)
        assert 1 in y[drawn]


def test_seeds_are_stable_distinct_and_32_bits_wide() -> None:
    seeds = [derive_seed(run, key, k) for run in range(3) for key in ("a", "b") for k in range(50)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert derive_seed(1, "ab", 2) != derive_seed(1, "a", "b2")
    assert derive_seed(7, "rows", "adult", 0) == 2892943032


def test_validity_is_predict_forest_by_forest() -> None:
    forest = Forest.from_sklearn(MODELS[0].fit(X, Y))
    again = [retrain(forest, X, Y, seed) for seed in range(3)]
    targets = ["yes" if i % 2 else "no" for i in range(len(X))]
    for voting in ("soft", "hard"):
        valid = validity(again, X, targets, voting)  # type: ignore[arg-type]
        assert valid.shape == (120, 3)
        for k, other in enumerate(again):
            _, predicted = other.judged_score(X, "yes", voting)  # type: ignore[arg-type]
            assert (valid[:, k] == (np.array(["no", "yes"])[predicted] == targets)).all()
    assert validity(again, X[:0], []).shape == (0, 3)
