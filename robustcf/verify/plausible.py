"""Check the points' plausibility: isolation forests and 1-LOF penalties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from robustcf.schema.schema import Feature
from robustcf.support.tolerances import CHECKED_COLUMN, PATH_BLUR
from robustcf.verify.isolation import Isolation
from robustcf.verify.outlier import Neighbours
from robustcf.verify.reading import numbers_of

if TYPE_CHECKING:
    from robustcf.verify.sheet import Sheet

ISOLATION, OUTLIER = "isolation-forest", "local-outlier-factor"


@dataclass(frozen=True)
class Plausible:
    """The data to check methods that use training rows.

    `isolation` maps (index of the method, index of the target class) to an isolation forest.
    `neighbours` maps a target class to training rows. Missing entries are not checked.
    """

    isolation: Mapping[tuple[int, int], Isolation] = field(default_factory=dict)
    neighbours: Mapping[int, Neighbours] = field(default_factory=dict)


def check_plausible(sheet: Sheet, points: np.ndarray, origin: np.ndarray, fine: np.ndarray) -> None:
    """Check the points of the rows `sheet.block.at` that are `fine`."""
    plausible, at = sheet.asked.plausible, sheet.block.at
    if plausible is None:
        return
    for d, demand in enumerate(sheet.asked.demands):
        for target in np.unique(sheet.target[at]):
            mine = np.flatnonzero(fine & (sheet.method[at] == d) & (sheet.target[at] == target))
            mine = mine[sheet.status[at[mine]] != "error"]
            if demand.name == ISOLATION and (d, target) in plausible.isolation:
                _check_isolation(sheet, plausible.isolation[d, target], points, mine)
            if demand.name == OUTLIER and target in plausible.neighbours:
                mine = mine[sheet.status[at[mine]] != "no_recourse"]
                _check_outlier(sheet, d, plausible.neighbours[target], points, origin, mine)


def _check_isolation(sheet: Sheet, isolation: Isolation, points: np.ndarray, mine: np.ndarray) -> None:
    rows, margin = sheet.block.at[mine], isolation.margin(points[mine])
    status = sheet.status[rows]
    for wrong, what in (
        (
            np.isin(status, ("optimal", "feasible")) & (margin < -PATH_BLUR),
            "the isolation forest rejects the point",
        ),
        ((status == "relaxed") & (margin > PATH_BLUR), "relaxed, but the isolation forest accepts the point"),
    ):
        full = np.zeros(sheet.n, dtype=bool)
        full[rows] = wrong
        sheet.note("plausibility", full, what)


def _check_outlier(
    sheet: Sheet, d: int, neighbours: Neighbours, points: np.ndarray, origin: np.ndarray, mine: np.ndarray
) -> None:
    """Check that the objective is the distance plus λ times the 1-LOF."""
    rows, features = sheet.block.at[mine], sheet.asked.schema.features
    own, moved = (numbers_of(features, encoded[mine]) for encoded in (origin, points))
    known = (np.isnan(own) == np.isnan(first_columns(features, origin[mine]))).all(axis=1)
    sheet.findings.unchecked["1-LOF of customers whose encoded row cannot be decoded"] += int((~known).sum())
    rows, own, moved = rows[known], own[known], moved[known]
    demand = sheet.asked.demands[d]
    low, high = neighbours.factors(own, moved, demand.neighbours)
    weight = float(demand.parameter or 0.0)
    distance, objective = sheet.number("distance")[rows], sheet.number("objective")[rows]
    slack = 10 * CHECKED_COLUMN * np.maximum(neighbours.unit, np.abs(objective))
    least, most = distance + weight * low, distance + weight * high
    wrong = np.zeros(sheet.n, dtype=bool)
    wrong[rows] = ~((objective >= least - slack) & (objective <= most + slack))
    wanted = np.full(sheet.n, np.nan)
    wanted[rows] = least
    stored = sheet.number("objective")
    sheet.findings.where(
        "plausibility",
        wrong,
        lambda i: (
            f"{sheet.name(i)}: objective: stored {stored[i]:.12g}, distance and 1-LOF give {wanted[i]:.12g}"
        ),
    )


def first_columns(features: tuple[Feature, ...], encoded: np.ndarray) -> np.ndarray:
    """Return each feature's first encoded column.

    It is NaN where the customer's value is missing.
    """
    start = np.cumsum([0, *(f.n_columns for f in features)])[:-1]
    columns = [
        encoded[:, s] if f.n_columns else np.zeros(len(encoded)) for s, f in zip(start, features, strict=True)
    ]
    return np.stack(columns, axis=1)
