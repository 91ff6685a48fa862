"""The paper's data sets: proved answers, checked by the real model and by an adversary without cells."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import robustcf as rc
from robustcf.datasets.registry import PAPER_SETS
from robustcf.schema.check import distance
from robustcf.schema.encode import encode, read_rows
from robustcf.solve import SOLVERS
from tests.helpers.by_hand import candidates_of, reaches
from tests.helpers.worlds import World, scores_by_model

pytestmark = pytest.mark.usefixtures("paper_data")
MODELS = {
    "100 trees of depth 4": lambda: RandomForestClassifier(100, max_depth=4, random_state=0),
    "20 trees of depth 8": lambda: RandomForestClassifier(20, max_depth=8, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(100, max_depth=4, random_state=0),
    "50 trees of depth 4": lambda: RandomForestClassifier(50, max_depth=4, random_state=0),
}
GRID = (rc.Naive(), rc.DirectSAA(0.2), rc.DirectSAA(0.05))
POINTS = 100_000


@cache
def loaded(name: str) -> rc.datasets.Dataset:
    return rc.datasets.load(name)


@cache
def forest_of(name: str, model: str) -> rc.Forest:
    data = loaded(name)
    return rc.Forest.from_sklearn(MODELS[model]().fit(data.encode(data.X), data.y))


def some_rows(name: str, n: int) -> pd.DataFrame:
    data = loaded(name)
    return data.X.iloc[np.random.default_rng(0).choice(len(data), n, replace=False)]


def explained(
    name: str, model: str, n: int, methods: Any, solver: str, voting: str = "soft"
) -> list[rc.Counterfactual]:
    """Answers that are proved, verified and obey the schema, whoever gave them."""
    forest, frame, schema = forest_of(name, model), some_rows(name, n), loaded(name).schema
    explainer = rc.Explainer(forest, schema, methods, solver=solver, voting=voting, time_limit=60)
    answers = explainer.explain_many(frame)
    assert len(answers) == n * len(methods)
    for a in answers:
        if a.status == "error" and solver == "gurobi":
            assert a.reason is not None
            assert "licence is too small" in a.reason
            continue
        assert a.status in ("optimal", "no_recourse"), (a.row, a.method, a.status, a.reason)
        assert a.verified
        check_point(a, frame.iloc[a.row], forest, schema, voting)
    return answers


def check_point(
    a: rc.Counterfactual, raw: pd.Series, forest: rc.Forest, schema: rc.Schema, voting: str
) -> None:
    """From the raw point alone: the decision, the distance and what may not move."""
    assert a.point is not None
    both = read_rows(schema, [raw.to_dict(), a.point])
    assert both.reasons == [None, None]
    before, after = both.numbers
    if a.status == "optimal":
        scores = scores_by_model(forest.judge, encode(schema, after[None, :]), voting)[0]
        assert forest.classes[int(scores.argmax())] == a.target
        assert scores[forest.classes.index(a.target)] >= a.threshold - 1e-12
        if voting == "soft":
            assert forest.judge.predict(encode(schema, after[None, :]))[0] == a.target
    assert distance(schema, before, after) == pytest.approx(a.distance, abs=1e-9)
    for j, f in enumerate(schema.features):
        if f.action == "fixed":
            assert before[j] == after[j], f.name
        if f.action == "increase":
            assert after[j] >= before[j], f.name


def agree(one: list[rc.Counterfactual], other: list[rc.Counterfactual]) -> int:
    """Assert that two solvers say the same; how many answers could be compared."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if "error" not in (a.status, b.status)]
    for a, b in pairs:
        assert a.status == b.status
        if a.status == "optimal":
            assert a.distance == pytest.approx(b.distance, abs=1e-6)
        else:
            assert a.best_score == pytest.approx(b.best_score, abs=1e-6)
    return len(pairs)


@pytest.mark.parametrize("name", ["german-credit", "compas", "adult"])
def test_two_rows(name: str) -> None:
    answers = explained(name, "50 trees of depth 4", 2, GRID[:2], "highs")
    for solver in ("gurobi", "engine"):
        if solver in SOLVERS:
            agree(answers, explained(name, "50 trees of depth 4", 2, GRID[:2], solver))


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER_SETS)
@pytest.mark.parametrize(
    ("model", "voting"),
    [
        ("100 trees of depth 4", "soft"),
        ("20 trees of depth 8", "soft"),
        ("extra trees", "soft"),
        ("100 trees of depth 4", "hard"),
    ],
)
def test_five_rows_are_proved(name: str, model: str, voting: str) -> None:
    answers = explained(name, model, 5, GRID, "highs", voting)
    for solver in ("gurobi", "engine"):
        if solver in SOLVERS:
            agree(answers, explained(name, model, 5, GRID, solver, voting))


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER_SETS)
def test_an_adversary_without_cells_finds_nothing_nearer(name: str) -> None:
    model, n = "100 trees of depth 4", 5
    solver = "engine" if "engine" in SOLVERS else "auto"
    answers = explained(name, model, n, GRID, solver)
    forest, schema, frame = forest_of(name, model), loaded(name).schema, some_rows(name, n)
    rng, tried = np.random.default_rng(1), 0
    for i in range(n):
        mine = [a for a in answers if a.row == i]
        raw = frame.iloc[i].to_dict()
        world = World(schema, forest, raw, "soft", mine[0].target, ())
        found = [read_rows(schema, a.point).numbers[0] for a in mine if a.point is not None]
        points = attack(rng, world, np.array(found), POINTS // n)
        tried += len(points)
        before = world.numbers
        cost = np.array([distance(schema, before, p) for p in points])
        c = forest.classes.index(mine[0].target)
        score = forest.judge.predict_proba(encode(schema, points))[:, c]
        for a in mine:
            reached = reaches(score, a.threshold, len(forest), "soft", c == 0)
            if a.status == "no_recourse":
                assert not reached.any()
                assert score.max() <= a.best_score + 1e-9
            elif reached.any():
                assert cost[reached].min() >= a.distance - 1e-9
    assert tried >= POINTS


def attack(rng: np.random.Generator, world: World, found: np.ndarray, n: int) -> np.ndarray:
    """Allowed raw points: random ones, few moves from the customer, and neighbours of what was found."""
    candidates, own = candidates_of(world), world.numbers
    points = np.repeat(own[None, :], n, axis=0)
    third = n // 3
    points[-third:] = found[rng.integers(len(found), size=third)]  # to be undone in part
    free = np.array([j for j, (numbers, _) in enumerate(candidates) if len(numbers) > 1])
    for k, point in enumerate(points):
        moves = len(free) if k % 50 == 0 else int(rng.integers(1, 6))
        for j in rng.choice(free, min(moves, len(free)), replace=False):
            numbers, costs = candidates[j]
            if k >= n - third:  # nearer than the found point in this feature, or back home
                numbers = numbers[np.argsort(costs)][: 1 + int(rng.integers(len(numbers)))]
            point[j] = rng.choice(numbers) if rng.random() < 0.8 else own[j]
    return points
