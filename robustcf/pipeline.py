"""Bring your own model: a fitted scikit-learn pipeline read as a schema of raw columns and a forest.

Categories, scales and names come from the pipeline. The schema encodes a raw row to exactly the
matrix that the pipeline makes of it, to the last bit and column by column, so the forest is the
pipeline's own and stays the judge. What is said about a column is then put to the pipeline itself:
a column that cannot be reproduced is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from robustcf.coding import decode_numbers
from robustcf.encode import FLOAT32_MAX, encode, read_rows
from robustcf.feature import Feature, SchemaError, typed
from robustcf.forest import Forest, ForestError
from robustcf.pipeline_steps import Track, follow, is_missing
from robustcf.pipeline_tables import MISSING, changed_tables, is_yes_or_no, kind_of, number_table
from robustcf.schema import Schema

PROBES = 64  # numbers per column that are put to the pipeline


@dataclass(frozen=True)
class ReadModel:
    """A fitted model taken apart: its forest, and each raw column's way to the forest's columns.

    Build it with `read_model`; `schema()` then makes a schema of it.
    """

    forest: Forest
    names: tuple[str, ...]
    tracks: tuple[Track, ...]
    encoder: Pipeline | None

    def schema(
        self,
        data: pd.DataFrame | None = None,
        changes: Mapping[str, Any] | None = None,
        source: str = "the schema file",
    ) -> Schema:
        """The schema of the raw columns.

        Parameters
        ----------
        data : DataFrame, optional
            Raw rows, for kinds and ranges that the model does not say. Other columns are ignored.
        changes : mapping, optional
            A schema file's content (`tomllib`): what it says of a column replaces what was found,
            its coding aside, which is the model's.
        source : str
            What the file is called in messages.

        Raises
        ------
        SchemaError
            If a range is not known, a file contradicts the model, or the pipeline does to a column
            what cannot be reproduced.
        """
        tables = [self._table(name, columns, data) for name, columns in self._columns().items()]
        document = dict(changes or {})
        tables = changed_tables(tables, document.pop("feature", []), source)
        for table in tables:
            if "transform" in table and not {"low", "high"} <= table.keys() and not table.get("values"):
                raise SchemaError(
                    f"column {table['name']!r}: the model does not say its range; give data with this "
                    "column, or a schema with its low and high"
                )
        features = tuple(Feature(**typed(table, table["name"])) for table in tables)
        schema = Schema(features, tuple(document.pop("link", ())), document.pop("max_changes", None))
        for odd in sorted(document):
            raise SchemaError(f"{source}: unknown key {odd!r}; expected [[feature]] tables")
        self._verify(schema)
        return schema

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """What the model's own steps make of raw rows."""
        rows: Any = frame
        if not _has_names(self.encoder):
            rows = frame.to_numpy(dtype=None)
        encoded: Any = rows if self.encoder is None else self.encoder.transform(rows)
        dense = encoded.toarray() if hasattr(encoded, "toarray") else np.asarray(encoded)
        return dense.astype(np.float64)

    def _columns(self) -> dict[str, list[int]]:
        """The forest's columns of each raw column, in the forest's order."""
        found: dict[str, list[int]] = {}
        for k, track in enumerate(self.tracks):
            mine = found.setdefault(track.name, [])
            if mine and (mine[-1] != k - 1 or self.tracks[mine[-1]] != track or track.encoder is None):
                first = self.tracks[mine[-1]].step
                raise track.fail(f"is used a second time, after step {first!r}: a column has one encoding")
            mine.append(k)
        return found

    def _table(self, name: str, columns: list[int], data: pd.DataFrame | None) -> dict[str, Any]:
        track = self.tracks[columns[0]]
        column = None
        if data is not None:
            if name not in data:
                raise SchemaError(f"the data has no column {name!r}, which the model asks for")
            column = data[name].rename(name)
        if track.encoder is not None:
            return self._category_table(track, columns, column)
        if column is not None and is_yes_or_no(column):
            return self._category_table(track, columns, column, (False, True))
        return number_table(track, column)

    def _category_table(
        self, track: Track, columns: list[int], column: pd.Series | None, categories: Sequence[Any] = ()
    ) -> dict[str, Any]:
        known = list(categories or track.categories)
        values = [MISSING if is_missing(v) else v for v in known]
        codes = self._probed(track.name, known)[:, columns]
        order = np.arange(len(values))
        if len(columns) == 1 and len(values) == 2:
            order = np.argsort(codes[:, 0], kind="stable")
        missing = MISSING if MISSING in values else track.fill if track.fill in values else None
        table: dict[str, Any] = {
            "name": track.name,
            "kind": kind_of(track, values, len(columns)),
            "values": [values[k] for k in order],
            "codes": codes[order].tolist(),
        }
        if table["kind"] == "categorical" and len(values) == 2:
            table["weight"] = 0.125  # both its columns change, and the paper's price of a binary is 1/4
        if table["kind"] == "discrete" and len(values) == 1:
            table["action"] = "fixed"
        if missing is not None:
            table["missing"] = missing
            literal = column is not None and (column == missing).any()
            if not literal:  # nobody can be told to go missing
                table["allowed"] = [v for v in table["values"] if v != missing]
        return table

    def _probed(self, name: str, values: Sequence[Any]) -> np.ndarray:
        """The model's columns where one raw column takes each value in turn."""
        frame = self._probe_frame({name: list(values)}, len(values))
        try:
            return self.transform(frame)
        except Exception as error:
            raise SchemaError(f"column {name!r}: the pipeline fails on its own categories: {error}") from None

    def _probe_frame(self, chosen: Mapping[str, list[Any]], rows: int) -> pd.DataFrame:
        """Raw rows in which unmentioned columns hold something that the pipeline knows."""
        known = {track.name: track for track in self.tracks}
        columns = {}
        for name in self.names:
            if name in chosen:
                values = [chosen[name][i % len(chosen[name])] for i in range(rows)]
            elif name in known and known[name].encoder is not None:
                values = [next((v for v in known[name].categories if not is_missing(v)), np.nan)] * rows
            else:
                values = [0.0] * rows
            columns[name] = pd.Series(values, dtype=object if _is_mixed(values) else None)
        return pd.DataFrame(columns)

    def _verify(self, schema: Schema) -> None:
        """Put the schema's word on every column to the pipeline, at the forest's own thresholds."""
        if self.forest.n_features != len(schema.columns):
            raise SchemaError(
                f"the columns encode to {len(schema.columns)}, but the forest takes {self.forest.n_features}"
            )
        chosen = {f.name: self._probes(f, int(schema.column_start[j])) for j, f in enumerate(schema.features)}
        rows = max(map(len, chosen.values()))
        frame = self._probe_frame(chosen, rows)
        read = read_rows(schema, frame[list(schema.names)], missing=True)
        wrong = [reason for reason in read.reasons if reason is not None]
        if wrong:
            raise SchemaError(f"a value that the model knows is refused: {wrong[0]}")
        ours, theirs = encode(schema, read.numbers), self.transform(frame)
        same = ((ours == theirs) | (np.isnan(ours) & np.isnan(theirs))).all(axis=0)
        for j, feature in enumerate(schema.features):
            if not same[schema.column_start[j] : schema.column_start[j + 1]].all():
                steps = next(track.step for track in self.tracks if track.name == feature.name)
                raise SchemaError(
                    f"step {steps!r}, column {feature.name!r}: its encoding cannot be reproduced exactly"
                )

    def _probes(self, feature: Feature, column: int) -> list[Any]:
        if feature.codes is not None:
            track = next(track for track in self.tracks if track.name == feature.name)
            gone = [v for v in track.categories if is_missing(v)] or [np.nan] * (feature.missing is not None)
            return [v for v in feature.values if not (isinstance(v, str) and v == MISSING)] + gone
        inner = (self.forest.left >= 0) & (self.forest.feature == column)
        edges = np.unique(self.forest.threshold[inner])
        edges = edges[np.abs(edges) < FLOAT32_MAX / 2]  # a split off missing values is at infinity
        edges = decode_numbers(feature.transform or (), edges)[:: max(1, len(edges) // PROBES + 1)]
        numbers = [*feature.span, *edges, *np.nextafter(edges, np.inf)]
        low = -np.inf if feature.lower is None else feature.lower
        high = np.inf if feature.upper is None else feature.upper
        within = [float(x) for x in numbers if low <= x <= high] or [float(np.clip(numbers[0], low, high))]
        return [*within, np.nan] if feature.fills_missing else within


def read_model(model: Any) -> ReadModel:
    """Take a fitted pipeline or a bare ensemble apart.

    Parameters
    ----------
    model : Pipeline, or a supported ensemble
        A `Pipeline` whose steps treat each column by itself (`ColumnTransformer`, one-hot and
        ordinal encoders, scalers, constant imputation) and whose last step is a `RandomForest-`,
        `ExtraTrees-` or `BaggingClassifier` of trees or a single tree. A finished search
        (`GridSearchCV`) stands for its best estimator.

    Raises
    ------
    ForestError
        If the last step is no forest.
    SchemaError
        If a step or a column cannot be followed; it is named.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "debt": [3.0, 2.0, 1.0, 0.5]})
    >>> model = Pipeline([("scale", StandardScaler()), ("forest", RandomForestClassifier(5, random_state=0))])
    >>> read = read_model(model.fit(X, [0, 0, 1, 1]))
    >>> schema = read.schema(X)
    >>> bool((encode(schema, read_rows(schema, X).numbers) == model[:-1].transform(X)).all())
    True
    """
    model = getattr(model, "best_estimator_", model)
    steps = model.steps if isinstance(model, Pipeline) else [("", model)]
    forest = Forest.from_sklearn(steps[-1][1])
    encoder = model[:-1] if len(steps) > 1 else None
    names = _names(model if encoder is None else encoder, forest)
    tracks = tuple(Track(name, "") for name in names)
    if encoder is not None:
        tracks = tuple(follow(encoder, tracks))
    if len(tracks) != forest.n_features:
        raise ForestError(
            f"the pipeline's steps make {len(tracks)} columns, but its forest takes {forest.n_features}"
        )
    return ReadModel(forest, names, tracks, encoder)


def _names(model: Any, forest: Forest) -> tuple[str, ...]:
    named = getattr(model, "feature_names_in_", None)
    if named is not None:
        return tuple(map(str, named))
    return tuple(map(str, range(getattr(model, "n_features_in_", forest.n_features))))


def _has_names(encoder: Pipeline | None) -> bool:
    return hasattr(encoder, "feature_names_in_")


def _is_mixed(values: Sequence[Any]) -> bool:
    """Whether only a column of objects can hold them as they are."""
    return None in values or len({isinstance(v, str) for v in values if not is_missing(v)}) > 1
