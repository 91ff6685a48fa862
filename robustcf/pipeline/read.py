"""Read a fitted scikit-learn pipeline as a schema of raw columns and a forest.

Categories, scales and names come from the pipeline. The schema encodes a raw row to exactly the matrix that
the pipeline produces, bit for bit, so the pipeline's own forest can be explained. `probes.py` compares every
column with the pipeline and refuses a column that cannot be reproduced. The pipeline can also judge the
points that are found (`ReadModel.judge`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import joblib
import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from robustcf.forest.arrays import ForestError
from robustcf.forest.forest import Forest
from robustcf.judge import Judge
from robustcf.pipeline.frames import as_series, missing_of
from robustcf.pipeline.judge import PipelineJudge
from robustcf.pipeline.probes import check_against_model
from robustcf.pipeline.steps import Track, follow, is_missing
from robustcf.pipeline.tables import MISSING, OTHER, changed_tables, is_yes_or_no, kind_of, number_table
from robustcf.pipeline.wrapped import Opened, forest_of, opened
from robustcf.schema.feature import Feature, SchemaError, typed
from robustcf.schema.schema import Schema


@dataclass(frozen=True)
class ReadModel:
    """A fitted model: its forest, and the encoding of each raw column.

    Build it with `read_model`; `schema()` then returns its schema.
    """

    forest: Forest
    names: tuple[str, ...]
    tracks: tuple[Track, ...]
    encoder: Pipeline | None
    model: Any = field(repr=False, compare=False)
    scorer: Any = field(repr=False, compare=False)  # gives the forest's scores, before any calibration

    def schema(
        self,
        data: pd.DataFrame | None = None,
        changes: Mapping[str, Any] | None = None,
        source: str = "the schema file",
    ) -> Schema:
        """Return the schema of the raw columns.

        Parameters
        ----------
        data : DataFrame, optional
            Raw rows, for kinds and ranges that the model does not contain. Other columns are ignored.
        changes : mapping, optional
            The content of a schema file (`tomllib`). Its entries replace what the model and the data
            say about a column, except for the encoding, which is always the model's.
        source : str
            The file's name in messages.

        Raises
        ------
        SchemaError
            If a range is unknown, the file contradicts the model, or a column's encoding cannot be
            reproduced.
        """
        tables = self._tables(data)
        document = dict(changes or {})
        tables = changed_tables(tables, document.pop("feature", []), source)
        for table in tables:
            if "transform" in table and not {"low", "high"} <= table.keys() and not table.get("values"):
                raise SchemaError(
                    f"column {table['name']!r}: the model does not contain its range; give data with this "
                    "column, or a schema with its low and high"
                )
        features = tuple(Feature(**typed(table, table["name"])) for table in tables)
        schema = Schema(features, tuple(document.pop("link", ())), document.pop("max_changes", None))
        for odd in sorted(document):
            raise SchemaError(f"{source}: unknown key {odd!r}; expected [[feature]] tables")
        check_against_model(self, schema)
        return schema

    def judge(self, schema: Schema) -> Judge:
        """Return the model itself as a judge for `Explainer(..., judge=...)`."""
        return PipelineJudge(self, schema)

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Encode raw rows with the model's own steps."""
        rows = self._as_fitted(frame)
        with joblib.parallel_config(backend="sequential"), _others_are_fine():
            encoded: Any = rows if self.encoder is None else self.encoder.transform(rows)
        dense = encoded.toarray() if hasattr(encoded, "toarray") else np.asarray(encoded)
        return dense.astype(np.float64)

    def decide(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return the forest's score of every class, and the class position that the model itself predicts.

        If the model calibrates scores, these are the scores before calibration.
        """
        rows = self._as_fitted(frame)
        # Threads would sum the trees in random order.
        with joblib.parallel_config(backend="sequential"), _others_are_fine():
            scores, labels = self.scorer.predict_proba(rows), self.model.predict(rows)
        return scores, np.searchsorted(self.model.classes_, labels)

    def frame(self, columns: Mapping[str, pd.Series], rows: int) -> pd.DataFrame:
        """Build raw rows for the model; columns that are not given hold a valid value."""
        known = {track.name: track for track in self.tracks}
        made: dict[str, Any] = {}
        for name in self.names:
            if name in columns:
                made[name] = columns[name].reset_index(drop=True)
            elif name in known and known[name].encoder is not None:
                one = next((v for v in known[name].categories if not is_missing(v)), np.nan)
                made[name] = as_series([one] * rows)
            else:
                made[name] = pd.Series(np.zeros(rows))
        return pd.DataFrame(made)

    @property
    def columns(self) -> tuple[str, ...]:
        """The raw columns that the forest uses, in the order of its columns."""
        return tuple(dict.fromkeys(track.name for track in self.tracks))

    def _as_fitted(self, frame: pd.DataFrame) -> Any:
        """Return the frame if the model was fitted on a frame, else its values."""
        return frame.to_numpy(dtype=None) if _fitted_names(opened(self.model)) is None else frame

    def _columns(self) -> dict[str, list[int]]:
        """Return the forest's columns of each raw column, in the forest's order."""
        found: dict[str, list[int]] = {}
        for k, track in enumerate(self.tracks):
            mine = found.setdefault(track.name, [])
            if mine and (mine[-1] != k - 1 or self.tracks[mine[-1]] != track or track.encoder is None):
                first = self.tracks[mine[-1]].step
                raise track.fail(f"is already used by step {first!r}; a column can have only one encoding")
            mine.append(k)
        return found

    def _tables(self, data: pd.DataFrame | None) -> list[dict[str, Any]]:
        """Return each column's kind, encoding, and range or values seen in the data."""
        found = self._columns()
        for name in found if data is not None else ():
            if data is not None and name not in data:
                raise SchemaError(f"the data has no column {name!r}; the model needs it")
        tracks = {name: self.tracks[columns[0]] for name, columns in found.items()}
        shown = {name: None if data is None else data[name].rename(name) for name in found}
        categories: dict[str, Sequence[Any]] = {}
        for name, track in tracks.items():
            column = shown[name]
            if track.encoder is not None:
                categories[name] = _with_others(track, len(found[name]))
            elif column is not None and is_yes_or_no(column):
                categories[name] = (False, True)
        codes = self._probed(categories)
        return [
            self._category_table(tracks[name], shown[name], categories[name], codes[name][:, columns])
            if name in categories
            else number_table(tracks[name], shown[name])
            for name, columns in found.items()
        ]

    def _category_table(
        self, track: Track, column: pd.Series | None, categories: Sequence[Any], codes: np.ndarray
    ) -> dict[str, Any]:
        values = [MISSING if is_missing(v) else v for v in categories]
        order = np.arange(len(values))
        if codes.shape[1] == 1 and len(values) == 2:
            order = np.argsort(codes[:, 0], kind="stable")
        missing = MISSING if MISSING in values else track.fill if track.fill in values else None
        real = [v for v in values if v != OTHER or not track.takes_others]
        table: dict[str, Any] = {
            "name": track.name,
            "kind": kind_of(track, real, codes.shape[1]),
            "values": [values[k] for k in order],
            "codes": codes[order].tolist(),
        }
        if table["kind"] == "categorical" and len(real) == 2:
            table["weight"] = 0.125  # two columns change; together they cost the paper's 1/4
        if table["kind"] == "discrete" and len(values) == 1:
            table["action"] = "fixed"
        if missing is not None:
            table["missing"] = missing
            literal = column is not None and (column == missing).any()
            if not literal:  # "become missing" is not advice
                table["allowed"] = [v for v in table["values"] if v != missing]
        if len(real) < len(values):
            table["other"] = OTHER
            table["allowed"] = [v for v in table.get("allowed", table["values"]) if v != OTHER]
        return table

    def _probed(self, categories: Mapping[str, Sequence[Any]]) -> dict[str, np.ndarray]:
        """Encode every category of each raw column with the model's own steps."""
        if not categories:
            return {}
        rows = max(map(len, categories.values()))
        turns = {n: as_series(v).take(np.arange(rows) % len(v)) for n, v in categories.items()}
        try:
            encoded = self.transform(self.frame(turns, rows))
        except Exception as error:
            if len(categories) > 1:  # retry one by one to name the column that fails
                return {n: c for name, v in categories.items() for n, c in self._probed({name: v}).items()}
            name = next(iter(categories))
            raise SchemaError(f"column {name!r}: the pipeline fails on its own categories: {error}") from None
        return {name: encoded[: len(values)] for name, values in categories.items()}

    def takes_missing(self) -> bool:
        """Whether the model accepts missing numbers that no step fills."""
        numbers = [t.name for t in self.tracks if t.encoder is None and not t.fills_missing]
        gone = {name: pd.Series([np.nan]) for name in numbers}
        gone |= {t.name: as_series([missing_of(t)]) for t in self.tracks if t.fill is not None}
        try:
            self.scorer.predict_proba(self._as_fitted(self.frame(gone, 1)))
        except Exception:  # an earlier step, or a sparse matrix, does not accept missing values
            return False
        return True


@contextmanager
def _others_are_fine() -> Iterator[None]:
    """Silence scikit-learn's warning about words that an encoder was not fitted on; the schema has them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Found unknown categories", category=UserWarning)
        yield


def _with_others(track: Track, columns: int) -> Sequence[Any]:
    """Return an encoder's categories and, if it accepts others, a word that is none of them."""
    named = [MISSING if is_missing(v) else v for v in track.categories]
    binary = kind_of(track, named, columns) == "binary"
    accepts = track.takes_others and not binary and OTHER not in track.categories
    return [*track.categories, OTHER] if accepts else track.categories


def read_model(model: Any) -> ReadModel:
    """Read a fitted pipeline or a bare ensemble.

    Parameters
    ----------
    model : Pipeline, or a supported ensemble
        A `Pipeline` whose steps treat each column by itself (`ColumnTransformer`, one-hot and
        ordinal encoders, scalers, constant imputation) and whose last step is a `RandomForest-`,
        `ExtraTrees-` or `BaggingClassifier` of trees or a single tree. For a fitted search
        (`GridSearchCV`), the best estimator is used. Wrappers are followed (`wrapped.py`).

    Raises
    ------
    ForestError
        If the last step is not a forest.
    SchemaError
        If a step or a column is not supported; the message names it.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.preprocessing import StandardScaler
    >>> from robustcf.schema.encode import encode, read_rows
    >>> X = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "debt": [3.0, 2.0, 1.0, 0.5]})
    >>> model = Pipeline([("scale", StandardScaler()), ("forest", RandomForestClassifier(5, random_state=0))])
    >>> read = read_model(model.fit(X, [0, 0, 1, 1]))
    >>> schema = read.schema(X)
    >>> bool((encode(schema, read_rows(schema, X).numbers) == model[:-1].transform(X)).all())
    True
    """
    model = getattr(model, "best_estimator_", model)
    parts = opened(model)
    forest = forest_of(parts)
    encoder = Pipeline(list(parts.steps)) if parts.steps else None
    names = _names(parts, forest)
    tracks = tuple(Track(name, "") for name in names)
    if encoder is not None:
        tracks = tuple(follow(encoder, tracks))
    if len(tracks) != forest.n_features:
        raise ForestError(
            f"the pipeline's steps make {len(tracks)} columns, but its forest takes {forest.n_features}"
        )
    scorer = model if parts.calibration is None else parts.scorer
    read = ReadModel(forest, names, tracks, encoder, model, scorer)
    if not forest.accepts_missing or read.takes_missing():
        return read
    strict = replace(forest, accepts_missing=False)
    strict.__dict__["judge"] = forest.judge
    return replace(read, forest=strict)


def _fitted_names(parts: Opened) -> Sequence[Any] | None:
    """Return the names of the columns that a model was fitted on, or None."""
    for step in (*(step for _, step in parts.steps), parts.final):
        if step is not None and not isinstance(step, str):
            names: Sequence[Any] | None = getattr(step, "feature_names_in_", None)
            return names
    return None


def _names(parts: Opened, forest: Forest) -> tuple[str, ...]:
    named = _fitted_names(parts)
    if named is not None:
        return tuple(map(str, named))
    first = next((step for _, step in parts.steps if hasattr(step, "n_features_in_")), parts.final)
    return tuple(map(str, range(getattr(first, "n_features_in_", forest.n_features))))
