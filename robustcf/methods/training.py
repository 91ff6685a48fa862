"""Training rows, and the paper's distance as an l1 metric."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

from robustcf.forest.forest import Forest, Label, Voting
from robustcf.schema.encode import decode
from robustcf.schema.schema import Schema


class Training:
    """The rows that the forest was trained on, checked once.

    Parameters
    ----------
    forest, schema
        The explained forest and its schema.
    X, y : ndarray
        Encoded rows, and labels among the forest's classes.
    targets : labels
        Possible target classes; each must occur in `y`.
    voting : {"soft", "hard"}
        How the forest predicts the rows.
    """

    def __init__(
        self,
        forest: Forest,
        schema: Schema,
        X: np.ndarray,
        y: np.ndarray,
        *,
        targets: Iterable[Label],
        voting: Voting = "soft",
    ) -> None:
        self.X, self.y = np.asarray(X, dtype=np.float64), np.asarray(y)
        if self.X.ndim != 2 or self.X.shape[1] != forest.n_features:
            raise ValueError(
                f"training rows have shape {self.X.shape}; the forest takes {forest.n_features} columns"
            )
        if self.y.shape != (len(self.X),):
            raise ValueError(f"training has {len(self.X)} rows but labels of shape {self.y.shape}")
        if np.isinf(self.X).any():
            raise ValueError("training rows hold infinite values")
        self.forest, self.schema, self.voting = forest, schema, voting
        self.targets = tuple(targets)
        for target in self.targets:
            if not len(self.labelled(target)):
                raise ValueError(f"the training set has no row of the target class {target!r}")
        self.predicted = cache(self._predicted)

    def labelled(self, target: Label) -> np.ndarray:
        """Return the encoded rows whose label is the target."""
        rows: np.ndarray = self.X[self.y == target]
        return rows

    def _predicted(self, target: Label) -> np.ndarray:
        """Return the distinct complete rows predicted as the target, as numbers.

        Rows at distance 0 of each other count once.
        """
        mine = self.forest.predict(self.X, self.voting) == self.forest.class_index(target)
        rows = self.X[mine & ~np.isnan(self.X).any(axis=1)]
        numbers = (
            decode(self.schema, np.unique(rows, axis=0)) if len(rows) else np.zeros((0, len(self.schema)))
        )
        _, first = np.unique(coordinates(self.schema, numbers), axis=0, return_index=True)
        return numbers[np.sort(first)]


def coordinates(schema: Schema, numbers: np.ndarray) -> np.ndarray:
    """Return rows as points whose l1 distance is the paper's f (eq. 2a).

    >>> from robustcf.schema import Feature
    >>> a, b = Feature("a", "continuous", low=0, high=4), Feature("b", "categorical", values="xyz")
    >>> schema = Schema((a, b))
    >>> coordinates(schema, np.array([[1.0, 2.0]]))
    array([[0.25, 0.  , 0.  , 0.25]])
    """
    columns = []
    for j, feature in enumerate(schema.features):
        if feature.ordered:
            columns.append(feature.cost_weight * feature.scaled(numbers[:, j])[:, None])
        else:
            codes = np.arange(len(feature.values))
            columns.append(feature.cost_weight * (numbers[:, j][:, None] == codes).astype(np.float64))
    return np.hstack(columns)
