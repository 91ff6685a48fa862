"""The 1-LOF of the paper's appendix.

The k nearest to the customer of the distinct training rows that the forest predicts as the target are
considered (k = 10 by default). Δ(xᵢ) is the distance of xᵢ to its nearest neighbour among all of those
rows. The density is lrd(xᵢ) = 1 / max(Δ(xᵢ), Δ(1NN(xᵢ))) = 1 / Δ(xᵢ), because xᵢ is a neighbour of 1NN(xᵢ)
and hence Δ(1NN(xᵢ)) ≤ Δ(xᵢ).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from robustcf.methods.training import coordinates
from robustcf.schema.schema import Schema
from robustcf.support.tolerances import NEAREST_TIE


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The training rows considered for one customer, with their Δ and lrd."""

    schema: Schema
    rows: np.ndarray
    delta: np.ndarray
    density: np.ndarray
    seen: np.ndarray

    @property
    def unit(self) -> float:
        """The scale of the distances: the largest weight of a feature."""
        return max((f.cost_weight for f in self.schema.features), default=0.0) or 1.0

    @property
    def tie(self) -> float:
        return NEAREST_TIE * self.unit

    def __len__(self) -> int:
        return len(self.rows)

    def distances(self, point: np.ndarray) -> np.ndarray:
        """Return f(x, xᵢ) for each row, without the customer's missing features."""
        return np.array(
            [
                math.fsum(
                    float(f.costs(np.asarray(point[j]), row[j]))
                    for j, f in enumerate(self.schema.features)
                    if self.seen[j]
                )
                for row in self.rows
            ]
        )

    def outlier_factor(self, point: np.ndarray) -> float:
        """Return lrd(xᵢ) · max(Δ(xᵢ), f(x, xᵢ)) for the nearest row xᵢ.

        On a tie, the least value counts.
        """
        reach = self.distances(point)
        nearest = reach <= reach.min() + self.tie
        return float((self.density * np.maximum(self.delta, reach))[nearest].min())


def neighbours_of(schema: Schema, rows: np.ndarray, customer: np.ndarray, k: int) -> Neighbours:
    """Return the k distinct rows nearest to a customer (the first ones on a tie).

    Parameters
    ----------
    schema : Schema
    rows : ndarray of shape (n, features)
        Distinct rows as numbers, at least two (`Training.predicted`).
    customer : ndarray
        The customer's row as numbers; missing values do not count.
    k : int

    Examples
    --------
    >>> from robustcf.schema import Feature
    >>> schema = Schema((Feature("a", "continuous", low=0, high=1),))
    >>> near = neighbours_of(schema, np.array([[0.0], [0.5], [0.75]]), np.array([1.0]), k=2)
    >>> near.rows.ravel().tolist(), near.delta.tolist(), near.outlier_factor(np.array([1.0]))
    ([0.75, 0.5], [0.25, 0.25], 1.0)
    """
    seen = ~np.isnan(customer)
    kept = (
        Schema(tuple(f for f, here in zip(schema.features, seen, strict=True) if here))
        if seen.any()
        else schema
    )
    known = rows[:, seen] if seen.any() else rows
    own = customer[seen] if seen.any() else rows[0]
    to_customer = cdist(coordinates(kept, own[None, :]), coordinates(kept, known), "cityblock")[0]
    nearest = np.argsort(to_customer, kind="stable")[:k]
    points = coordinates(schema, rows)
    apart = cdist(points[nearest], points, "cityblock")
    apart[np.arange(len(nearest)), nearest] = np.inf
    delta = apart.min(axis=1)
    other = apart.argmin(axis=1)
    theirs = cdist(points[other], points, "cityblock")
    theirs[np.arange(len(other)), other] = np.inf
    density = 1.0 / np.maximum(delta, theirs.min(axis=1))
    return Neighbours(schema, rows[nearest], delta, density, seen)
