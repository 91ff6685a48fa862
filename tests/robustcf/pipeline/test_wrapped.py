"""Wrapped forests: thresholds, calibration, votes. The wrapper's own `predict` judges every answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, VotingClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import robustcf as rc


def rows(n: int = 240) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "income": rng.uniform(1, 9, n).round(2),
            "debt": rng.uniform(0, 5, n).round(2),
            "home": rng.choice(["rent", "own", "family"], n),
        }
    )
    worth = frame["income"] - frame["debt"] + (frame["home"] == "own") + rng.normal(size=n)
    return frame, np.where(worth > 2.5, "yes", "no")


def encoder() -> Any:
    return make_column_transformer(
        (OneHotEncoder(), ["home"]), (StandardScaler(), ["income", "debt"]), sparse_threshold=0
    )


def forest(seed: int = 0, kind: Any = RandomForestClassifier) -> Any:
    return kind(12, max_depth=3, random_state=seed)


MODELS = {
    "fixed": lambda: FixedThresholdClassifier(make_pipeline(encoder(), forest()), threshold=0.7),
    "fixed of the first class": lambda: make_pipeline(
        encoder(), FixedThresholdClassifier(forest(), threshold=0.35, pos_label="no")
    ),
    "fixed at a half": lambda: FixedThresholdClassifier(make_pipeline(encoder(), forest())),
    "tuned": lambda: TunedThresholdClassifierCV(make_pipeline(encoder(), forest()), cv=3, random_state=0),
    "sigmoid": lambda: CalibratedClassifierCV(make_pipeline(encoder(), forest()), ensemble=False),
    "isotonic": lambda: make_pipeline(
        encoder(), CalibratedClassifierCV(forest(), method="isotonic", ensemble=False)
    ),
    "temperature": lambda: CalibratedClassifierCV(
        make_pipeline(encoder(), forest()), method="temperature", ensemble=False
    ),
    "calibrated and fixed": lambda: FixedThresholdClassifier(
        CalibratedClassifierCV(make_pipeline(encoder(), forest()), ensemble=False), threshold=0.6
    ),
    "search": lambda: GridSearchCV(
        FixedThresholdClassifier(make_pipeline(encoder(), forest())), {"threshold": [0.4, 0.6]}, cv=2
    ),
    "voting": lambda: make_pipeline(
        encoder(),
        VotingClassifier([("a", forest()), ("b", forest(1, ExtraTreesClassifier))], voting="soft"),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_wrappers_own_predict_accepts_every_answer(name: str) -> None:
    X, y = rows()
    model = MODELS[name]().fit(X, y)
    read = rc.read_model(model)
    schema = read.schema(X)
    explainer = rc.Explainer(
        read.forest, schema, [rc.Naive(), rc.DirectSAA(0.2)], target="yes", judge=read.judge(schema)
    )
    decided = model.predict(X.head(60))
    statuses = set()
    for cf in explainer.explain_many(X.head(60)):
        assert cf.status != "error", cf.reason
        assert (cf.status == "already_favourable") == (decided[cf.row] == "yes")
        statuses.add(cf.status)
        if cf.status == "optimal":
            assert model.predict(pd.DataFrame([cf.point])[list(X)])[0] == "yes"
    assert "optimal" in statuses


@pytest.mark.parametrize("name", ["sigmoid", "isotonic", "temperature", "fixed", "tuned"])
def test_no_random_nearer_point_flips_the_wrapper(name: str) -> None:
    """The cut-off is the wrapper's: points that are nearer than the optimum do not flip its `predict`."""
    X, y = rows()
    model = MODELS[name]().fit(X, y)
    read = rc.read_model(model)
    schema = read.schema(X)
    explainer = rc.Explainer(read.forest, schema, target="yes", judge=read.judge(schema))
    rng, tried = np.random.default_rng(0), 0
    for cf in explainer.explain_many(X.head(30)):
        if cf.status != "optimal":
            continue
        own = X.iloc[cf.row]
        near = pd.DataFrame([own] * 400).reset_index(drop=True)
        near["income"] = rng.uniform(X["income"].min(), X["income"].max(), 400)
        near["debt"] = rng.uniform(X["debt"].min(), X["debt"].max(), 400)
        cost = (near["income"] - own["income"]).abs() / np.ptp(X["income"])
        cost += (near["debt"] - own["debt"]).abs() / np.ptp(X["debt"])
        nearer = near[cost < cf.distance - 1e-9]
        tried += len(nearer)
        assert not len(nearer) or (model.predict(nearer) != "yes").all()
    assert tried > 100


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: CalibratedClassifierCV(forest(), cv=3), "fit it with ensemble=False"),
        (lambda: VotingClassifier([("a", forest())], voting="hard"), "use voting='soft'"),
        (
            lambda: VotingClassifier([("a", forest()), ("b", forest(1))], voting="soft", weights=[1, 2]),
            "give forests of equal size the same weight",
        ),
        (
            lambda: FixedThresholdClassifier(forest(), threshold=1.5),
            "decides for the same class at every score",
        ),
    ],
)
def test_what_is_no_cutoff_of_one_score_is_refused_in_one_line(model: Any, message: str) -> None:
    X, y = rows()
    with pytest.raises(rc.ForestError, match=message) as error:
        rc.read_model(model().fit(X[["income", "debt"]], y))
    assert "\n" not in str(error.value)
