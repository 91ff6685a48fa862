"""Raw rows to the model's matrix and back, and the cells of numbers that encode alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.forest.arrays import next_float32_above
from robustcf.problem.cells import _least_rounding_to
from robustcf.schema.actionability import on_step
from robustcf.schema.encode import decode, encode, greatest_number, least_number, read_rows, to_frame
from robustcf.schema.schema import Feature, Schema, SchemaError
from tests.worlds import make_worlds, random_rows

LOWS = st.floats(-1e15, 1e15) | st.sampled_from([0.0, 0.1, -3.0, 1e9, -1e-9, 1e-300])
WIDTHS = st.floats(1e-12, 1e12) | st.sampled_from([1.0, 0.6, 7.0, 1e-12, 1e-3])


@st.composite
def numeric(draw: st.DrawFn) -> Feature:
    low, width = draw(LOWS), draw(WIDTHS)
    assume(low + width > low)
    return Feature(
        "x", "continuous", low=low, high=low + width, scaling=draw(st.sampled_from(["minmax", "none"]))
    )


ENCODED = st.lists(
    st.floats(-2, 2, width=32) | st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0, 0.5, 1e-45, 1 - 2**-25]),
    min_size=1,
    max_size=8,
)


@given(numeric(), ENCODED)
def test_least_and_greatest_number_are_exact(feature: Feature, values: list[float]) -> None:
    encoded = np.array(values)
    with np.errstate(over="ignore"):
        least = least_number(feature, encoded, rounder=False)
        assert (feature.encoded(least) >= encoded).all()
        assert (feature.encoded(np.nextafter(least, -np.inf)) < encoded).all()
        greatest = greatest_number(feature, encoded, rounder=False)
        assert (feature.encoded(greatest) <= encoded).all()
        assert (feature.encoded(np.nextafter(greatest, np.inf)) > encoded).all()
        for plain, exact in ((least_number, least), (greatest_number, greatest)):
            assert np.array_equal(feature.encoded(plain(feature, encoded)), feature.encoded(exact))


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=9))
def test_the_split_of_a_threshold_is_the_least_float32_above_it(values: list[float]) -> None:
    thresholds = np.array(values)
    above = next_float32_above(thresholds)
    finite = thresholds < np.finfo(np.float32).max
    assert (above[finite] > thresholds[finite]).all()
    with np.errstate(over="ignore"):
        below = np.nextafter(above.astype(np.float32), np.float32(-np.inf)).astype(np.float64)
    assert (below[finite] <= thresholds[finite]).all()
    assert np.isinf(above[~finite]).all()


@given(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=1, max_size=9))
def test_what_rounds_to_a_split_begins_half_way_below_it(values: list[float]) -> None:
    splits = np.array(values)
    first = _least_rounding_to(splits)
    assert (first.astype(np.float32) >= splits).all()
    assert (np.nextafter(first, -np.inf).astype(np.float32) < splits).all()


@given(st.sampled_from([0.1, 0.01, 0.25, 1.0, 5.0, 1e-4, 1000.0]), st.integers(-(10**7), 10**7))
def test_multiples_of_a_step_carry_no_binary_dust(step: float, k: int) -> None:
    (number,) = on_step(step, np.array([float(k)]))
    text = f"{number:.10f}".rstrip("0").rstrip(".")
    assert float(text) == number


@pytest.mark.parametrize("seed", range(60))
def test_a_round_trip_stays_in_the_same_float32(seed: int) -> None:
    world = make_worlds(seed, 1)[0]
    frame = random_rows(np.random.default_rng(seed), world.schema, 50)
    read = read_rows(world.schema, frame)
    assert read.reasons == [None] * 50
    matrix = encode(world.schema, read.numbers)
    numbers = decode(world.schema, matrix)
    assert np.array_equal(encode(world.schema, numbers).astype(np.float32), matrix.astype(np.float32))
    again = read_rows(world.schema, to_frame(world.schema, read.numbers))
    assert again.reasons == [None] * 50
    assert np.array_equal(again.numbers, read.numbers)


@given(numeric(), st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=9))
def test_numbers_of_any_range_stay_in_the_same_float32(feature: Feature, shares: list[float]) -> None:
    schema = Schema((feature,))
    low, high = feature.span
    numbers = (low + np.array(shares) * (high - low))[:, None]
    matrix = encode(schema, numbers)
    back = encode(schema, decode(schema, matrix))
    assert np.array_equal(back.astype(np.float32), matrix.astype(np.float32))


def test_encoding_is_the_documented_one() -> None:
    schema = Schema(
        (
            Feature("amount", "continuous", low=100, high=300),
            Feature("job", "categorical", values=("clerk", "cook", "pilot")),
            Feature("same", "discrete", values=(7,)),
            Feature("grade", "discrete", values=("low", "mid", "top")),
            Feature("raw", "discrete", values=(1, 5, 9), scaling="none"),
            Feature("flag", "binary", values=("no", "yes")),
        )
    )
    frame = pd.DataFrame(
        {"amount": [150], "job": ["cook"], "same": [7], "grade": ["mid"], "raw": [5], "flag": ["yes"]}
    )
    expected = [[0.25, 0, 1, 0, 0.5, 5, 1]]
    assert encode(schema, read_rows(schema, frame).numbers).tolist() == expected
    assert schema.columns == ("amount", "job=clerk", "job=cook", "job=pilot", "grade", "raw", "flag")
    assert decode(schema, np.array(expected)).tolist() == [[150, 1, 7, 1, 5, 1]]
    with pytest.raises(SchemaError, match=r"'job'.*one-hot"):
        decode(schema, np.array([[0.25, 0, 1, 1, 0.5, 5, 1]]))


# ------------------------------------------------------------------------------- bad rows

SCHEMA = Schema(
    (
        Feature("age", "continuous", low=18, high=80, lower=18, upper=120),
        Feature("income", "continuous", low=0, high=1e5),
        Feature("job", "categorical", values=("clerk", "cook", "pilot")),
        Feature("flag", "binary", values=(0, 1)),
        Feature("grade", "discrete", values=("low", "mid", "top")),
    )
)
GOOD = {"age": 30, "income": 2000.0, "job": "cook", "flag": 1, "grade": "mid"}


@pytest.fixture(scope="module")
def explainer() -> rc.Explainer:
    rng = np.random.default_rng(0)
    frame = random_rows(rng, SCHEMA, 120)
    X = encode(SCHEMA, read_rows(SCHEMA, frame).numbers)
    model = RandomForestClassifier(5, max_depth=3, random_state=0)
    return rc.Explainer(rc.Forest.from_sklearn(model.fit(X, X[:, 0] + X[:, 1] > 1)), SCHEMA, solver="highs")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("job", "baker", "'baker' is not one of its values (clerk, cook, pilot)"),
        ("job", None, "is missing"),
        ("job", ["cook"], "is not one of its values"),
        ("job", 3, "is not one of its values"),
        ("flag", 2, "2 is not one of its values (0, 1)"),
        ("flag", "maybe", "is not one of its values"),
        ("grade", "best", "is not one of its values"),
        ("grade", float("nan"), "is missing"),
        ("age", 17.9, "below the declared lower bound 18"),
        ("age", 121, "above the declared upper bound 120"),
        ("age", "old", "is not a number"),
        ("age", [30], "is not a number"),
        ("age", pd.Timestamp("2020-01-01"), "is not a number"),
        ("income", float("inf"), "too large"),
        ("income", 1e300, "too large"),
        ("income", 10**400, "too large"),
    ],
    ids=str,
)
def test_a_bad_value_is_that_rows_alone(
    explainer: rc.Explainer, column: str, value: Any, message: str
) -> None:
    frame = pd.DataFrame([GOOD, GOOD | {column: value}, GOOD], dtype=object)
    first, bad, last = explainer.explain_many(frame)
    assert bad.status == "invalid_input"
    assert bad.reason is not None
    assert f"column {column!r}" in bad.reason
    assert message in bad.reason
    assert bad.point is None
    assert not bad.verified
    assert (first.row, bad.row, last.row) == (0, 1, 2)
    assert first.status == last.status == "optimal"
    assert first.distance == last.distance


def test_a_missing_number_the_forest_cannot_take(explainer: rc.Explainer) -> None:
    takes_none = replace(explainer.forest, accepts_missing=False)
    bad = rc.Explainer(takes_none, SCHEMA, solver="highs").explain(GOOD | {"income": None})
    assert bad.status == "invalid_input"
    assert bad.reason == "column 'income': the value is missing; this forest does not accept missing values"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="job"), "column 'job' is missing"),
        (lambda f: f.assign(zip=1), "column 'zip' is not in the schema"),
        (lambda f: pd.concat([f, f[["age"]]], axis=1), "column 'age' occurs twice"),
    ],
)
def test_wrong_columns_are_named_for_every_row(explainer: rc.Explainer, change: Any, message: str) -> None:
    answers = explainer.explain_many(change(pd.DataFrame([GOOD, GOOD])))
    assert [a.status for a in answers] == ["invalid_input"] * 2
    assert [a.reason for a in answers] == [message] * 2


def test_several_methods_each_get_a_status_for_a_bad_row(explainer: rc.Explainer) -> None:
    methods = [rc.Naive(), rc.DirectSAA(0.2)]
    two = rc.Explainer(explainer.forest, SCHEMA, methods, solver="highs")
    answers = two.explain_many([GOOD, GOOD | {"age": 5}])
    assert [(a.row, a.method) for a in answers] == [(i, m) for i in (0, 1) for m in methods]
    assert [a.status for a in answers[2:]] == ["invalid_input"] * 2


def test_column_order_and_equal_words_do_not_matter(explainer: rc.Explainer) -> None:
    plain = explainer.explain(GOOD)
    turned = explainer.explain(dict(reversed(GOOD.items())))
    words = explainer.explain(GOOD | {"age": "30", "flag": "1"})
    assert plain.distance == turned.distance == words.distance


def test_an_empty_frame_has_no_answers(explainer: rc.Explainer) -> None:
    assert explainer.explain_many(pd.DataFrame(columns=list(GOOD))) == []
    assert explainer.explain_many([]) == []
