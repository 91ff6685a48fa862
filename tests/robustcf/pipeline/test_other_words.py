"""Words that an encoder was not fitted on: explained as the pipeline treats them, and never advised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

import robustcf as rc
from robustcf.schema.encode import read_rows


def rows(n: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    """Towns matter; two of them are rare."""
    rng = np.random.default_rng(0)
    town = rng.choice(["north", "south", "west", "hamlet", "village"], n, p=[0.4, 0.3, 0.24, 0.03, 0.03])
    income = rng.uniform(1, 9, n).round(2)
    worth = income + 3 * np.isin(town, ["north", "hamlet"]) + rng.normal(size=n)
    return pd.DataFrame({"income": income, "town": town}), (worth > 6.5).astype(int)


def fitted(encoder: Any) -> Any:
    X, y = rows()
    steps = make_column_transformer((encoder, ["town"]), remainder="passthrough")
    return make_pipeline(steps, RandomForestClassifier(15, max_depth=4, random_state=0)).fit(X, y)


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(handle_unknown="ignore"),
        OneHotEncoder(handle_unknown="ignore", drop="first"),
        OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=0.1),
        OneHotEncoder(handle_unknown="warn"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    ],
    ids=["ignored", "dropped", "infrequent bin", "warned about", "ordinal"],
)
@pytest.mark.filterwarnings("ignore:Found unknown categories:UserWarning")
def test_a_new_word_is_explained_as_the_pipeline_scores_it(encoder: Any) -> None:
    model = fitted(encoder)
    read = rc.read_model(model)
    schema = read.schema(rows()[0])
    assert schema["town"].other == "(other)"
    frame = pd.DataFrame({"income": np.linspace(2, 8, 25).round(2), "town": "Atlantis"})
    answers = rc.Explainer(
        read.forest, schema, [rc.Naive(), rc.DirectSAA(0.2)], target=1, judge=read.judge(schema)
    ).explain_many(frame)
    scores = np.repeat(model.predict_proba(frame)[:, 1], 2)
    assert [a.score_before for a in answers] == pytest.approx(scores.tolist(), abs=1e-12)
    assert {a.status for a in answers} <= {"optimal", "no_recourse", "already_favourable"}
    found = [a for a in answers if a.status == "optimal"]
    assert found
    assert all(a.verified and model.predict(pd.DataFrame([a.point]))[0] == 1 for a in found)
    moves = [c for a in found for c in a.changes if c.feature == "town"]
    assert all(c.before == "Atlantis" and c.after in set(rows()[0]["town"]) for c in moves)
    kept = [a.point["town"] for a in found if "town" not in {c.feature for c in a.changes}]
    assert set(kept) <= {"Atlantis"}


def test_nobody_is_advised_to_a_word_that_the_model_ignores() -> None:
    read = rc.read_model(fitted(OneHotEncoder(handle_unknown="ignore")))
    schema = read.schema(rows()[0]).replace("income", action="fixed")
    answers = rc.Explainer(read.forest, schema, rc.Naive(), target=1).explain_many(rows()[0].head(80))
    after = {c.after for a in answers for c in a.changes}
    assert after
    assert "(other)" not in after


def test_an_encoder_that_refuses_new_words_still_makes_an_invalid_row() -> None:
    read = rc.read_model(fitted(OneHotEncoder()))
    schema = read.schema(rows()[0])
    assert schema["town"].other is None
    reasons = read_rows(schema, pd.DataFrame({"income": [1.0], "town": ["Atlantis"]})).reasons
    assert "is not one of its values" in str(reasons[0])


def test_a_schema_file_that_does_not_know_the_other_words_is_completed() -> None:
    read = rc.read_model(fitted(OneHotEncoder(handle_unknown="ignore")))
    towns = ["south", "north", "west", "village", "hamlet"]
    older = {"feature": [{"name": "town", "kind": "categorical", "values": towns}]}
    town = read.schema(rows()[0], older)["town"]
    assert town.values == (*towns, "(other)")
    assert town.allowed == tuple(towns)
    schema = read.schema(rows()[0])
    assert rc.Schema.from_toml(schema.to_toml().encode()) == schema
