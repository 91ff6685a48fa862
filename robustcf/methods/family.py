"""The interface of all families of methods.

A *family* solves one row for all methods of its kind together.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from robustcf.certificate.certificate import Certificate
from robustcf.counterfactual import Status
from robustcf.forest.forest import Label
from robustcf.solve import BestScore, Engine, Limits

if TYPE_CHECKING:
    from robustcf.methods.base import Method

M = TypeVar("M", bound="Method", contravariant=True)


@dataclass
class Answer:
    """The engine's answer for one row and method, before the model checks it."""

    status: Status
    numbers: np.ndarray | None = None
    objective: float = math.nan
    lower_bound: float = math.nan
    best_score: float = math.nan
    best_score_gap: float = math.nan
    relaxation: float = math.nan
    reason: str | None = None
    nodes: int = 0
    seconds: float = 0.0
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Customer:
    """One customer as numbers and as an encoded row, and the target class."""

    numbers: np.ndarray
    encoded: np.ndarray
    target: Label


@dataclass(frozen=True)
class Tools:
    """The engine and limits of a row; `best` caches the best reachable scores."""

    engine: Engine
    each: Limits
    wants_best_score: bool = True
    best: dict[tuple[object, ...], BestScore] = field(default_factory=dict)
    end: float = math.inf

    @property
    def limits(self) -> Limits:
        """Limits of the next solve, within the row's remaining time."""
        left = self.end - time.monotonic()
        return self.each if left >= self.each.seconds else replace(self.each, seconds=max(left, 0.01))


class Family(Protocol[M]):
    """Solves all methods of one kind together."""

    def answers(self, row: Customer, methods: Sequence[M], tools: Tools) -> list[Answer]: ...

    def penalty(self, row: Customer, method: M, point: np.ndarray) -> float:
        """Return the penalty that is added to the distance, recomputed from the point."""
        ...

    def complaints(self, row: Customer, method: M, answer: Answer, encoded: np.ndarray) -> list[str]:
        """Return further errors of an answer, besides score, distance and schema."""
        ...
