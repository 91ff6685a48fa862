"""The customer of `robustcf explain`: a row of a data set, or of a table with the user's own model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.ensemble import RandomForestClassifier

from robustcf import Forest, Judge, Schema
from robustcf.datasets import Dataset
from robustcf.forest.forest import Label
from robustcf.judge import verdicts_of
from robustcf.schema.encode import encode, read_rows

from ..inputs.config import Training
from ..inputs.errors import BadInput, reporting_bad_input
from ..inputs.model_file import OpenedModel, is_whole, open_model, raw_rows
from ..inputs.schema_file import advised_action
from ..inputs.secrets import without_secrets
from ..inputs.tables import column_names, plan_table, read_chunk
from ..validate.forests import load_training


@dataclass(frozen=True)
class CustomerWithModel:
    """One customer and the forest that decides about the customer."""

    title: str
    about: str
    forest: Forest
    schema: Schema
    row: dict[str, Any]
    training: tuple[np.ndarray, np.ndarray] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    judge: Judge | None = None
    warning: str | None = None

    @property
    def decision(self) -> Label | None:
        """The decision of the user's own model, or of the forest if there is no model file."""
        if self.judge is not None:
            return verdicts_of(self.judge, [self.row], "soft")[0].label
        own: Label = self.forest.classes[self.forest.predict(self.encoded)[0]]
        return own

    @property
    def encoded(self) -> np.ndarray:
        return encode(self.schema, read_rows(self.schema, self.row, missing=True).numbers)


def row_of_data(data: Dataset, row: int, trees: int, depth: int, seed: int) -> CustomerWithModel:
    """Return a row of a data set and a forest trained on all other rows."""
    if row >= len(data):
        raise BadInput(f"{data.name}: row {row} does not exist; its rows are 0 to {len(data) - 1}")
    if len(data) < 2 or not data.schema.columns:
        raise BadInput(
            f"{data.name}: has {len(data)} rows and {len(data.schema.columns)} columns that vary; "
            "a forest needs at least 2 rows and 1 column"
        )
    others = np.arange(len(data)) != row
    X, y = data.encoded[others], data.y[others]
    model = RandomForestClassifier(trees, max_depth=depth, random_state=seed)
    return CustomerWithModel(
        f"{data.name}, row {row}",
        f"a forest of {trees} trees of depth {depth}, trained on all other rows",
        Forest.from_sklearn(model.fit(X, y)),
        data.schema,
        {str(name): value for name, value in data.X.iloc[row].items()},
        (X, y),
        {"dataset": data.name, "row": row},
    )


@dataclass(frozen=True)
class Customer:
    """Where to find a customer: a table, and an id or a row number."""

    table: str
    row: int | None = None
    id: str | None = None
    id_column: str | None = None

    @property
    def title(self) -> str:
        name = without_secrets(self.table).rstrip("/").rpartition("/")[2]
        return f"{name}, row {self.row}" if self.id is None else f"{name}, customer {self.id}"


def customer_of_table(
    customer: Customer, model: str, schema: str | None, training: Training | None, trust_pickle: bool
) -> CustomerWithModel:
    """Return a customer of a table and the user's own model."""
    with reporting_bad_input(ValueError):
        opened = open_model(model, trust_pickle)
        read, ranges = _schema(opened, schema, customer, training)
        raw = _find(customer, read)
        rows = load_training(training, read, opened.forest) if training is not None else None
    name = without_secrets(model).rstrip("/").rpartition("/")[2]
    return CustomerWithModel(
        customer.title,
        f"{name}: {opened.forest.estimator.get('class', 'a forest')} of {len(opened.forest)} trees{ranges}",
        opened.forest,
        read,
        _own_types(read, raw),
        None if rows is None else (rows.X, rows.y),
        {"model": without_secrets(model), "customer": customer.id, "row": customer.row},
        None if opened.read is None else opened.read.judge(read),
        None if opened.read is None or schema is not None else _all_free(read),
    )


def _all_free(schema: Schema) -> str:
    """Warn that nothing says which columns a customer can change."""
    names = ", ".join(feature.name for feature in schema.features if advised_action(feature) is not None)
    even = f", even {names}" if names else ""
    return (
        f"without a schema, advice may change every column{even}; write one with `robustcf schema`, edit it, "
        "and give it with --schema"
    )


def _schema(
    opened: OpenedModel, schema: str | None, customer: Customer, training: Training | None
) -> tuple[Schema, str]:
    """Return the schema, and a note if its ranges come from the customers' table."""
    if opened.read is None:
        return opened.schema(schema), ""
    if training is not None:
        return opened.schema(schema, raw_rows(training.data, opened.read)), ""
    if is_whole(schema, opened.read):
        return opened.schema(schema), ""
    return opened.schema(schema, raw_rows(customer.table, opened.read)), "; ranges from the customers' table"


def _find(customer: Customer, schema: Schema) -> dict[str, Any]:
    """Return the customer's row; the table is read in chunks."""
    present = column_names(customer.table)
    keys = [customer.id_column] if customer.id_column is not None else []
    if customer.id is not None and not keys:
        keys = [name for name in present if name not in schema.names]
        if not keys:
            raise BadInput(
                f"{customer.table}: every column is a feature; name the column of the ids with --id-column"
            )
    wanted = list(dict.fromkeys([*schema.names, *keys]))
    found: list[tuple[str, dict[str, Any]]] = []
    seen = 0
    for chunk in plan_table(customer.table, wanted).chunks:
        for piece in read_chunk(chunk, wanted):
            if customer.row is not None and seen <= customer.row < seen + len(piece):
                found.append(("", piece.slice(customer.row - seen, 1).to_pylist()[0]))
            for key in keys if customer.id is not None else []:
                found += [(key, row) for row in _matching(piece, key, str(customer.id))]
            seen += len(piece)
    if not found and customer.id is None:
        raise BadInput(f"{customer.title}: does not exist; the table's rows are 0 to {seen - 1}")
    if not found:
        raise BadInput(f"{customer.title}: not found in column {', '.join(keys)}")
    if len(found) > 1:
        raise BadInput(f"{customer.title}: found {len(found)} times; use --id-column or --row")
    return {name: found[0][1][name] for name in schema.names}


def _matching(piece: pa.Table, key: str, wanted: str) -> list[dict[str, Any]]:
    texts = piece[key].to_pandas().map(str)
    rows: list[dict[str, Any]] = piece.take(np.flatnonzero(texts == wanted)).to_pylist()
    return rows


def _own_types(schema: Schema, raw: dict[str, Any]) -> dict[str, Any]:
    """Convert text to numbers where possible; the explainer reports the values that are not."""
    numbers = read_rows(schema, raw, missing=True).numbers[0]
    typed = dict(raw)
    for feature, number in zip(schema.features, numbers, strict=True):
        if feature.is_number and not math.isnan(number):
            typed[feature.name] = feature.value(float(number))
    return typed
