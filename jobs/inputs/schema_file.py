"""`robustcf schema`: write a commented schema file from a model and a table."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import tomli_w

from robustcf import Schema
from robustcf.schema.feature import Feature
from robustcf.schema.sentinels import Sentinels, find_sentinels
from robustcf.schema.values import numbers_of

from ..terminal.printable import printable
from .errors import BadInput, one_line, reporting_bad_input
from .model_file import open_model, raw_rows
from .tables import column_names, read_table

HEAD = """\
# The columns that {model} uses, with the values observed in {data}.
# Edit this file, then give it as `schema` under [model] or with --schema. Keys of a column:
#   action = "free", "fixed", "increase" or "decrease": how the value may move
#   lower, upper: bounds for customers and advice; step: advice is a whole multiple of it
#   allowed = [...]: the only values that advice may use
#   weight: the cost of the whole range (for categories, of half a change); unit, label: for display
#   at_most_up, forbidden, cost_table, [[link]], max_changes: see docs/constraints.md
#   low, high: the range that counts as distance 1; without bounds, it also limits the search
"""
CODING = ("transform", "codes", "missing", "other")
WIDTH = 100
# Words in a column's name which say that customers cannot change it, or that no advice should ask for it.
# Only whole words count: "age" is a word of "customer_age" but not of "mortgage".
FIXED = {
    *("sex", "gender", "race", "ethnic", "ethnicity", "nationality", "native", "religion", "citizen"),
    *("citizenship", "birth", "birthday", "birthdate", "dob", "marital", "marriage", "married"),
    *("disability", "disabled", "pregnant"),
}
RISING = {"age", "seniority", "tenure"}


def write(
    model: str, data: str, output: str | None, label: str | None, trust_pickle: bool
) -> tuple[str, list[str]]:
    """Return the schema file's text and a warning per doubtful column.

    Write it to `output` if given.
    """
    with reporting_bad_input(ValueError):
        opened = open_model(model, trust_pickle)
        if opened.read is not None:
            frame = raw_rows(data, opened.read)
            schema = opened.schema(data=frame)
        else:
            frame = _typed(read_table(data, [c for c in column_names(data) if c != label]).to_pandas())
            schema = Schema.from_frame(frame)
            if len(schema.columns) != opened.forest.n_features:
                raise BadInput(
                    f"{data} encodes to {len(schema.columns)} columns, but the forest has "
                    f"{opened.forest.n_features}; if one is the label, name it with --label"
                )
    marked = {f.name: advice for f in schema.features if (advice := advised_action(f)) is not None}
    for name, action in marked.items():
        schema = schema.replace(name, action=action)
    text = schema_text(schema, frame, Path(model).name, Path(data).name, marked)
    if output is not None:
        try:
            Path(output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise BadInput(f"{output}: cannot be written: {error.strerror}") from None
    doubtful = [(f, _sentinels(f, frame[f.name])) for f in schema.features]
    return text, [
        *(
            f"{name}: marked as {action!r} because of its name; change `action` in the file if this is wrong"
            for name, action in marked.items()
        ),
        *(f"{f.name}: {_doubt(found)}. {_remedy(f, found)}" for f, found in doubtful if found is not None),
    ]


def schema_text(
    schema: Schema, frame: pd.DataFrame, model: str, data: str, marked: Collection[str] = ()
) -> str:
    """Return a schema as commented TOML; `marked` columns got their action because of their names.

    `Schema.from_toml` reads the same schema back.
    """
    parts = [HEAD.format(model=one_line(model), data=one_line(data))]
    tables = tomllib.loads(schema.to_toml())["feature"]
    for feature, table in zip(schema.features, tables, strict=True):
        parts.append(_feature_text(feature, table, frame[feature.name], feature.name in marked))
    return "\n".join(parts)


def _feature_text(feature: Feature, table: dict[str, Any], column: pd.Series, marked: bool) -> str:
    lines = [
        "[[feature]]",
        _line("name", table["name"]),
        _line("kind", table["kind"], _seen(feature, column)),
    ]
    choices = 'or "fixed"' + (', "increase", "decrease"' * feature.ordered)
    if marked:
        choices = 'set because of the name; "free" lets advice change it'
    lines.append(_line("action", table["action"], choices))
    if (found := _sentinels(feature, column)) is not None:
        lines += [f"# WARNING: {_doubt(found)}.", f"# {_remedy(feature, found)}"]
    coded = feature.transform is not None or feature.codes is not None
    skipped = {"name", "kind", "action", *CODING, *(("scaling",) if coded else ())}
    notes = {"weight": _price(feature), "allowed": _gone(feature)}
    lines += [_line(key, value, notes.get(key, "")) for key, value in table.items() if key not in skipped]
    if feature.is_number and feature.action != "fixed":
        lines.append(f"# lower = {_value(float(feature.span[0]))}")
        lines.append(f"# upper = {_value(float(feature.span[1]))}")
    if "unit" not in table and feature.is_number:
        lines.append('# unit = ""')
    coding = [_line(key, table[key]) for key in CODING if key in table]
    if coding:
        lines += [
            "# How the model encodes it. With a model file, the model decides and these lines are ignored.",
            *coding,
        ]
    return "\n".join(lines) + "\n"


def _sentinels(feature: Feature, column: pd.Series) -> Sentinels | None:
    """Return numbers that may be codes and extend the column's range.

    An example is 999 for "unknown".
    """
    if not feature.is_number or feature.action == "fixed" or feature.allowed is not None:
        return None
    found = find_sentinels(numbers_of(column))
    if found is None or (feature.span[0] >= found.low and feature.span[1] <= found.high):
        return None
    return found


def _doubt(found: Sentinels) -> str:
    numbers = " and ".join(f"{n:.15g}" for n in found.numbers)
    rows = "1 row" if found.rows == 1 else f"{found.rows:,} rows"
    are = "is" if len(found.numbers) == 1 else "are"
    return (
        f"{numbers} ({rows}) {are} far from all other values ({found.low:.15g} to {found.high:.15g}) and "
        "extend the range that counts as distance 1"
    )


def _remedy(feature: Feature, found: Sentinels) -> str:
    """Return what to do.

    A range that scales the model's input cannot change, but bounds can be set.
    """
    scales = feature.scaling == "minmax" and feature.transform is None
    low, high = ("lower", "upper") if scales else ("low", "high")
    ends = []
    if found.numbers[0] < found.low:
        ends.append(f"{low} = {found.low:.15g}")
    if found.numbers[-1] > found.high:
        ends.append(f"{high} = {found.high:.15g}")
    refused = " (customers outside it are then refused)" if scales else ""
    if feature.kind == "discrete":
        ends, refused = ["allowed to the other values"], ""
    return (
        "If it is a code, for example for unknown, make it a missing value and retrain, or set "
        f"{' and '.join(ends)}{refused}."
    )


def _seen(feature: Feature, column: pd.Series) -> str:
    """Return a summary of a column's values in the table."""
    gone = int(column.isna().sum())
    missing = f", {gone:,} missing" if gone else ""
    if feature.is_number:
        numbers = numbers_of(column)
        distinct = len(pd.unique(numbers[~pd.isna(numbers)]))
        if not distinct:
            return f"observed: nothing{missing}"
        low, high = pd.Series(numbers).min(), pd.Series(numbers).max()
        return f"observed: {low:g} to {high:g}, {distinct:,} different{missing}"
    common = column.astype(str).where(column.notna()).value_counts().head(3)
    often = ", ".join(f"{value} {count:,}×" for value, count in common.items())
    return f"observed: {' '.join(often.split())}{missing}"


