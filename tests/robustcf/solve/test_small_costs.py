"""Costs far below 1: tiny weights, and ranges blown up by a sentinel. Optima stay optima."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.solve.scale import factor_for
from tests.helpers.by_hand import solve_by_hand
from tests.helpers.worlds import Score, World, make_worlds

METHODS = [rc.Naive(), rc.DirectSAA(0.2), rc.RobustSAA(0.05, 0.1)]


def lenders(sentinel: float | None = None) -> tuple[rc.Forest, rc.Schema, pd.DataFrame]:
    """A forest over two incomes and an age; the incomes' ranges may end at a sentinel."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"income": rng.uniform(0, 1000, 400).round(1), "age": rng.integers(18, 80, 400)})
    frame["other"] = rng.uniform(0, 100, 400).round(1)
    y = (frame["income"] + 4 * frame["other"] + rng.normal(0, 80, 400) > 700).astype(int).to_numpy()
    schema = rc.Schema.from_frame(frame)
    if sentinel is not None:  # the model sees the incomes as they are; only their price knows the range
        for name in ("income", "other"):
            schema = schema.replace(name, low=0.0, high=sentinel, scaling="none")
        schema = schema.replace("age", action="fixed")
    data = rc.datasets.Dataset("lenders", frame, y, schema)
    model = RandomForestClassifier(30, max_depth=4, random_state=0).fit(data.encode(frame), y)
    return rc.Forest.from_sklearn(model), schema, frame


def answers(forest: rc.Forest, schema: rc.Schema, frame: pd.DataFrame, solver: str, **options: Any) -> Any:
    return rc.Explainer(forest, schema, METHODS, target=1, solver=solver, **options).explain_many(frame)


@pytest.mark.parametrize("solver", ["auto", "highs"])
@pytest.mark.parametrize("weight", [1e-10, 1e-6, 1e8])
def test_weights_of_any_size_give_the_same_points(weight: float, solver: str) -> None:
    """With weights of 1e-10 every difference of costs once fell below the search's tolerance."""
    forest, schema, frame = lenders()
    small = schema
    for f in schema.features:
        small = small.replace(f.name, weight=f.cost_weight * weight)
    pairs = zip(
        answers(forest, schema, frame.iloc[:40], solver),
        answers(forest, small, frame.iloc[:40], solver),
        strict=True,
    )
    compared = 0
    for a, b in pairs:
        assert b.status == a.status, b.reason
        if a.status == "optimal":
            assert b.distance == pytest.approx(a.distance * weight, rel=1e-9)
            assert b.gap == 0.0
            compared += 1
    assert compared > 30


@pytest.mark.parametrize("solver", ["auto", "highs"])
def test_a_sentinel_in_a_range_does_not_hide_nearer_points(solver: str) -> None:
    """A range up to 1e12 makes a move of 50 cost 5e-11: `optimal` once meant 76 units where 47 suffice."""
    forest, sentinel, frame = lenders(1e12)
    _, plain, _ = lenders(1e4)
    pairs = zip(
        answers(forest, plain, frame.iloc[:60], solver),
        answers(forest, sentinel, frame.iloc[:60], solver),
        strict=True,
    )
    compared = 0
    for a, b in pairs:
        assert b.status == a.status
        if a.status == "optimal":
            assert b.distance == pytest.approx(a.distance * 1e-8, rel=1e-9)
            compared += 1
    assert compared > 30


def test_small_worlds_with_small_weights_equal_brute_force() -> None:
    seen = 0
    for seed in range(60):
        for world in make_worlds(seed):
            scale = float(np.random.default_rng(seed).choice([1e-10, 1e-7, 1e6]))
            schema = world.schema
            for f in schema.features:
                if f.cost_table is None:
                    schema = schema.replace(f.name, weight=f.cost_weight * scale)
            if any(f.cost_table is not None for f in schema.features):
                continue
            small: World = replace(world, schema=schema)
            truth = solve_by_hand(small)
            if truth.own == truth.target:
                continue
            explainer = rc.Explainer(
                small.forest,
                schema,
                [Score(tau) for tau in truth.distances],
                target=small.target,
                voting=small.voting,
            )
            for least, answer in zip(
                truth.distances.values(), explainer.explain_grid(small.row), strict=True
            ):
                assert answer.status == ("no_recourse" if least is None else "optimal"), answer.reason
                if least is not None:
                    assert answer.distance == pytest.approx(least, rel=1e-9, abs=1e-12 * scale)
                    seen += 1
    assert seen > 60


def test_the_factor_is_a_power_of_two() -> None:
    for cost in (1e-300, 1e-10, 0.3, 1.0, 7.0, 1e12):
        factor = factor_for(cost)
        assert np.frexp(factor)[0] == 0.5
        assert 1.0 <= cost * factor < 2.0 or cost < 1e-270


def test_highs_does_not_lose_the_outlier_optimum_in_its_presolve() -> None:
    """With presolve, HiGHS 1.15 called a point optimal though a nearer one met every row."""
    forest, schema, frame = lenders()
    encoded = rc.datasets.Dataset("lenders", frame, np.zeros(len(frame), dtype=int), schema).encode(frame)
    training = (encoded, forest.predict(encoded))
    found = []
    for weight in (1.0, 1e8):
        heavy = schema
        for f in schema.features:
            heavy = heavy.replace(f.name, weight=f.cost_weight * weight)
        method = rc.LocalOutlierFactor(0.1 * weight)
        answer = rc.Explainer(forest, heavy, method, target=1, training=training).explain(frame.iloc[32])
        assert answer.status == "optimal"
        found.append(answer.objective / weight)
    assert found[1] == pytest.approx(found[0], rel=1e-7)
