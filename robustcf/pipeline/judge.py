"""Use the user's own pipeline as the judge of raw rows and points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from robustcf.forest.forest import Label, Voting
from robustcf.pipeline.frames import typed_columns
from robustcf.schema.schema import Schema

if TYPE_CHECKING:
    from robustcf.pipeline.read import ReadModel


class PipelineJudge:
    """Score raw rows with the model that a schema and a forest were read from.

    Soft votes come from the model's own `predict_proba` and `predict`. `predict` does not support hard
    votes, so these are counted over the trees' predictions on the rows that the model's steps encode.
    """

    def __init__(self, read: ReadModel, schema: Schema) -> None:
        self.read, self.schema = read, schema
        self._tracks = {track.name: track for track in read.tracks}

    def __call__(self, rows: pd.DataFrame, voting: Voting) -> tuple[np.ndarray, list[Label]]:
        """Return the scores of all classes and the predicted label of each row.

        Classes are in the forest's order.

        Raises
        ------
        ValueError
            If a row cannot be read, or the model refuses it.
        """
        columns, reasons = typed_columns(self.schema, self._tracks, rows)
        for reason in reasons:
            if reason is not None:
                raise ValueError(reason)
        frame = self.read.frame(columns, len(rows))
        if voting == "soft":
            scores, decided = self.read.decide(frame)
        else:
            scores, decided = self.read.forest.judged_scores(self.read.transform(frame), voting)
        return scores, [self.read.forest.classes[k] for k in decided]
