"""The judge: the user's own model, which decides on raw rows and points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from robustcf.forest.forest import Forest, Label, Voting
from robustcf.support.tolerances import SAME_SCORE


class Judge(Protocol):
    """Decides on raw rows in original units, as the user's own model does."""

    def __call__(self, rows: pd.DataFrame, voting: Voting, /) -> tuple[np.ndarray, list[Label]]:
        """Return the scores of all classes and the predicted label of each row.

        Classes are in the forest's order.
        """
        ...


@dataclass(frozen=True)
class DecidingJudge:
    """The user's own model with another decision: a forest's cut-off on the model's own scores."""

    judge: Judge
    forest: Forest

    def __call__(self, rows: pd.DataFrame, voting: Voting, /) -> tuple[np.ndarray, list[Label]]:
        scores, _ = self.judge(rows, voting)
        return scores, [self.forest.classes[k] for k in self.forest.decide(scores, voting)]


@dataclass(frozen=True)
class Verdict:
    """A judge's decision on one row; `refusal` says why it does not accept the row."""

    scores: np.ndarray
    label: Label | None
    refusal: str | None = None

    def score(self, column: int) -> float:
        return math.nan if self.refusal is not None else float(self.scores[column])


@dataclass(frozen=True)
class Judged:
    """The real model's scores of one point and of the row that it explains."""

    encoded: np.ndarray
    score_before: float
    score: float
    label: Label | None
    predicted_validity: float
    complaint: str | None = None

    def overruled(self, before: Verdict, after: Verdict, column: int, rounding: float) -> Judged:
        """Replace the forest's scores and label by the judge's; their scores differ by rounding at most."""
        complaint = None
        if after.refusal is not None:
            complaint = f"the model does not accept the point: {after.refusal}"
        elif abs(after.score(column) - self.score) > max(SAME_SCORE, rounding):
            complaint = (
                f"the model gives the point the score {after.score(column)}, "
                f"but the forest read from it gives {self.score}"
            )
        return replace(
            self,
            score_before=before.score(column),
            score=after.score(column),
            label=after.label,
            complaint=complaint,
        )


def verdicts_of(judge: Judge, rows: Sequence[Mapping[str, Any]], voting: Voting) -> list[Verdict]:
    """Return a judge's decisions on raw rows, in one call if that works."""
    if not rows:
        return []
    try:
        scores, labels = judge(pd.DataFrame(list(rows)), voting)
        return [Verdict(s, label) for s, label in zip(scores, labels, strict=True)]
    except Exception as error:
        if len(rows) == 1:
            return [Verdict(np.array([]), None, f"{type(error).__name__}: {error}")]
    return [verdict for row in rows for verdict in verdicts_of(judge, [row], voting)]


def disputed(verdict: Verdict, own: Label) -> str | None:
    """Return why a row is not explained: the judge refuses it or decides differently."""
    if verdict.refusal is not None:
        return f"the model does not accept this row: {verdict.refusal}"
    if verdict.label != own:
        return f"the model decides {verdict.label!r} on this row, but the forest read from it decides {own!r}"
    return None
