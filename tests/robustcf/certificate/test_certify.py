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
from robustcf.certificate.points import reseeded
from robustcf.validate import Scenario, derive_seed

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
    table = rc.certify(POINTS, model, training=(X, Y), target="yes", alpha=0.2, forests=20)
    assert list(table["forests"]) == [20, 20, 20]
    for _, line in table.iterrows():
        assert line["lower_bound"] == lower_bound(line["agree"], 20, 0.05)
        assert line["certified"] == (line["lower_bound"] >= 0.8)
        assert bool(line["claim"]) == line["certified"]
    assert not table["certified"][2]


def test_counts_are_those_of_models_refitted_by_hand() -> None:
    model = RandomForestClassifier(3, max_depth=2, random_state=0)
    table = rc.certify(
        POINTS, model, training=(X, Y), target=["yes", "yes", "no"], alpha=0.3, forests=12, seed=5
    )
    agreeing = np.zeros(3, dtype=int)
    for k in range(12):
        own = derive_seed(derive_seed(5, "certify", "same-data", k), "random_state")
        again = RandomForestClassifier(3, max_depth=2, random_state=own).fit(X, Y)
        agreeing += again.predict(POINTS) == np.array(["yes", "yes", "no"])
    assert table["agree"].tolist() == agreeing.tolist()


@pytest.mark.parametrize(
    "model", [HistGradientBoostingClassifier(max_iter=3), DecisionTreeClassifier(max_depth=2)]
)
def test_a_model_that_a_refit_does_not_change_is_refused(model: Any) -> None:
    with pytest.raises(rc.ForestError, match="choose scenario 'bootstrap'"):
        rc.certify(POINTS, model, training=(X, Y), target="yes", alpha=0.2, forests=20)
    table = rc.certify(
        POINTS, model, training=(X, Y), target="yes", alpha=0.2, forests=20, scenario="bootstrap"
    )
    assert table["agree"][0] > table["agree"][2]


def test_a_model_without_a_seed_is_refused() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    with pytest.raises(ValueError, match=r"KNeighborsClassifier has no random_state.*bootstrap"):
        rc.certify(POINTS, KNeighborsClassifier(), training=(X, Y), target="yes", alpha=0.2, forests=20)


def test_frames_later_rows_and_another_number_of_trees() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = RandomForestClassifier(9, max_depth=2)
    points = pd.DataFrame(POINTS, columns=["a", "b", "c"])
    later = (frame.iloc[:50], Y[:50])
    table = rc.certify(
        points,
        model,
        training=(frame, Y),
        target="yes",
        alpha=0.4,
        forests=10,
        scenario="evolving",
        later=later,
    )
    assert "with later rows added" in table["claim"][0]
    forest = rc.Forest.from_sklearn(RandomForestClassifier(3, max_depth=2, random_state=1).fit(X, Y))
    table = rc.certify(
        POINTS, forest, training=(X, Y), target="yes", alpha=0.4, forests=10, scenario="trees-7"
    )
    assert "with 7 trees" in table["claim"][0]


def test_points_in_original_units_are_encoded_with_the_schema() -> None:
    """The answers of an explainer can be certified as they are, with the forest's own voting."""
    data = rc.datasets.synthetic_credit(n=300, seed=0)
    encoded = data.encode(data.X)
    forest = rc.Forest.from_sklearn(
        RandomForestClassifier(15, max_depth=3, random_state=0).fit(encoded, data.y)
    )
    explainer = rc.Explainer(forest, data.schema, method=rc.DirectSAA(alpha=0.05), target=1)
    found = [cf for cf in explainer.explain_many(data.X.iloc[:60]) if cf.works][:4]
    assert len(found) == 4
    few: dict[str, Any] = {"training": (encoded, data.y), "target": 1, "alpha": 0.3, "forests": 15}
    raw = rc.certify([cf.point for cf in found], forest, data.schema, **few)
    direct = rc.certify(np.array([cf.encoded for cf in found]), forest, **few)
    assert raw.equals(direct)
    assert {"certified", "agree", "forests", "lower_bound", "level", "alpha", "delta", "scenario"} < set(raw)
    hard = rc.certify([found[0].point], forest, data.schema, voting="hard", **few)
    by_hand = 0
    for k in range(15):
        model = reseeded(forest, derive_seed(0, "certify", "same-data", k), Scenario.parse("same-data"))
        again = rc.Forest.from_sklearn(model.fit(encoded, data.y))
        by_hand += int(again.score(found[0].encoded[None, :], 1, "hard")[0] > 0.5)
    assert hard["agree"].tolist() == [by_hand]


def test_a_point_that_cannot_be_read_is_named() -> None:
    data = rc.datasets.synthetic_credit(n=50, seed=0)
    model = RandomForestClassifier(3, random_state=0).fit(data.encode(data.X), data.y)
    given: dict[str, Any] = {"training": (data.encode(data.X), data.y), "target": 1}
    row = data.X.iloc[0].to_dict()
    with pytest.raises(ValueError, match=r"^point 1: column 'savings'"):
        rc.certify([row, row | {"savings": "much"}], model, data.schema, **given)
    with pytest.raises(ValueError, match="point 1 is None: its customer has no point; leave it out"):
        rc.certify([row, None], model, data.schema, **given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha is 0.0; it must lie strictly between 0 and 1"),
        ({"delta": 1.5}, "delta is 1.5"),
        ({"forests": 58}, "at least 59 are needed"),
        ({"tests": 0}, "tests is 0"),
        ({"tests": 1000}, "at least 194 are needed"),
        ({"scenario": "evolving"}, "needs the rows collected since"),
        ({"scenario": "tomorrow"}, "unknown scenario 'tomorrow'"),
        ({"target": ["yes"]}, "3 points but 1 targets"),
    ],
)
def test_bad_input_is_one_clear_line(options: dict[str, Any], message: str) -> None:
    given = {"target": "yes"} | options
    with pytest.raises(ValueError, match=message):
        rc.certify(POINTS, LogisticRegression(), training=(X, Y), **given)