def _price(feature: Feature) -> str:
    return f"a change costs {2 * feature.cost_weight:g}" if feature.kind == "categorical" else ""


def _gone(feature: Feature) -> str:
    words = [f"{feature.missing!r} stands for a missing value"] if feature.missing is not None else []
    words += [f"{feature.other!r} for any other word"] if feature.other is not None else []
    return ", ".join(words)


def advised_action(feature: Feature) -> Literal["fixed", "increase"] | None:
    """Return how a column may move by its name; None if the name says nothing or the action is set."""
    if feature.action != "free":
        return None
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", feature.name)
    words = set(re.split(r"[^a-z]+", spaced.lower()))
    if words & FIXED:
        return "fixed"
    if words & RISING:
        return "increase" if feature.ordered else "fixed"
    return None


def _line(key: str, value: Any, comment: str = "") -> str:
    text = f"{key} = {_value(value)}"
    if len(text) > WIDTH and isinstance(value, list):
        inner = textwrap.indent(",\n".join(_wrapped(value)), "    ")
        text = f"{key} = [\n{inner},\n]"
    return f"{text}  # {printable(comment)}" if comment else text


def _wrapped(values: list[Any]) -> list[str]:
    """Return a list's items in lines of bounded width."""
    lines, line = [], ""
    for item in map(_value, values):
        if line and len(line) + len(item) > WIDTH:
            lines.append(line)
            line = ""
        line = f"{line}, {item}" if line else item
    return [*lines, line]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn text columns that hold only numbers into numbers.

    CSV files are read as text.
    """
    made = {}
    for name, column in frame.items():
        numbers = numbers_of(column)
        is_text = not pd.api.types.is_numeric_dtype(column.dtype)
        clean = bool((pd.isna(numbers) == column.isna().to_numpy()).all())
        made[name] = pd.Series(numbers, index=frame.index) if is_text and clean else column
    return pd.DataFrame(made)
