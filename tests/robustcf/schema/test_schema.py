"""Schemas: refused when they contradict themselves, the same after a trip through TOML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustcf.schema.schema import Feature, Schema, SchemaError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "number"}, "kind is 'number'"),
        ({"kind": "continuous", "action": "up"}, "action is 'up'"),
        ({"kind": "continuous", "scaling": "log"}, "scaling is 'log'"),
        ({"kind": "binary"}, "has no values"),
        ({"kind": "categorical", "values": ("a", "b", "a")}, "lists a value twice"),
        ({"kind": "categorical", "values": (1, True)}, "lists a value twice"),
        ({"kind": "binary", "values": (0, 1, 2)}, "binary but has 3 values"),
        ({"kind": "categorical", "values": ("a", "b"), "action": "increase"}, "no order"),
        ({"kind": "continuous", "weight": -1.0}, "weight"),
        ({"kind": "continuous", "weight": float("nan")}, "weight"),
        ({"kind": "continuous", "weight": float("inf")}, "weight"),
        ({"kind": "continuous", "low": 2.0, "high": 1.0}, "not a finite interval"),
        ({"kind": "continuous", "low": float("nan")}, "not a finite interval"),
        ({"kind": "continuous", "high": float("inf")}, "not a finite interval"),
        ({"kind": "continuous", "lower": 2.0, "upper": 1.0}, "are empty"),
        ({"kind": "continuous", "lower": float("nan")}, "are empty"),
        ({"kind": "continuous", "step": 0.0}, "step"),
        ({"kind": "continuous", "step": -1.0}, "step"),
        ({"kind": "continuous", "step": float("inf")}, "step"),
        ({"kind": "continuous", "allowed": ("a",)}, "allows 'a'"),
        ({"kind": "continuous", "allowed": (float("nan"),)}, "allows nan"),
        ({"kind": "discrete", "values": (3, 1, 2)}, "rising order"),
        ({"kind": "discrete", "values": (1.0, float("inf"))}, "rising order"),
        ({"kind": "binary", "values": ("no", "yes"), "lower": 0.0}, "does not hold numbers"),
        ({"kind": "discrete", "values": ("low", "high"), "step": 1.0}, "does not hold numbers"),
        ({"kind": "categorical", "values": ("a", "b"), "allowed": ("c",)}, "allows 'c'"),
    ],
    ids=str,
)
def test_a_feature_that_contradicts_itself(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match="feature 'x'") as caught:
        Feature("x", **settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_schema_needs_features_and_distinct_names() -> None:
    with pytest.raises(SchemaError, match="at least one feature"):
        Schema(())
    with pytest.raises(SchemaError, match="'a' is listed twice"):
        Schema((Feature("a", "continuous"), Feature("a", "continuous")))
    schema = Schema((Feature("a", "continuous"),))
    with pytest.raises(SchemaError, match="no feature 'b'"):
        schema.replace("b", weight=1.0)
    with pytest.raises(SchemaError, match="unknown key 'wieght'"):
        schema.replace("a", wieght=1.0)
    with pytest.raises(KeyError):
        schema["b"]
    assert schema.replace("a", action="fixed")["a"].action == "fixed"
    assert schema["a"].action == "free"


def test_numpy_values_become_plain_ones() -> None:
    feature = Feature("x", "discrete", values=tuple(np.array([1, 2])), allowed=(np.int64(2),))
    assert [type(v) for v in (*feature.values, *(feature.allowed or ()))] == [int, int, int]


# --------------------------------------------------------------------------------- TOML

NUMBERS = st.floats(-1e12, 1e12)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
COMMON = {
    "weight": st.none() | st.floats(0, 1e6),
    "unit": WORDS,
    "label": WORDS,
    "scaling": st.sampled_from(["minmax", "none"]),
}


@st.composite
def features(draw: st.DrawFn) -> Feature:
    kind = draw(st.sampled_from(["binary", "categorical", "numbers", "words", "continuous"]))
    given_ = {name: draw(values) for name, values in COMMON.items()}
    given_["action"] = draw(
        st.sampled_from(["free", "fixed"] + ["increase", "decrease"] * (kind != "categorical"))
    )
    name = draw(WORDS.filter(bool))
    if kind in ("binary", "categorical", "words"):
        plain = st.one_of(
            st.lists(WORDS, min_size=1, max_size=2 if kind == "binary" else 5, unique=True),
            st.lists(st.integers(-9, 9), min_size=1, max_size=2, unique=True)
            if kind == "binary"
            else st.nothing(),
        )
        values = tuple(draw(plain))
        if draw(st.booleans()):
            given_["allowed"] = tuple(draw(st.lists(st.sampled_from(values), unique=True)))
        return Feature(name, "discrete" if kind == "words" else kind, values=values, **given_)
    low, high = sorted((draw(NUMBERS), draw(NUMBERS)))
    given_ |= {"low": low, "high": high}
    if draw(st.booleans()):
        given_["step"] = draw(st.floats(1e-6, 1e6))
    if draw(st.booleans()):
        given_["lower"], given_["upper"] = sorted((draw(NUMBERS), draw(NUMBERS)))
    if kind == "numbers":
        numbers = draw(st.lists(st.integers(-(2**50), 2**50) | NUMBERS, min_size=1, max_size=5, unique=True))
        return Feature(name, "discrete", values=tuple(sorted(numbers)), **given_)
    if draw(st.booleans()):
        given_["allowed"] = tuple(draw(st.lists(NUMBERS, max_size=4)))
    return Feature(name, "continuous", **given_)


@given(st.lists(features(), min_size=1, max_size=4, unique_by=lambda f: f.name))
def test_toml_brings_every_schema_back(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[Feature]
) -> None:
    schema = Schema(tuple(drawn))
    path = tmp_path_factory.mktemp("toml") / "schema.toml"
    path.write_text(schema.to_toml(), encoding="utf-8", newline="")
    again = Schema.from_toml(path)
    assert again == schema
    assert again.fingerprint == schema.fingerprint
    assert again.columns == schema.columns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("feature = 3", "no [[feature]] tables"),
        ("", "no [[feature]] tables"),
        ("[[feature]]\nkind = 'continuous'", "has no name"),
        ("[[feature]]\nname = 'a'", "has no kind"),
        ("[[feature]]\nname = 'a'\nkind = 'continuous'\nlowr = 3", "unknown key 'lowr'"),
        ("[[feature]]\nname = 'a'\nkind = 'continuous'\nlow = 'x'", "low must be a number"),
        ("[[feature]]\nname = 'a'\nkind = 'continuous'\nlow = true", "low must be a number"),
        ("[[feature]]\nname = 'a'\nkind = 3", "kind must be text"),
        ("[[feature]]\nname = 'a'\nkind = 'binary'\nvalues = 'ab'", "values must be a list"),
        (
            "[[feature]]\nname = 'a'\nkind = 'binary'\nvalues = [[1], [2]]",
            "values must hold words or numbers",
        ),
        (
            "[[feature]]\nname = 'a'\nkind = 'binary'\nvalues = [1979-05-27, 2]",
            "values must hold words or numbers",
        ),
        ("[[features]]\nname = 'a'", "unknown key 'features'"),
        ("[[feature]", "not a TOML file"),
    ],
)
def test_a_slip_in_a_schema_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml(path)
    assert message in str(caught.value)
    with pytest.raises(SchemaError) as of_bytes:
        Schema.from_toml(text.encode(), name=str(path))
    assert str(of_bytes.value) == str(caught.value)


def test_bytes_are_content_and_text_is_a_path(tmp_path: Path) -> None:
    schema = Schema((Feature("é", "categorical", values=("α", "β")),))
    content = schema.to_toml().encode()
    (tmp_path / "schema.toml").write_bytes(content)
    for source in (content, content.replace(b"\n", b"\r\n"), tmp_path / "schema.toml"):
        assert Schema.from_toml(source) == schema
    assert Schema.from_toml(str(tmp_path / "schema.toml")) == schema
    with pytest.raises(FileNotFoundError):
        Schema.from_toml(schema.to_toml())
    with pytest.raises(SchemaError, match=r"^schema: not a TOML file"):
        Schema.from_toml(b"\xff")
    with pytest.raises(SchemaError, match=r"^run/schema\.toml: no"):
        Schema.from_toml(b"", name="run/schema.toml")


def test_the_fingerprint_ignores_what_is_for_people() -> None:
    plain = Schema((Feature("a", "continuous"),))
    assert plain.replace("a", unit="EUR", label="Amount").fingerprint == plain.fingerprint
    for change in ({"weight": 2.0}, {"action": "fixed"}, {"lower": 0.0}, {"step": 1.0}, {"scaling": "none"}):
        assert plain.replace("a", **change).fingerprint != plain.fingerprint


# ----------------------------------------------------------------------------- inference


def test_kinds_are_inferred_and_overridden() -> None:
    frame = pd.DataFrame(
        {
            "flag": [True, False, True, True],
            "two": [3, 8, 3, 8],
            "sex": ["f", "m", "f", "m"],
            "job": ["cook", "clerk", "pilot", None],
            "count": [1, 4, 2, 2],
            "holes": [1.0, 4.0, np.nan, 2.0],
            "rate": [0.5, 1.25, 3.0, 2.0],
            "grade": pd.Categorical(
                ["low", "top", "mid", "low"], categories=["low", "mid", "top"], ordered=True
            ),
            "same": [5, 5, 5, 5],
        }
    )
    schema = Schema.from_frame(
        frame, {"count": {"kind": "continuous", "action": "increase"}, "rate": {"lower": 0}}
    )
    kinds = {f.name: f.kind for f in schema.features}
    assert kinds == {
        "flag": "binary", "two": "binary", "sex": "binary", "job": "categorical", "count": "continuous",
        "holes": "discrete", "rate": "continuous", "grade": "discrete", "same": "discrete",
    }  # fmt: skip
    assert schema["two"].values == (3, 8)
    assert schema["job"].values == ("clerk", "cook", "pilot")
    assert schema["holes"].values == (1, 2, 4)
    assert schema["rate"].span == (0.5, 3.0)
    assert schema["rate"].lower == 0
    assert schema["count"].span == (1.0, 4.0)
    assert schema["grade"].values == ("low", "mid", "top")
    assert schema["same"].n_columns == 0
    assert [f.cost_weight for f in schema.features] == [0.25, 0.25, 0.25, 0.25, 1.0, 0.25, 1.0, 0.25, 0.25]


@pytest.mark.parametrize(
    ("column", "overrides", "message"),
    [
        ([None, None], {}, "'x' has no values"),
        ([1.5, float("inf"), 2.0], {}, "infinite"),
        (["a", 1, 2.5], {}, "mixes words and numbers"),
        (["a", "b", "c"], {"x": {"kind": "continuous"}}, "not a number"),
        ([1, 2, 3], {"y": {"kind": "continuous"}}, "not a column"),
        ([1, 2, 3], {"x": {"kinds": "continuous"}}, "unknown key 'kinds'"),
    ],
)
def test_data_that_no_schema_can_be_inferred_from(
    column: list[Any], overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_frame(pd.DataFrame({"x": column}), overrides)
