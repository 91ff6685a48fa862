"""All features in the order of the model's columns, and their TOML form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

from robustcf.schema.feature import RELATIVE, Action, Feature, Kind, Scaling, SchemaError, Value, typed
from robustcf.schema.infer import infer_feature
from robustcf.schema.links import Link, check_link, link_of
from robustcf.support.documents import DocumentError, decoded, parse_toml

__all__ = ["Action", "Feature", "Kind", "Scaling", "Schema", "SchemaError", "Value", "infer_feature"]

_FOR_PEOPLE = {"unit", "label"}
# These keys were added later. They enter a fingerprint only where used, so older fingerprints stay valid.
_NEWER = {*RELATIVE, "forbidden", "cost_table", "transform", "codes", "missing", "other"}


@dataclass(frozen=True)
class Schema:
    """All features, in the order of the model's columns, and the rules across them.

    Parameters
    ----------
    features : tuple of Feature
    links : tuple of Link
        One-way implications between the moves of two features.
    max_changes : int, optional
        Largest number of features that may differ from the customer's own values.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [20, 30, 40], "job": ["clerk", "cook", "pilot"]})
    >>> schema = Schema.from_frame(frame, {"age": {"action": "increase"}})
    >>> schema.columns
    ('age', 'job=clerk', 'job=cook', 'job=pilot')
    """

    features: tuple[Feature, ...]
    links: tuple[Link, ...] = ()
    max_changes: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "links", tuple(link_of(link) for link in self.links))
        names = [f.name for f in self.features]
        if not names:
            raise SchemaError("a schema needs at least one feature")
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise SchemaError(f"feature {twice[0]!r} is listed twice")
        for link in self.links:
            check_link(link, dict(zip(names, self.features, strict=True)))
        most = self.max_changes
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise SchemaError(f"max_changes is {most!r}; it must be a whole number of at least 1")

    def __getitem__(self, name: str) -> Feature:
        for feature in self.features:
            if feature.name == name:
                return feature
        raise KeyError(name)

    def __len__(self) -> int:
        return len(self.features)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.features)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(name for f in self.features for name in _column_names(f))

    @cached_property
    def column_start(self) -> np.ndarray:
        """First encoded column of each feature, followed by the total number of columns."""
        return np.concatenate([[0], np.cumsum([f.n_columns for f in self.features])]).astype(np.int64)

    def replace(self, name: str, **changes: Any) -> Schema:
        """Return a copy in which one feature is changed."""
        self._require(name)
        features = tuple(_with(f, changes) if f.name == name else f for f in self.features)
        return replace(self, features=features)

    def with_rules(
        self, links: Iterable[Link | Mapping[str, Any]] = (), max_changes: int | None = None
    ) -> Schema:
        """Return a copy with these rules across features instead of its own.

        Links may be given as tables, as in a schema file:

        >>> schema = Schema((Feature("degree", "discrete", values=("none", "BSc", "MSc")),
        ...                  Feature("age", "discrete", values=(20, 30, 40))))
        >>> link = {"when": {"feature": "degree", "moves": "up"},
        ...         "then": {"feature": "age", "moves": ["same", "up"]}}
        >>> print(schema.with_rules([link], max_changes=1).links[0])
        degree up => age same or up
        """
        return replace(self, links=tuple(link_of(link) for link in links), max_changes=max_changes)

    def _require(self, name: str) -> None:
        if name not in self.names:
            raise SchemaError(f"no feature {name!r}; the schema has {', '.join(self.names)}")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that affects an answer; units and labels do not."""
        features = [
            {
                k: v
                for k, v in asdict(f).items()
                if k not in _FOR_PEOPLE and (k not in _NEWER or v is not None)
            }
            for f in self.features
        ]
        content: Any = features
        if self.has_rules:
            links = [asdict(link) for link in self.links]
            content = {"features": features, "links": links, "max_changes": self.max_changes}
        return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()

    @property
    def has_rules(self) -> bool:
        """Whether the schema has rules across features."""
        return bool(self.links) or self.max_changes is not None

    @classmethod
    def from_frame(
        cls, frame: pd.DataFrame, overrides: Mapping[str, Mapping[str, Any]] | None = None
    ) -> Schema:
        """Infer kinds, values and ranges from data; `overrides` change any of them.

        A column with two values becomes binary. Words become categorical, ordered categories and
        whole numbers become discrete, and other numbers become continuous. Column names are
        converted to text: column 0 becomes "0".
        """
        named = {str(name): changes for name, changes in (overrides or {}).items()}
        unknown = [name for name in named if name not in map(str, frame.columns)]
        if unknown:
            raise SchemaError(f"override for {unknown[0]!r}, which is not a column of the data")
        return cls(tuple(infer_feature(column, **named.get(str(c), {})) for c, column in frame.items()))

    @classmethod
    def from_toml(cls, source: str | PathLike[str] | bytes, *, name: str | None = None) -> Schema:
        """Read a schema file, or the bytes of one.

        It has one `[[feature]]` table per column, with the keys of `Feature`. Rules across features
        are `max_changes` at the top and one `[[link]]` table per link.

        Parameters
        ----------
        source : path or bytes
            Text and paths name a file. Bytes are the content of a file, in UTF-8.
        name : str, optional
            What errors call the file; by default its path, or "schema" for bytes.

        Examples
        --------
        >>> schema = Schema((Feature("age", "continuous", low=18, high=90),))
        >>> Schema.from_toml(schema.to_toml().encode()) == schema
        True
        """
        if isinstance(source, bytes):
            content, where = source, name or "schema"
        else:
            content, where = Path(source).read_bytes(), name or str(Path(source))
        try:
            document = parse_toml(decoded(content))
        except (DocumentError, UnicodeDecodeError) as error:
            raise SchemaError(f"{where}: not a TOML file: {error}") from None
        unknown = sorted(document.keys() - {"feature", "link", "max_changes"})
        if unknown:
            raise SchemaError(f"{where}: unknown key {unknown[0]!r}; expected [[feature]] tables")
        tables = document.get("feature")
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            raise SchemaError(f"{where}: no [[feature]] tables")
        links = document.get("link", [])
        if not isinstance(links, list):
            raise SchemaError(f"{where}: link must be [[link]] tables")
        features = tuple(_from_table(table, where) for table in tables)
        try:
            return cls(features, tuple(links), document.get("max_changes"))
        except SchemaError as error:
            raise SchemaError(f"{where}: {error}") from None

    def to_toml(self) -> str:
        """Return the schema as TOML text that `from_toml` can read."""
        tables = [
            {k: v for k, v in asdict(f).items() if v not in (None, "") and (k, v) != ("values", ())}
            for f in self.features
        ]
        limit = {} if self.max_changes is None else {"max_changes": self.max_changes}
        links = {"link": [asdict(link) for link in self.links]} if self.links else {}
        return tomli_w.dumps({**limit, "feature": tables, **links})


def _from_table(table: Mapping[str, Any], where: str) -> Feature:
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaError(f"{where}: a [[feature]] has no name")
    if "kind" not in table:
        raise SchemaError(f"{where}: feature {name!r} has no kind")
    return Feature(**typed(table, name))


def _with(feature: Feature, changes: Mapping[str, Any]) -> Feature:
    return replace(feature, **typed(changes, feature.name))


def _column_names(feature: Feature) -> list[str]:
    if feature.kind == "categorical" and feature.n_columns:
        if feature.n_columns == len(feature.values):
            return [f"{feature.name}={v}" for v in feature.values]
        return [f"{feature.name}[{k}]" for k in range(feature.n_columns)]
    return [feature.name] * feature.n_columns
