"""Checks answers copied from an earlier run with the customers' own model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from robustcf import Forest, Judge
from robustcf.forest.forest import Voting
from robustcf.judge import verdicts_of
from robustcf.support.tolerances import SAME_SCORE

from ..run.question import Question


@dataclass(frozen=True)
class Copied:
    """A copied answer: the customer's row, its position in the table and the voting."""

    customer: Mapping[str, Any]
    position: int
    voting: Voting


def rejected(
    judge: Judge, forest: Forest, question: Question, table: pa.Table, copied: Sequence[Copied]
) -> list[int]:
    """Return the positions of the copied answers that the model does not confirm.

    The model must reject the customer. Its score and decision at the point must agree with the answer.
    The points take one call for each voting.
    """
    target = question.target
    assert target is not None  # an audit's config names the favourable class
    answers = (
        table.select(["status", "score_after", "changes"]).take([c.position for c in copied]).to_pylist()
    )
    column = forest.class_index(target)
    rows = verdicts_of(judge, [c.customer for c in copied], cast(Voting, question.voting))
    found = {k for k, verdict in enumerate(rows) if verdict.refusal is not None or verdict.label == target}
    for voting in dict.fromkeys(c.voting for c in copied):
        mine = [
            k for k, c in enumerate(copied) if c.voting == voting and answers[k]["score_after"] is not None
        ]
        points = [
            {**copied[k].customer, **{c["feature"]: c["after"] for c in answers[k]["changes"]}} for k in mine
        ]
        for k, verdict in zip(mine, verdicts_of(judge, points, voting), strict=True):
            wrong = verdict.refusal is not None
            wrong = wrong or abs(verdict.score(column) - answers[k]["score_after"]) > SAME_SCORE
            if wrong or (answers[k]["status"] != "no_recourse" and verdict.label != target):
                found.add(k)
    return sorted(found)
