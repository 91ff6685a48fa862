"""The user's own pipeline as the judge of points: raw rows go in, its own decisions come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from robustcf.forest.forest import Label, Voting
from robustcf.forest.sklearn import judge_rows
from robustcf.pipeline.frames import typed_columns
from robustcf.schema.schema import Schema

if TYPE_CHECKING:
    from robustcf.pipeline.read import ReadModel


class PipelineJudge:
    """Scores raw rows by the model that a schema and a forest were read from.

    Soft votes are the model's own `predict_proba` and `predict`. Hard votes are counted over the
    trees' own predictions, on what the model's own steps make of the row: `predict` knows no
    hard votes.
    """

    def __init__(self, read: ReadModel, schema: Schema) -> None:
        self.read, self.schema = read, schema
        self._tracks = {track.name: track for track in read.tracks}

    def __call__(self, rows: pd.DataFrame, voting: Voting) -> tuple[np.ndarray, list[Label]]:
        """The score of every class (in the forest's order) and the predicted label of each row.

        Raises
        ------
        ValueError
            If a row cannot be read, or the model does not take it.
        """
        columns, reasons = typed_columns(self.schema, self._tracks, rows)
        for reason in reasons:
            if reason is not None:
                raise ValueError(reason)
        frame = self.read.frame(columns, len(rows))
        if voting == "soft":
            scores, decided = self.read.decide(frame)
        else:
            scores, decided = judge_rows(self.read.forest.judge, self.read.transform(frame), voting)
        return scores, [self.read.forest.classes[k] for k in decided]
