"""The auditor's own arithmetic against the library's: two roads that must meet."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import robustcf as rc
from robustcf.robustness import predicted_validity
from robustcf.schema.check import broken_rules, distance
from robustcf.schema.encode import encode, read_rows
from robustcf.verify import Changes, Demand, Findings, Trees, check_moves, predicted, threshold
from robustcf.verify.findings import MOST_SHOWN
from robustcf.verify.moves import check_points
from robustcf.verify.reading import encode_rows, read_texts
from robustcf.verify.trees import Bar
from tests.helpers.worlds import World, make_worlds, random_rows


def moved_rows(world: World, rng: np.random.Generator, n: int = 60) -> np.ndarray:
    """The customer's row with some features taken from random rows, and small steps of numbers."""
    read = read_rows(world.schema, random_rows(rng, world.schema, n), missing=True).numbers
    own = world.numbers
    rows = np.where(rng.random(read.shape) < rng.random((n, 1)), read, own)
    for j, feature in enumerate(world.schema.features):
        if feature.is_number:
            step = feature.step or (feature.span[1] - feature.span[0]) / 7 or 1.0
            nudge = rng.random(n) < 0.3
            rows[nudge, j] = own[j] + step * rng.integers(-2, 3, nudge.sum())
    return np.where(np.isnan(own) | np.isnan(rows), own, rows)


def told(world: World, rows: np.ndarray) -> Changes:
    """The changes as a table tells them."""
    own = world.numbers
    lines = [
        (i, f.name, str(f.value(float(own[j]))), str(f.value(float(row[j]))))
        for i, row in enumerate(rows)
        for j, f in enumerate(world.schema.features)
        if row[j] != own[j] and not math.isnan(own[j])
    ]
    row, feature, before, after = zip(*lines, strict=True) if lines else ((), (), (), ())
    delta = [
        float(rows[i][list(world.schema.names).index(name)])
        - float(own[list(world.schema.names).index(name)])
        if world.schema[name].is_number
        else math.nan
        for i, name, _, _ in lines
    ]
    words = [np.array(column, dtype=object) for column in (feature, before, after)]
    return Changes(np.array(row, dtype=np.int64), *words, np.array(delta, dtype=np.float64))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(30))
def test_rules_and_distances_are_those_of_the_library(seed: int) -> None:
    for world in make_worlds(seed):
        rng = np.random.default_rng(seed)
        rows = moved_rows(world, rng)
        points, findings = encode(world.schema, rows), Findings()
        moves = check_moves(world.schema, points, told(world, rows), str, findings)
        wanted = [broken_rules(world.schema, world.numbers, row) for row in rows]
        named = {line.split(":")[0] for line in findings.shown("constraint")}
        assert findings.kinds in ([], ["constraint"])
        if findings.counts["constraint"] <= MOST_SHOWN:
            assert named == {str(i) for i, rules in enumerate(wanted) if rules}
        else:
            assert all(wanted[int(name)] for name in named)
        for i, row in enumerate(rows):
            assert moves.distance[i] == pytest.approx(distance(world.schema, world.numbers, row), abs=1e-12)
        own = encode(world.schema, world.numbers[None, :])[0]
        assert np.array_equal(moves.origin, np.repeat(own[None, :], len(rows), axis=0), equal_nan=True)
        assert moves.whole.all()


@pytest.mark.parametrize("seed", range(25))
def test_encoding_and_votes_are_those_of_the_library(seed: int) -> None:
    for world in make_worlds(seed, cutoffs=True):
        rng = np.random.default_rng(seed)
        rows = moved_rows(world, rng)
        points = encode_rows(world.schema.features, rows)
        assert np.array_equal(points, encode(world.schema, rows), equal_nan=True)
        findings = Findings()
        assert check_points(world.schema, points, True, str, findings).all()
        trees, forest = Trees(world.forest), world.forest
        target = int(rng.integers(0, len(forest.classes)))
        if world.cut is not None and len(forest.classes) > 2:
            target = forest.class_index(world.cut.label)
        score, label = forest.judged_score(points, forest.classes[target], world.voting)  # type: ignore[arg-type]
        verdict = trees.judge(points, np.full(len(rows), target), world.voting)
        assert verdict.score == pytest.approx(score, abs=1e-12)
        won = label == target
        assert verdict.decided(world.voting)[won].all()
        assert verdict.denied(world.voting)[~won].all()
        sure = np.abs(verdict.lead) > 1e-9
        assert not verdict.decided(world.voting)[~won & sure].any()
        assert not verdict.denied(world.voting)[won & sure].any()
        ahead = predicted_validity(forest, points, forest.classes[target], world.voting).estimate  # type: ignore[arg-type]
        guess = predicted(verdict, [trees.bar(target)] * len(rows), len(forest), world.voting)
        clear = (verdict.spread > 1e-9) | (world.voting == "hard")
        assert guess[clear] == pytest.approx(ahead[clear], abs=1e-7)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 500), alpha=st.floats(0.001, 0.5), beta=st.floats(0.001, 0.5))
def test_thresholds_are_those_of_the_library(n: int, alpha: float, beta: float) -> None:
    for method, demand in (
        (rc.Naive(), Demand("naive", None, None, None, "soft")),
        (rc.DirectSAA(alpha), Demand("direct-saa", alpha, None, None, "soft")),
        (rc.RobustSAA(alpha, beta), Demand("robust-saa", alpha, beta, None, "soft")),
        (
            rc.RobustSAA(alpha, beta, "one-sided"),
            Demand("robust-saa", alpha, beta, None, "soft", "one-sided"),
        ),
        (rc.ConvexApproximation(alpha), Demand("convex-approximation", alpha, None, None, "hard")),
        (rc.RobX(0.5), Demand("robx", None, None, 0.5, "soft")),
        (
            rc.IsolationForest(0.1, rc.DirectSAA(alpha)),
            Demand("isolation-forest", alpha, None, 0.1, "soft"),
        ),
    ):
        assert threshold(demand, n) == pytest.approx(method.threshold(n), abs=1e-9)  # type: ignore[attr-defined]
        for c in (0.2, 0.7):
            bar = Bar(c, strict=False, majority=False)
            known = method.threshold(n, c)  # type: ignore[attr-defined]
            assert threshold(demand, n, bar) == pytest.approx(known, abs=1e-9)


def test_a_category_is_found_however_a_table_spells_it() -> None:
    binary = rc.Feature("x", "binary", values=(0, 1))
    assert read_texts(binary, np.array(["1", "1.0", "True", "0", "no"], dtype=object)).tolist()[:4] == [
        1,
        1,
        1,
        0,
    ]
    assert math.isnan(read_texts(binary, np.array(["no"], dtype=object))[0])
    words = rc.Feature("x", "categorical", values=("None", "a"), missing="a")
    assert read_texts(words, np.array(["nan", "a"], dtype=object)).tolist() == [1, 1]


@pytest.mark.parametrize("wrong", [0.5, 2.0, math.nan, math.inf])
def test_an_encoded_row_that_is_none(wrong: float) -> None:
    schema = rc.Schema(
        (rc.Feature("a", "binary", values=(0, 1)), rc.Feature("b", "categorical", values=("x", "y")))
    )
    rows = np.array([[0.0, 1.0, 0.0], [wrong, 1.0, 0.0], [1.0, wrong, 0.0], [1.0, 1.0, 1.0]])
    findings = Findings()
    assert check_points(schema, rows, True, str, findings).tolist() == [True, False, False, False]
    assert findings.counts["point"] == 3
