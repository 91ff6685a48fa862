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

PILOTS = 5  # tasks; they also start workers and load the kernels
ROWS = 2  # customers that each of them times
ENOUGH = 2.0  # seconds after which a pilot times no other customer: the whole cluster waits for the plan
SAMPLE = 2**60  # hashes below it are a sixteenth of the rows


def pilot(
    job: AuditJob, forest: Forest, training: Any, fresh: Sequence[FreshForests] | None, number: int
) -> list[float]:
    """Return the seconds that each of a few rejected customers took; pilots take different ones."""
    explainer = explainer_for(
        job.question,
        forest,
        job.schema,
        first_training_rows(training),
        judge=job.judge,
        fresh=fresh or (),
    )
    frame = _some_rejected(job, forest, (number + 1) * (1 + ROWS))
    first = number * (1 + ROWS)
    rows = range(first, min(first + 1 + ROWS, len(frame)))
    if len(rows) < 2:
        return []
    limits = allowance(job.question, job.question.methods)
    found = guarded(partial(_seconds, explainer, frame, job.question.options), [[d] for d in rows], limits)
    next(found)  # the first customer is not timed: it compiles and loads
    spent: list[float] = []
    for _, seconds in found:
        spent.append(seconds.seconds if isinstance(seconds, Stopped) else seconds)
        if sum(spent) > ENOUGH:
            break
    return spent


def _some_rejected(job: AuditJob, forest: Forest, wanted: int) -> pd.DataFrame:
    """Return some rejected customers: `wanted` ones, if the first pieces have as many."""
    frames = [pd.DataFrame(columns=list(job.schema.names))]
    for name, high in [(job.pieces[0], SAMPLE), *((piece, 2**64) for piece in job.pieces[:4])]:
        frame, _, _ = customers_of(job, read_range(job.run, [name], 0, high))
        read = read_rows(job.schema, frame, missing=forest.accepts_missing)
        usable = np.flatnonzero([reason is None for reason in read.reasons])
        predicted = forest.predict(encode(job.schema, read.numbers[usable]), job.question.voting)  # type: ignore[arg-type]
        denied = usable[predicted != forest.class_index(job.question.target)]  # type: ignore[arg-type]
        if high == SAMPLE and len(denied) < wanted:
            continue
        frames.append(frame.iloc[denied])
        if sum(map(len, frames)) >= wanted:
            break
    return pd.concat(frames[1:] or frames, ignore_index=True)


def _seconds(
    explainer: Any, frame: pd.DataFrame, options: dict[str, Any], rows: list[int], tick: Tick
) -> float:
    begin = time.perf_counter()
    explainer.explain_many(frame.iloc[rows], partial(advance, tick, range(len(rows))), **options)
    return time.perf_counter() - begin
