"""Rows and columns that real tables hold and nobody expects."""

import tracemalloc
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.schema.encode import decode, encode, read_rows
from robustcf.schema.schema import Feature, Schema, SchemaError

AMOUNT = Schema((Feature("amount", "continuous", low=0, high=10),))


def reasons(*values: Any, schema: Schema = AMOUNT, dtype: Any = object) -> list[str | None]:
    return read_rows(schema, pd.DataFrame({"amount": pd.Series(values, dtype=dtype)})).reasons


@pytest.mark.parametrize(
    "huge",
    [10**400, -(10**400), pytest.param(10**5000, id="5000 digits"), Decimal("1e999"), "1e999", 1e300],
)
def test_a_huge_number_is_too_large_and_the_other_rows_go_on(huge: Any) -> None:
    first, second = reasons(huge, 3)
    assert first is not None
    assert first.startswith("column 'amount': ")
    assert first.endswith(" is too large")
    assert second is None


def test_a_huge_number_is_no_category() -> None:
    schema = Schema((Feature("amount", "categorical", values=("1", "2")),))
    first, second = reasons(10**5000, "2", schema=schema)
    assert first == "column 'amount': the number is not one of its values (1, 2)"
    assert second is None


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1 + 2j, 3], complex),
        ([1 + 2j, "two"], object),
        (pd.to_datetime(["2024-01-01", "2024-01-02"]), "datetime64[ns]"),
        (pd.to_datetime(["2024-01-01", "2024-01-02"], utc=True), "datetime64[ns, UTC]"),
        (pd.to_timedelta([1, 2], unit="D"), "timedelta64[ns]"),
        ([np.timedelta64(1, "D"), np.datetime64("2024-01-01")], object),
        (pd.period_range("2024-01", periods=2, freq="M"), "period[M]"),
        (["1_000", "nan"], object),
        ([[1], {}], object),
    ],
)
def test_what_is_not_a_number_is_said_not_to_be(values: Any, dtype: Any) -> None:
    for reason in reasons(*values, dtype=dtype):
        assert reason is not None
        assert reason.endswith(" is not a number")


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2], "Int64"),
        ([1, 2], "uint8"),
        ([1.0, 2.0], "float32"),
        ([True, False], bool),
        (["1", " 2.5 "], "str"),
        ([1, 2], "category"),
        ([Decimal("1.5"), np.float32(2)], object),
    ],
)
def test_numbers_of_every_type_are_taken(values: Any, dtype: Any) -> None:
    assert reasons(*values, dtype=dtype) == [None, None]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_a_missing_value_is_called_missing(missing: Any) -> None:
    assert reasons(missing) == [
        "column 'amount': the value is missing; this forest does not accept missing values"
    ]


def test_braces_are_shown_as_they_are() -> None:
    schema = Schema((Feature("amount", "categorical", values=("{a}", "{0}")),))
    assert reasons("{x}", schema=schema) == ["column 'amount': '{x}' is not one of its values ({a}, {0})"]
    assert reasons("{}") == ["column 'amount': '{}' is not a number"]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])),
        pd.Series(pd.to_timedelta([1, 2, 3], unit="D")),
        pd.Series([1j, 2j, 3j]),
        pd.Series(pd.period_range("2024-01", periods=3, freq="M")),
    ],
)
@pytest.mark.parametrize("overrides", [{}, {"when": {"kind": "continuous"}}, {"when": {"kind": "discrete"}}])
def test_a_schema_is_not_inferred_from_dates(column: pd.Series, overrides: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="'when' holds"):
        Schema.from_frame(pd.DataFrame({"when": column}), overrides)


def test_a_schema_is_not_inferred_from_numbers_beyond_floating_point() -> None:
    frame = pd.DataFrame({"amount": pd.Series([1, 2, 10**400], dtype=object)})
    with pytest.raises(SchemaError, match="infinite"):
        Schema.from_frame(frame, {"amount": {"kind": "discrete"}})


