"""A counterfactual: one customer's answer, and what is proved about it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from robustcf.forest.forest import Label
from robustcf.schema.feature import Value
from robustcf.schema.schema import Schema

if TYPE_CHECKING:
    from robustcf.certificate.certificate import Certificate
    from robustcf.guarantee import Guarantee
    from robustcf.methods.base import Method

Status = Literal[
    "optimal",
    "feasible",
    "no_recourse",
    "relaxed",
    "heuristic",
    "already_favourable",
    "timeout",
    "invalid_input",
    "error",
]

ADVICE: tuple[Status, ...] = ("optimal", "feasible", "relaxed", "heuristic")  # whose points work


@dataclass(frozen=True)
class Change:
    """One feature's change in original units; only numbers have a `delta`."""

    feature: str
    before: Value
    after: Value
    delta: float | None


@dataclass(frozen=True)
class Counterfactual:
    """One customer's answer, and what is proved about it.

    - `cutoff`: the score at which the model decides for the target.
    - `distance`: the paper's f (eq. 2a).
    - `objective`, `lower_bound`, `gap`: of the minimised value, which is the distance plus `penalty`.
    - `best_score`: for `no_recourse`, the highest score that any allowed change reaches; it is proved to
      lie below the threshold. `point` is then the nearest point that reaches it.
    - `predicted_validity`: the optimistic in-sample figure of `robustness.py`.
    - `relaxation`: how far a `relaxed` point misses the isolation forest's threshold (the paper's ν).
    - `guarantee`: the guarantee for a point on which all trees agree (Prop. 5).
    - `certificate`: what fresh forests say about the point (`Certified`).
    - `alternative`: 0 for the nearest answer, 1 for its first alternative.
    """

    status: Status
    method: Method
    row: int = 0
    reason: str | None = None
    target: Label | None = None
    threshold: float = math.nan
    cutoff: float = math.nan
    score_before: float = math.nan
    score: float = math.nan
    distance: float = math.nan
    objective: float = math.nan
    lower_bound: float = math.nan
    gap: float = math.nan
    best_score: float = math.nan
    best_score_gap: float = math.nan
    point: dict[str, Value] | None = None
    changes: tuple[Change, ...] = ()
    encoded: np.ndarray | None = field(default=None, repr=False, compare=False)
    verified: bool = False
    predicted_validity: float = math.nan
    penalty: float = 0.0
    relaxation: float = math.nan
    guarantee: Guarantee | None = None
    certificate: Certificate | None = None
    solver: str = ""
    seconds: float = 0.0
    nodes: int = 0
    alternative: int = 0

    @property
    def works(self) -> bool:
        """Whether the point flips the decision with the required score, so that it can be advice.

        The point of a `no_recourse` row only reaches the best score, and an `error` row failed a check.
        """
        return self.verified and self.status in ADVICE

    @property
    def certified(self) -> bool:
        """Whether fresh forests certify the point: the certificate makes its claim."""
        return self.certificate is not None and self.certificate.certified

    @property
    def n_changed(self) -> int:
        return len(self.changes)


def relative_gap(objective: float, lower_bound: float) -> float:
    """Return how far the optimum may lie below the objective; NaN without a bound.

    >>> relative_gap(2.0, 1.5), relative_gap(0.0, math.nan)
    (0.25, nan)
    """
    if math.isnan(lower_bound):
        return math.nan
    return 0.0 if objective <= lower_bound else (objective - lower_bound) / abs(objective)


def point_after(
    schema: Schema, before: np.ndarray, after: np.ndarray | None, raw: dict[str, Value]
) -> tuple[dict[str, Value], tuple[Change, ...]]:
    """Return a point in original units, and its changes.

    Values that do not change are copied from the raw row.
    """
    changes = () if after is None else _changes(schema, before, after, raw)
    return {**raw, **{c.feature: c.after for c in changes}}, changes


def _changes(
    schema: Schema, before: np.ndarray, after: np.ndarray, raw: dict[str, Value]
) -> tuple[Change, ...]:
    changes = []
    for feature, old, new in zip(schema.features, before, after, strict=True):
        if old != new and not (math.isnan(old) and math.isnan(new)):
            delta = float(new - old) if feature.is_number else None
            own = feature.value(float(old))
            if feature.is_number or own == feature.other:  # as the customer's table has it
                own = raw[feature.name]
            changes.append(Change(feature.name, own, feature.value(float(new)), delta))
    return tuple(changes)
