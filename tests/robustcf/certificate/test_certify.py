"""`certify`: points of any origin, any classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import robustcf as rc
from robustcf.certificate.bounds import lower_bound

RNG = np.random.default_rng(0)
X = RNG.random((200, 3))
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=200) > 0.5, "yes", "no")
POINTS = np.array([[0.99, 0.5, 0.5], [0.5, 0.5, 0.5], [0.01, 0.5, 0.5]])


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(5, max_depth=3, random_state=0),
        BaggingClassifier(MLPClassifier((3,), max_iter=5), n_estimators=2),
        make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=5, subsample=0.5)),
    ],
    ids=["forest", "bagged networks", "stochastic boosting in a pipeline"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_classifier_with_a_seed_can_be_certified(model: Any) -> None:
    table = rc.certify(model, X, Y, POINTS, "yes", alpha=0.2, models=20)
    assert list(table["models"]) == [20, 20, 20]
    for _, line in table.iterrows():
        assert line["lower_bound"] == lower_bound(line["agreeing"], 20, 0.05)
        assert line["certified"] == (line["lower_bound"] >= 0.8)
        assert bool(line["claim"]) == line["certified"]
    assert not table["certified"][2]


def test_counts_are_those_of_models_refitted_by_hand() -> None:
    model = RandomForestClassifier(3, max_depth=2, random_state=0)
    table = rc.certify(model, X, Y, POINTS, ["yes", "yes", "no"], alpha=0.3, models=12, seed=5)
    from robustcf.validate import derive_seed

    agreeing = np.zeros(3, dtype=int)
    for k in range(12):
        own = derive_seed(derive_seed(5, "certify", "same-data", k), "random_state")
        again = RandomForestClassifier(3, max_depth=2, random_state=own).fit(X, Y)
        agreeing += again.predict(POINTS) == np.array(["yes", "yes", "no"])
    assert table["agreeing"].tolist() == agreeing.tolist()


@pytest.mark.parametrize(
    "model", [HistGradientBoostingClassifier(max_iter=3), DecisionTreeClassifier(max_depth=2)]
)
def test_a_model_that_a_refit_does_not_change_is_refused(model: Any) -> None:
    with pytest.raises(rc.ForestError, match="choose scenario 'bootstrap'"):
        rc.certify(model, X, Y, POINTS, "yes", alpha=0.2, models=20)
    table = rc.certify(model, X, Y, POINTS, "yes", alpha=0.2, models=20, scenario="bootstrap")
    assert table["agreeing"][0] > table["agreeing"][2]


def test_a_model_without_a_seed_is_refused() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    with pytest.raises(ValueError, match=r"KNeighborsClassifier has no random_state.*bootstrap"):
        rc.certify(KNeighborsClassifier(), X, Y, POINTS, "yes", alpha=0.2, models=20)


def test_frames_later_rows_and_another_number_of_trees() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = RandomForestClassifier(9, max_depth=2)
    points = pd.DataFrame(POINTS, columns=["a", "b", "c"])
    later = (frame.iloc[:50], Y[:50])
    table = rc.certify(model, frame, Y, points, "yes", alpha=0.4, models=10, scenario="evolving", later=later)
    assert "with later rows added" in table["claim"][0]
    forest = rc.Forest.from_sklearn(RandomForestClassifier(3, max_depth=2, random_state=1).fit(X, Y))
    table = rc.certify(forest, X, Y, POINTS, "yes", alpha=0.4, models=10, scenario="trees-7")
    assert "with 7 trees" in table["claim"][0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha is 0.0; it must lie strictly between 0 and 1"),
        ({"delta": 1.5}, "delta is 1.5"),
        ({"models": 58}, "at least 59 are needed"),
        ({"tests": 0}, "tests is 0"),
        ({"tests": 1000}, "at least 194 are needed"),
        ({"scenario": "evolving"}, "needs the rows collected since"),
        ({"scenario": "tomorrow"}, "unknown scenario 'tomorrow'"),
        ({"targets": ["yes"]}, "3 points but 1 targets"),
    ],
)
def test_bad_input_is_one_clear_line(options: dict[str, Any], message: str) -> None:
    given = {"targets": "yes"} | options
    with pytest.raises(ValueError, match=message):
        rc.certify(LogisticRegression(), X, Y, POINTS, given.pop("targets"), **given)
