"""The model as its owner has it judges raw rows and raw points; the forest's word alone is not enough."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import robustcf as rc
from robustcf.forest.forest import Label, Voting
from robustcf.pipeline.read import ReadModel, read_model
from tests.helpers.pipelineworld import PipelineWorld, make_pipeline_world

METHODS = [rc.Naive(), rc.DirectSAA(0.2)]


@pytest.fixture(scope="module")
def world() -> PipelineWorld:
    return make_pipeline_world(3)


@pytest.fixture(scope="module")
def read(world: PipelineWorld) -> ReadModel:
    return read_model(world.model)


@pytest.fixture(scope="module")
def schema(read: ReadModel, world: PipelineWorld) -> rc.Schema:
    return read.schema(world.X)


@pytest.fixture(scope="module")
def customers(schema: rc.Schema, world: PipelineWorld) -> pd.DataFrame:
    return world.X[list(schema.names)].head(12)


class Later:
    """The same pipeline, which somebody trained again since the forest was read from it."""

    def __init__(self, world: PipelineWorld, schema: rc.Schema) -> None:
        from sklearn.base import clone

        again = clone(world.model).set_params(forest__random_state=99)
        rng = np.random.default_rng(1)
        rows = rng.integers(len(world.X), size=len(world.X))
        self.judge = read_model(again.fit(world.X.iloc[rows], world.y[rows])).judge(schema)

    def __call__(self, rows: pd.DataFrame, voting: Voting) -> tuple[np.ndarray, list[Label]]:
        return self.judge(rows, voting)


def test_an_exact_pipeline_confirms_every_answer(
    read: ReadModel, schema: rc.Schema, customers: pd.DataFrame
) -> None:
    alone = rc.Explainer(read.forest, schema, METHODS, target="yes").explain_many(customers)
    judged = rc.Explainer(read.forest, schema, METHODS, target="yes", judge=read.judge(schema))
    found = judged.explain_many(customers)
    assert [(cf.status, cf.distance, cf.score) for cf in found if cf.point is not None] == [
        (cf.status, cf.distance, cf.score) for cf in alone if cf.point is not None
    ]
    assert [cf.status for cf in found] == [cf.status for cf in alone]
    assert all(cf.verified for cf in found if cf.status == "optimal")
    assert {"optimal", "already_favourable"} <= {cf.status for cf in found}


def test_a_row_that_the_model_decides_differently_is_an_error_and_no_claim(
    world: PipelineWorld, read: ReadModel, schema: rc.Schema, customers: pd.DataFrame
) -> None:
    later = Later(world, schema)
    many = world.X[list(schema.names)]
    theirs = later(many, "soft")[1]
    ours = world.model.predict(world.X)
    differ = [i for i in range(len(many)) if theirs[i] != ours[i]]
    assert differ
    explainer = rc.Explainer(read.forest, schema, target="yes", judge=later)
    for cf in explainer.explain_many(many.iloc[differ]):
        assert cf.status == "error"
        assert not cf.verified
        assert cf.point is None
        assert "the model decides" in str(cf.reason)
        assert "the forest read from it" in str(cf.reason)


def test_a_point_that_the_model_does_not_accept_is_an_error(
    world: PipelineWorld, read: ReadModel, schema: rc.Schema
) -> None:
    """Both models turn these customers down, but only the first one accepts the nearest point."""
    later = Later(world, schema)
    many = world.X[list(schema.names)]
    both = many[(np.array(later(many, "soft")[1]) == "no") & (world.model.predict(world.X) == "no")].head(20)
    explainer = rc.Explainer(read.forest, schema, target="yes", judge=later)
    rejected = 0
    for cf in explainer.explain_many(both):
        if cf.point is None:
            continue
        score, label = later(pd.DataFrame([cf.point]), "soft")
        assert cf.score == score[0, 1]
        if label[0] != "yes":
            rejected += 1
            assert cf.status == "error"
            assert not cf.verified
            assert "the model predicts 'no' at the point" in str(cf.reason)
        assert cf.verified is (cf.status != "error")
    assert rejected > 3


def test_a_model_that_fails_on_one_row_costs_that_row_only(
    read: ReadModel, schema: rc.Schema, customers: pd.DataFrame
) -> None:
    judge = read.judge(schema)
    bad = customers["age"].iloc[4]
    calls: list[int] = []

    def careful(rows: pd.DataFrame, voting: Voting) -> tuple[np.ndarray, list[Label]]:
        calls.append(len(rows))
        if (rows["age"] == bad).any():
            raise ValueError("no such age")
        return judge(rows, voting)

    found = rc.Explainer(read.forest, schema, target="yes", judge=careful).explain_many(customers)
    for cf, age in zip(found, customers["age"], strict=True):
        assert (cf.reason == "the model does not accept this row: ValueError: no such age") == (age == bad)
        assert (cf.status == "error") == (age == bad)
    assert calls[0] == len(customers)


def test_points_are_judged_in_one_call(read: ReadModel, schema: rc.Schema, customers: pd.DataFrame) -> None:
    judge, calls = read.judge(schema), []

    def counting(rows: pd.DataFrame, voting: Voting) -> tuple[np.ndarray, list[Label]]:
        calls.append((len(rows), voting))
        return judge(rows, voting)

    found = rc.Explainer(read.forest, schema, METHODS, target="yes", judge=counting).explain_many(customers)
    points = sum(cf.point is not None for cf in found)
    assert calls == [(len(customers), "soft"), (points, "soft")]


def test_hard_votes_are_counted_on_what_the_pipelines_own_steps_make(
    world: PipelineWorld, read: ReadModel, schema: rc.Schema
) -> None:
    many = world.X[list(schema.names)]
    scores, labels = read.judge(schema)(many, "hard")
    encoded = world.model[:-1].transform(world.X)
    encoded = encoded.toarray() if hasattr(encoded, "toarray") else np.asarray(encoded, dtype=float)
    votes = np.array([tree.predict(encoded.astype(np.float32)) for tree in trees(world)])
    assert np.array_equal(scores[:, 1], (votes == 1).mean(axis=0))
    assert labels == ["yes" if share > 0.5 else "no" for share in scores[:, 1]]
    methods = [rc.Naive(), rc.ConvexApproximation(0.3)]
    for voting in ("hard", "soft"):
        explainer = rc.Explainer(
            read.forest,
            schema,
            methods,
            target="yes",
            voting=voting,  # type: ignore[arg-type]
            judge=read.judge(schema),
        )
        statuses = {cf.status for cf in explainer.explain_many(many.head(20))}
        assert "error" not in statuses
        assert "optimal" in statuses


def trees(world: PipelineWorld) -> Any:
    forest = world.model[-1]
    assert not hasattr(forest, "estimators_features_")  # seven trees that see every column
    return forest.estimators_


def test_text_tables_are_judged_in_the_models_own_types(
    world: PipelineWorld, read: ReadModel, schema: rc.Schema
) -> None:
    """A CSV file has words only: "True", "3", "2.50"; an empty field is missing."""
    many = world.X[list(schema.names)]
    text = many.astype(object).map(lambda v: None if pd.isna(v) else str(v))
    scores, labels = read.judge(schema)(text, "soft")
    assert np.array_equal(scores, world.model.predict_proba(world.X))
    assert labels == world.model.predict(world.X).tolist()
