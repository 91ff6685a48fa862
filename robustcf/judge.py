"""A second judge beside the forest: the model as its owner has it, asked with raw rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from robustcf.forest.forest import Label, Voting

SAME = 1e-9  # two sums over the trees, in whatever order, differ by less


class Judge(Protocol):
    """Decides on raw rows in original units, as the model's owner would."""

    def __call__(self, rows: pd.DataFrame, voting: Voting, /) -> tuple[np.ndarray, list[Label]]:
        """The score of every class, in the forest's order, and the predicted label of each row."""
        ...


@dataclass(frozen=True)
class Verdict:
    """What a judge says of one row; `refusal` if it does not take the row."""

    scores: np.ndarray
    label: Label | None
    refusal: str | None = None

    def score(self, column: int) -> float:
        return math.nan if self.refusal is not None else float(self.scores[column])


@dataclass(frozen=True)
class Judged:
    """What the real model says of one point, and of the row that it explains."""

    encoded: np.ndarray
    score_before: float
    score: float
    label: Label | None
    predicted_validity: float
    complaint: str | None = None

    def overruled(self, before: Verdict, after: Verdict, column: int) -> Judged:
        """A judge's scores and label in the place of the forest's."""
        complaint = None
        if after.refusal is not None:
            complaint = f"the model does not take the point: {after.refusal}"
        elif abs(after.score(column) - self.score) > SAME:
            complaint = (
                f"the model scores the point {after.score(column)}, the forest read from it {self.score}"
            )
        return replace(
            self,
            score_before=before.score(column),
            score=after.score(column),
            label=after.label,
            complaint=complaint,
        )


def ask(judge: Judge, rows: Sequence[Mapping[str, Any]], voting: Voting) -> list[Verdict]:
    """A judge's word on every raw row, in one call; row by row only if that call fails."""
    if not rows:
        return []
    try:
        scores, labels = judge(pd.DataFrame(list(rows)), voting)
        return [Verdict(s, label) for s, label in zip(scores, labels, strict=True)]
    except Exception as error:
        if len(rows) == 1:
            return [Verdict(np.array([]), None, f"{type(error).__name__}: {error}")]
    return [verdict for row in rows for verdict in ask(judge, [row], voting)]


def disputed(verdict: Verdict, own: Label) -> str | None:
    """Why nothing is said of a row: its judge decides it differently from the forest, or not at all."""
    if verdict.refusal is not None:
        return f"the model does not take this row: {verdict.refusal}"
    if verdict.label != own:
        return f"the model decides {verdict.label!r} on this row, the forest read from it {own!r}"
    return None
