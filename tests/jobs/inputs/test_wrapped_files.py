"""Wrapped models and models that are not supported, as skops files and as pickles."""

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import skops.io
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.inputs.model_file import open_model
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB

import robustcf as rc

X = np.random.default_rng(0).random((80, 3))
Y = np.where(X[:, 0] > 0.5, "yes", "no")


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(5, max_depth=2, random_state=0)


@pytest.mark.parametrize(
    "model",
    [
        FixedThresholdClassifier(forest(), threshold=0.7),
        TunedThresholdClassifierCV(forest(), cv=2, random_state=0),
        CalibratedClassifierCV(forest(), ensemble=False, cv=2),
        CalibratedClassifierCV(forest(), method="isotonic", ensemble=False, cv=2),
        CalibratedClassifierCV(forest(), method="temperature", ensemble=False, cv=2),
        VotingClassifier([("a", forest()), ("b", forest())], voting="soft"),
    ],
    ids=lambda model: f"{type(model).__name__} {getattr(model, 'method', '')}".strip(),
)
def test_wrapped_models_are_read_from_skops_files(model: Any, tmp_path: Path) -> None:
    skops.io.dump(model.fit(X, Y), tmp_path / "model.skops")
    opened = open_model(str(tmp_path / "model.skops"))
    assert opened.forest == rc.read_model(model).forest
    assert opened.read is not None
    assert (opened.read.model.predict(X) == model.predict(X)).all()


@pytest.mark.parametrize("model", [LogisticRegression(), GaussianNB()])
def test_an_unsupported_model_is_refused_alike_from_skops_and_pickle(model: Any, tmp_path: Path) -> None:
    model.fit(X, Y)
    skops.io.dump(model, tmp_path / "model.skops")
    joblib.dump(model, tmp_path / "model.pkl")
    said = []
    for name in ("model.skops", "model.pkl"):
        with pytest.raises((BadInput, rc.ForestError)) as error:
            open_model(str(tmp_path / name), trust_pickle=True)
        said.append(str(error.value).replace(f"{tmp_path}/{name}: ", ""))
    assert said[0] == said[1]
    assert type(model).__name__ in said[0]
    assert "RandomForestClassifier" in said[0]
    assert "docs/your-own-model.md" in said[0]
