"""Rows of customers whose decision is already favourable, for all of them at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from robustcf import Forest
from robustcf.schema.encode import encode

from ..run.columns import COUNTERFACTUALS
from ..run.question import Question


def is_favourable(forest: Forest, question: Question, encoded: np.ndarray) -> np.ndarray:
    """Return for which encoded rows the forest already decides for the audit's target."""
    assert question.target is not None  # an audit's config names the favourable class
    voting: Any = question.voting
    found: np.ndarray = forest.predict(encoded, voting) == forest.class_index(question.target)
    return found


def favourable_answers(
    forest: Forest, question: Question, schema: Any, numbers: np.ndarray, one: pa.Table
) -> pa.Table:
    """Return the answers of favourable customers, customer by customer and then method by method.

    Their answers differ in `score_before` only. So `one` has those of a single favourable customer, which the
    explainer made in the usual way.
    """
    assert question.target is not None
    encoded, column = encode(schema, numbers), forest.class_index(question.target)
    votings: list[Any] = [method.voting or question.voting for method in question.methods]
    scores = {
        voting: forest.judged_scores(encoded, voting)[0][:, column] for voting in dict.fromkeys(votings)
    }
    answers = one.take(pa.array(np.tile(np.arange(len(votings)), len(numbers))))
    before = np.stack([scores[voting] for voting in votings], axis=1).ravel()
    place = COUNTERFACTUALS.get_field_index("score_before")
    return answers.set_column(place, COUNTERFACTUALS.field(place), pa.array(before))
