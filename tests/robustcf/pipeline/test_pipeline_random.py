"""Random pipelines: our encoding, scores and answers against the pipeline itself, on raw rows."""

import os
import re

import numpy as np
import pandas as pd
import pytest

import robustcf as rc
from robustcf.forest.arrays import next_float32_above
from robustcf.pipeline.read import ReadModel, read_model
from robustcf.schema.check import broken_rules, distance
from robustcf.schema.encode import decode, encode, nearest_number, read_rows
from robustcf.schema.feature import SchemaError
from tests.helpers.pipelineworld import PipelineWorld, make_pipeline_world, random_customers

MANY = int(os.environ.get("ROBUSTCF_PIPELINES", "3000"))  # of `make slow`
CHUNK = 30


def check_reading(seed: int) -> str:
    """One pipeline over a few columns: read exactly, or refused by step and column."""
    world = make_pipeline_world(seed, few=True)
    try:
        read = read_model(world.model)
        schema = read.schema(world.X)
    except SchemaError as error:
        return str(error)
    customers = pd.concat([world.X, random_customers(world, seed, 200)], ignore_index=True)
    check_encoding(world, read, schema, customers)
    if seed % 5 == 0:
        check_judge(world, read, schema, customers.tail(200))
    return ""


def check_chunk(start: int) -> None:
    refused = [why for why in map(check_reading, range(start, start + CHUNK)) if why]
    for why in refused:
        assert re.match(r"step '.+', column '.+': ", why), why
    assert len(refused) <= CHUNK / 10, refused  # nearly all that these steps do can be followed


def check_judge(world: PipelineWorld, read: ReadModel, schema: rc.Schema, customers: pd.DataFrame) -> None:
    """The judge says of raw rows, however they are typed, what the pipeline says of its own columns."""
    scores, labels = read.judge(schema)(customers[list(schema.names)].astype(object), "soft")
    assert np.array_equal(scores, world.model.predict_proba(customers))
    assert labels == world.model.predict(customers).tolist()


def check(seed: int) -> None:
    world = make_pipeline_world(seed)
    read = read_model(world.model)
    schema = read.schema(world.X)
    assert set(schema.names) == set(world.X.columns)
    customers = pd.concat([world.X, random_customers(world, seed, 80)], ignore_index=True)
    check_encoding(world, read, schema, customers)
    check_judge(world, read, schema, customers)
    check_answers(world, read, schema, customers.tail(80).head(4), seed)


def check_encoding(world: PipelineWorld, read: ReadModel, schema: rc.Schema, customers: pd.DataFrame) -> None:
    rows = read_rows(schema, customers[list(schema.names)], missing=read.forest.accepts_missing)
    assert rows.reasons == [None] * len(customers)
    ours = encode(schema, rows.numbers)
    assert np.array_equal(ours, read.transform(customers), equal_nan=True)
    assert np.array_equal(read.forest.predict_proba(ours), world.model.predict_proba(customers))
    whole = ~np.isnan(ours).any(axis=1)
    back = encode(schema, decode(schema, ours[whole]))
    assert np.allclose(back, ours[whole], rtol=1e-7, atol=1e-12)  # what was filled in may be no number's code


def check_answers(
    world: PipelineWorld, read: ReadModel, schema: rc.Schema, customers: pd.DataFrame, seed: int
) -> None:
    """Every point flips the pipeline on the raw row, and no rival that the pipeline accepts is nearer."""
    explainer = rc.Explainer(
        read.forest, schema, [rc.Naive(), rc.DirectSAA(0.2)], time_limit=20, judge=read.judge(schema)
    )
    rng = np.random.default_rng(seed)
    for _, row in customers[list(schema.names)].iterrows():
        before = read_rows(schema, row, missing=True).numbers[0]
        rivals = near_rivals(read, schema, before, rng)
        rivals = rivals[[not broken_rules(schema, before, rival) for rival in rivals]]
        scores = read.forest.predict_proba(encode(schema, rivals))
        apart = np.array([distance(schema, before, rival) for rival in rivals])
        for cf in explainer.explain_grid(row):
            assert cf.status in ("optimal", "no_recourse"), (cf.status, cf.reason)
            if cf.point is None:
                continue
            point = pd.DataFrame([cf.point]).astype(dict(world.X.dtypes))  # a lone NaN would be no town
            target = list(world.model.classes_).index(cf.target)
            assert world.model.predict_proba(point)[0, target] == pytest.approx(cf.score, abs=1e-12)
            assert cf.status == "no_recourse" or world.model.predict(point)[0] == cf.target
            reaching = scores[:, target] > max(cf.threshold, 0.5) + 1e-9
            assert not (reaching & (apart < cf.distance - 1e-9)).any()
            assert cf.status != "no_recourse" or not reaching.any()


def near_rivals(
    read: ReadModel, schema: rc.Schema, before: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows with up to three features moved: to any category, or to either side of any threshold."""
    forest = read.forest
    rivals = np.tile(before, (250, 1))
    for j, feature in enumerate(schema.features):
        if np.isnan(before[j]):
            continue
        goals = np.array([feature.number(v) for v in feature.values])
        if feature.transform is not None:
            mine = (forest.left >= 0) & (forest.feature == schema.column_start[j])
            cuts = np.unique(forest.threshold[mine])
            cuts = cuts[np.abs(cuts) < 1e30]
            above = next_float32_above(cuts)  # the nearest point is the nearest of float32's
            below = np.nextafter(above.astype(np.float32), np.float32(-np.inf)).astype(np.float64)
            edges = nearest_number(feature, np.concatenate([below, above]))
            goals = np.concatenate([goals, edges, np.floor(edges), np.ceil(edges)])
        moved = rng.random(len(rivals)) < 3 / len(schema)
        if len(goals):
            rivals[moved, j] = rng.choice(goals, moved.sum())
    return rivals


@pytest.mark.parametrize("seed", range(8))
def test_a_random_pipeline_is_read_exactly(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("start", range(1000, 1090, CHUNK))
def test_ninety_random_pipelines_are_read_exactly_or_refused(start: int) -> None:
    check_chunk(start)


@pytest.mark.slow
@pytest.mark.parametrize("start", [*range(1090, 1300, CHUNK), *range(10_000, 10_000 + MANY, CHUNK)])
def test_thousands_of_random_pipelines_are_read_exactly_or_refused(start: int) -> None:
    check_chunk(start)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_random_pipelines_are_read_exactly(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", [0, 2])
def test_methods_that_look_at_training_rows_take_pipelines_too(seed: int) -> None:
    world = make_pipeline_world(seed)
    read = read_model(world.model)
    schema = read.schema(world.X)
    names = list(schema.names)
    training = (encode(schema, read_rows(schema, world.X[names], missing=True).numbers), world.y)
    methods = [rc.IsolationForest(n_trees=10), rc.LocalOutlierFactor(), rc.RobX(k=50)]
    explainer = rc.Explainer(read.forest, schema, methods, target="yes", training=training, time_limit=5)
    found = [cf for cf in explainer.explain_many(world.X[names].head(6)) if cf.point is not None]
    assert found
    for cf in found:
        assert cf.status != "error", cf.reason
        if cf.status in ("optimal", "heuristic"):
            point = pd.DataFrame([cf.point]).astype(dict(world.X.dtypes))
            assert world.model.predict(point)[0] == "yes"
