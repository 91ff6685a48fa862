"""A data set: rows in original units, labels and a schema."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from robustcf.schema.encode import Row, encode, read_rows
from robustcf.schema.schema import Schema


class DatasetError(ValueError):
    """A data set cannot be read, found or fetched; the message says what to do."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with their labels and schema.

    Parameters
    ----------
    name : str
        The data set's name, in lower case.
    X : DataFrame
        The rows in original units, one column per feature, in the schema's order.
    y : ndarray of int
        The labels.
    schema : Schema
        The description of each column.

    Examples
    --------
    >>> X = pd.DataFrame({"age": [20, 30, 40], "job": ["cook", "clerk", "cook"]})
    >>> data = Dataset("staff", X, np.array([0, 1, 1]), Schema.from_frame(X))
    >>> len(data), data.classes
    (3, (0, 1))
    >>> data.encode({"age": 25, "job": "cook"})
    array([[0.25, 1.  ]])
    """

    name: str
    X: pd.DataFrame
    y: np.ndarray
    schema: Schema

    def __post_init__(self) -> None:
        labels = np.asarray(self.y)
        if labels.ndim != 1 or len(labels) != len(self.X):
            raise DatasetError(
                f"data set {self.name!r}: {len(self.X)} rows need as many labels, not shape {labels.shape}"
            )
        if tuple(map(str, self.X.columns)) != self.schema.names:
            raise DatasetError(
                f"data set {self.name!r}: the columns must be the schema's features, in the same order"
            )
        if labels.dtype.kind not in "iub":
            raise DatasetError(f"data set {self.name!r}: labels must be whole numbers, not {labels.dtype}")
        object.__setattr__(self, "y", labels.astype(np.int64))

    def __len__(self) -> int:
        return len(self.X)

    @property
    def classes(self) -> tuple[int, ...]:
        """The distinct labels, in rising order."""
        return tuple(int(label) for label in np.unique(self.y))

    @cached_property
    def encoded(self) -> np.ndarray:
        """All rows as the float64 matrix for training a model, read-only and computed once.

        >>> X = pd.DataFrame({"age": [20, 30, 40]})
        >>> Dataset("staff", X, np.array([0, 1, 1]), Schema.from_frame(X)).encoded[:, 0]
        array([0. , 0.5, 1. ])
        """
        matrix = np.ascontiguousarray(self.encode(self.X))
        matrix.setflags(write=False)
        return matrix

    def encode(self, rows: pd.DataFrame | Row | Iterable[Row]) -> np.ndarray:
        """Return rows in original units as the float64 matrix for training a model.

        Parameters
        ----------
        rows : DataFrame or mapping
            One row or several, with a value for every feature.

        Returns
        -------
        ndarray of float64
            Columns in schema order. A categorical becomes one column per category (sorted), numbers are
            scaled to [0, 1], and constant columns are omitted.

        Raises
        ------
        DatasetError
            If a row cannot be used; the message names the first one (counted from 0) and why.
        """
        read = read_rows(self.schema, rows)
        for position, reason in enumerate(read.reasons):
            if reason is not None:
                raise DatasetError(f"data set {self.name!r}, row {position}: {reason}")
        return encode(self.schema, read.numbers)
