"""The 1-LOF penalty from its definition.

It is lrd(xᵢ) · max(Δ(xᵢ), f(x, xᵢ)) for the nearest row xᵢ.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robustcf.schema.schema import Feature
from robustcf.support.tolerances import NEAREST_ROUNDING, NEAREST_TIE
from robustcf.verify.reading import paper_costs, weight_of


class Neighbours:
    """Distinct complete training rows that the forest predicts as the target."""

    def __init__(self, features: Sequence[Feature], rows: np.ndarray) -> None:
        self.features, self.rows = features, _distinct(features, rows)
        self.unit = max(map(weight_of, features), default=0.0) or 1.0
        self._lonely: dict[int, tuple[float, int]] = {}

    def factors(self, own: np.ndarray, points: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and the highest 1-LOF that each point can have.

        They differ only if rounding decides which rows are the k nearest.
        """
        low, high = np.zeros(len(own)), np.zeros(len(own))
        for i, (customer, point) in enumerate(zip(own, points, strict=True)):
            low[i], high[i] = self._factor(customer, point, k)
        return low, high

    def _factor(self, customer: np.ndarray, point: np.ndarray, k: int) -> tuple[float, float]:
        seen = ~np.isnan(customer)
        tie = NEAREST_TIE * self.unit
        apart = self.distances(customer, seen)
        order = np.argsort(apart, kind="stable")[:k]
        edge = apart[order[-1]]
        sure = np.flatnonzero(apart < edge - NEAREST_ROUNDING * self.unit)
        open_ = np.flatnonzero(np.abs(apart - edge) <= NEAREST_ROUNDING * self.unit)
        if len(sure) + len(open_) <= k:
            value = self._at(point, seen, np.union1d(sure, open_), tie)
            return value, value
        sets = [order, *(np.union1d(sure, [i]) for i in open_[:200])]
        values = [self._at(point, seen, rows, tie) for rows in sets]
        return min(values), max(values)

    def _at(self, point: np.ndarray, seen: np.ndarray, rows: np.ndarray, tie: float) -> float:
        reach = self.distances(point, seen, rows)
        nearest = rows[reach <= reach.min() + tie]
        values = []
        for i, r in zip(rows, reach, strict=True):
            if i in nearest:
                delta, other = self._delta(int(i))
                values.append(max(delta, r) / max(delta, self._delta(other)[0]))
        return float(min(values))

    def _delta(self, i: int) -> tuple[float, int]:
        """Return Δ(xᵢ) and the row at that distance."""
        if i not in self._lonely:
            apart = self.distances(self.rows[i], np.ones(self.rows.shape[1], dtype=bool))
            apart[i] = np.inf
            other = int(apart.argmin())
            self._lonely[i] = float(apart[other]), other
        return self._lonely[i]

    def distances(self, point: np.ndarray, seen: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Return f between a point and the training rows, over the features in `seen`."""
        chosen = self.rows if rows is None else self.rows[rows]
        total = np.zeros(len(chosen))
        for j, feature in enumerate(self.features):
            if seen[j]:
                total += paper_costs(feature, np.full(len(chosen), point[j]), chosen[:, j])
        return total


def _distinct(features: Sequence[Feature], rows: np.ndarray) -> np.ndarray:
    """Return one row, the first, of each group of rows at distance 0 from each other."""
    columns = []
    for j, feature in enumerate(features):
        (low, high), weight = feature.span, weight_of(feature)
        scaled = (rows[:, j] - low) / (high - low) if feature.ordered and high > low else rows[:, j]
        constant = weight == 0 or (feature.ordered and high <= low)
        columns.append(np.zeros(len(rows)) if constant else weight * scaled)
    _, first = np.unique(np.stack(columns, axis=1), axis=0, return_index=True)
    return rows[np.sort(first)]