def test_columns_named_by_numbers_are_matched_as_text() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((60, 3)))
    schema = Schema.from_frame(frame, {1: {"action": "fixed"}})  # type: ignore[dict-item]
    assert schema.names == ("0", "1", "2")
    assert schema["1"].action == "fixed"
    X = encode(schema, read_rows(schema, frame).numbers)
    y = (X[:, 0] + X[:, 2] > 1).astype(int)
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    explainer = rc.Explainer(rc.Forest.from_sklearn(model), schema, solver="highs")
    cf = explainer.explain(frame.iloc[0])
    assert cf.status == "optimal"
    assert cf.point is not None
    assert set(cf.point) == {"0", "1", "2"}


def test_columns_that_are_one_name_as_text_are_there_twice() -> None:
    frame = pd.DataFrame([[1.0, 2.0]], columns=pd.Index([0, "0"], dtype=object))
    schema = Schema((Feature("0", "continuous"),))
    assert read_rows(schema, frame).reasons == ["column '0' occurs twice"]
    with pytest.raises(SchemaError, match="'0' is listed twice"):
        Schema.from_frame(frame)


def test_missing_extra_and_double_columns_are_named() -> None:
    one = pd.DataFrame([[1.0]], columns=["amount"])
    assert read_rows(AMOUNT, one.rename(columns={"amount": "sum"})).reasons == ["column 'amount' is missing"]
    assert read_rows(AMOUNT, one.assign(more=1)).reasons == ["column 'more' is not in the schema"]
    assert read_rows(AMOUNT, pd.concat([one, one], axis=1)).reasons == ["column 'amount' occurs twice"]
    assert read_rows(AMOUNT, []).reasons == []


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_a_range_wider_than_a_number_can_say_is_refused(kind: Any) -> None:
    values = (-1.7e308, 1.7e308) if kind == "discrete" else ()
    with pytest.raises(SchemaError, match="too wide"):
        Feature("amount", kind, values=values, low=-1.7e308, high=1.7e308)


def test_rows_may_come_from_a_generator() -> None:
    data = rc.datasets.synthetic_credit(n=200)
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
    explainer = rc.Explainer(rc.Forest.from_sklearn(model), data.schema, solver="highs")
    rows = data.X.head(3).to_dict("records")
    points = [cf.point for cf in explainer.explain_many(rows)]
    assert [cf.point for cf in explainer.explain_many(row for row in rows)] == points


def test_a_point_keeps_the_types_of_the_row() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": rng.integers(2**60, size=50), "x": rng.random(50)})
    schema = Schema.from_frame(frame, {"id": {"kind": "continuous", "action": "fixed"}})
    y = (frame["x"] > 0.5).astype(int)
    X = encode(schema, read_rows(schema, frame).numbers)
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    cf = rc.Explainer(rc.Forest.from_sklearn(model), schema, solver="highs").explain_many(frame)[0]
    assert cf.point is not None
    assert cf.point["id"] == int(frame["id"].iloc[0])


@pytest.mark.parametrize("values", [(1, 2, 4, 9), (0.1, 0.2, 0.3), (5,)])
@pytest.mark.parametrize("scaling", ["minmax", "none"])
def test_discrete_values_come_back_from_their_encoding(values: Any, scaling: Any) -> None:
    schema = Schema((Feature("n", "discrete", values=values, low=0, high=10, scaling=scaling),))
    numbers = np.array([*values, np.nan, 3.5])[:, None]
    np.testing.assert_array_equal(decode(schema, encode(schema, numbers)), numbers)


def test_decoding_many_discrete_values_needs_little_memory() -> None:
    schema = Schema((Feature("n", "discrete", values=tuple(range(3000))),))
    matrix = encode(schema, np.random.default_rng(0).integers(3000, size=(20_000, 1)).astype(float))
    tracemalloc.start()
    decode(schema, matrix)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6  # rows x values would be 480 MB
