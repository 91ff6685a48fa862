"""RobX by its definition, and its edge cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.schema.check import broken_rules, distance
from robustcf.schema.encode import encode, read_rows
from tests.helpers.plausible_by_hand import training_of
from tests.helpers.worlds import make_worlds

NAMES = ("a", "b", "c")


def world(mixed: bool = False, target: int = 1) -> tuple[rc.Forest, rc.Schema, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((300, 3))
    kinds: list[rc.Feature] = [rc.Feature(n, "continuous", low=0.0, high=1.0) for n in NAMES]
    if mixed:
        X[:, 1] = rng.integers(0, 5, 300) / 4
        X[:, 2] = rng.integers(0, 2, 300)
        kinds[1] = rc.Feature("b", "discrete", "increase", values=(0, 1, 2, 3, 4))
        kinds[2] = rc.Feature("c", "binary", values=("no", "yes"))
    y = (X.sum(axis=1) + 0.2 * rng.normal(size=300) > 1.5).astype(int)
    y = y if target == 1 else 1 - y
    forest = rc.Forest.from_sklearn(RandomForestClassifier(30, max_depth=4, random_state=0).fit(X, y))
    return forest, rc.Schema(tuple(kinds)), X, y


def stability_by_definition(forest: rc.Forest, point: np.ndarray, noise: np.ndarray, target: int) -> float:
    says = forest.judge.predict(point + noise) == target
    mean = sum(says) / len(says)
    return mean - (sum((s - mean) ** 2 for s in says) / len(says)) ** 0.5


def raw(schema: rc.Schema, X: np.ndarray) -> Any:
    from robustcf.schema.encode import decode, to_frame

    return to_frame(schema, decode(schema, X))


@pytest.mark.parametrize("target", [0, 1])
def test_points_are_stable_by_definition(target: int) -> None:
    forest, schema, X, y = world(target=target)
    rows = X[forest.predict(X) != target][:6]
    methods = [rc.RobX(tau, k=200) for tau in (0.1, 0.4, 0.7)]
    explainer = rc.Explainer(forest, schema, [rc.Naive(), *methods], target=target, training=(X, y))
    noise = np.random.default_rng(0).normal(0.0, 0.1, (200, 3))
    answers = explainer.explain_many(raw(schema, rows))
    for a in answers:
        if a.method.name == "naive":
            naive = a
            continue
        assert a.status == "heuristic"
        assert a.verified
        assert np.isnan(a.lower_bound)
        stable = stability_by_definition(forest, a.encoded, noise, target)
        assert (stable >= a.method.parameter - 1e-12) == (a.reason is None)
        if stability_by_definition(forest, naive.encoded, noise, target) >= a.method.parameter:
            assert a.distance == naive.distance
    again = rc.Explainer(forest, schema, [rc.Naive(), *methods], target=target, training=(X, y))
    assert [a.point for a in again.explain_many(raw(schema, rows))] == [a.point for a in answers]


def test_the_point_lies_on_the_way_to_a_stable_row() -> None:
    forest, schema, X, y = world()
    row = X[forest.predict(X) == 0][:1]
    naive, robx = rc.Explainer(
        forest, schema, [rc.Naive(), rc.RobX(0.6, k=200, step=0.1)], target=1, training=(X, y)
    ).explain_many(raw(schema, row))
    start = read_rows(schema, naive.point).numbers[0]
    end = read_rows(schema, robx.point).numbers[0]
    ways = [
        np.abs(start + t * (x - start) - end).max() < 1e-12
        for x in X[forest.predict(X) == 1]
        for t in np.arange(1, 11) / 10
    ]
    assert any(ways)


def test_no_stable_row_and_no_stable_point_are_said() -> None:
    forest, schema, X, y = world()
    rows = raw(schema, X[forest.predict(X) == 0][:2])
    wild = rc.RobX(1.0, k=200, sigma=5.0)  # nothing is stable under such noise
    _, answer, *_ = rc.Explainer(forest, schema, [rc.Naive(), wild], target=1, training=(X, y)).explain_many(
        rows
    )
    assert answer.status == "heuristic"
    assert "most stable" in str(answer.reason)
    assert answer.verified
    assert answer.point is not None


def test_mixed_features_are_projected_onto_allowed_values() -> None:
    forest, schema, X, y = world(mixed=True)
    rows = raw(schema, X[forest.predict(X) == 0][:8])
    explainer = rc.Explainer(
        forest, schema, [rc.RobX(t, k=200) for t in (0.2, 0.6)], target=1, training=(X, y)
    )
    moved = 0
    for a in explainer.explain_many(rows):
        assert a.status == "heuristic"
        before = read_rows(schema, rows.iloc[a.row]).numbers[0]
        after = read_rows(schema, a.point).numbers[0]
        assert broken_rules(schema, before, after) == []
        assert a.distance == pytest.approx(distance(schema, before, after))
        assert forest.judge.predict(encode(schema, after[None, :]))[0] == 1
        moved += len(a.changes) > 1
    assert moved


def test_without_recourse_there_is_nothing_to_stabilise() -> None:
    forest, schema, X, y = world()
    for name in NAMES:
        schema = schema.replace(name, action="fixed")
    row = raw(schema, X[forest.predict(X) == 0][:1])
    (answer,) = rc.Explainer(forest, schema, rc.RobX(k=50), target=1, training=(X, y)).explain_many(row)
    assert answer.status == "no_recourse"


def test_a_move_that_costs_nothing_has_no_gap_and_no_error() -> None:
    """RobX proves no bound; where its point costs 0, the relative gap was once a division by zero."""
    frame = pd.DataFrame({"a": np.linspace(0, 1, 40), "b": np.tile([0.0, 1.0], 20)})
    schema = rc.Schema.from_frame(frame).replace("a", weight=0.0)
    y = (frame["a"] > 0.5).astype(int).to_numpy()
    encoded = rc.datasets.Dataset("free", frame, y, schema).encode(frame)
    model = RandomForestClassifier(5, max_depth=2, random_state=0).fit(encoded, y)
    explainer = rc.Explainer(
        rc.Forest.from_sklearn(model), schema, rc.RobX(k=20), target=1, training=(encoded, y)
    )
    answer = explainer.explain(frame.iloc[0])
    assert (answer.status, answer.objective) == ("heuristic", 0.0)
    assert np.isnan(answer.gap)


def test_a_tie_of_three_classes_is_no_majority_under_hard_votes() -> None:
    """With 2 of 4 votes a class of three can win: RobX once took such a point, nearer than `Naive` allows."""
    world = make_worlds(5000059)[0]
    assert (len(world.forest), len(world.forest.classes), world.voting) == (4, 3, "hard")
    robx, naive = rc.Explainer(
        world.forest,
        world.schema,
        [rc.RobX(k=20), rc.Naive()],
        target=world.target,
        voting="hard",
        decision="one-against-rest",
        training=training_of(world, 5000059),
    ).explain_grid(world.row)
    assert (robx.status, naive.status) == ("heuristic", "optimal")
    assert robx.score > 0.5
    assert robx.objective >= naive.objective - 1e-9
