"""Measure how long a rejected customer takes, before an audit plans its shards."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from robustcf import Forest, FreshForests
from robustcf.schema.encode import encode, read_rows

from ..cluster.guard import Stopped, Tick, advance, guarded
from ..run.question import allowance, explainer_for
from .scan import read_range
from .shard import AuditJob, customers_of, first_training_rows


def pilot(
    job: AuditJob, forest: Forest, training: Any, fresh: Sequence[FreshForests] | None, rows: int = 10
) -> float:
    """Return the seconds per rejected customer, measured on a few of them."""
    explainer = explainer_for(
        job.question,
        forest,
        job.schema,
        first_training_rows(training),
        judge=job.judge,
        fresh=fresh or (),
    )
    for name in job.pieces[:4]:
        tables = read_range(job.run, [name], 0, 2**64)
        frame, _, _ = customers_of(job, tables)
        read = read_rows(job.schema, frame, missing=forest.accepts_missing)
        usable = np.flatnonzero([reason is None for reason in read.reasons])
        predicted = forest.predict(encode(job.schema, read.numbers[usable]), job.question.voting)  # type: ignore[arg-type]
        denied = usable[predicted != forest.class_index(job.question.target)]  # type: ignore[arg-type]
        if len(denied) < 2:
            continue
        limits = allowance(job.question, len(job.question.methods))
        chosen = [denied[:1], denied[1 : 1 + rows]]  # the first customer is not timed: it compiles and loads
        found = list(guarded(partial(_seconds, explainer, frame), chosen, limits))[1:]
        spent = sum(s.seconds if isinstance(s, Stopped) else s for _, s in found)
        return float(spent) / sum(len(batch) for batch, _ in found)
    return 0.0


def _seconds(explainer: Any, frame: pd.DataFrame, rows: list[int], tick: Tick) -> float:
    begin = time.perf_counter()
    explainer.explain_many(frame.iloc[rows], partial(advance, tick, range(len(rows))))
    return time.perf_counter() - begin
