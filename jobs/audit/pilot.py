"""Measure how long a rejected customer takes, before an audit plans its shards.

The pilot is bounded: it stops a customer after `LONGEST` seconds, and times no other after `ENOUGH`. It runs
on all CPUs. Its finished answers are kept for the shards.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from robustcf import Forest, FreshForests
from robustcf.schema.encode import encode, read_rows

from ..cluster.guard import Stopped, Tick, advance, guarded
from ..run.question import allowance, explainer_for
from ..run.rows import row_keys
from .scan import read_range
from .shard import AuditJob, answers_table, customers_of, first_training_rows

MOST_PILOTS = 16  # tasks; they also start workers and load the kernels
ROWS = 8  # customers that each of them times at most
ENOUGH = 2.0  # seconds after which a pilot times no other customer: the whole cluster waits for the plan
LONGEST = 8.0  # seconds after which a customer is stopped; the shard solves it with its own time limit
SAMPLE = 2**60  # hashes below it are a sixteenth of the rows


def pilot(
    job: AuditJob, forest: Forest, training: Any, fresh: Sequence[FreshForests] | None, number: int
) -> tuple[list[float], pa.Table | None]:
    """Return the seconds that each of a few rejected customers took, and the finished answers.

    Pilots take different customers. The answers have the digest of the customer's row as their id.
    """
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
    limits = allowance(job.question, len(job.question.methods))
    limits = replace(limits, seconds=min(limits.seconds, LONGEST))
    spent: list[float] = []
    answers: list[pa.Table] = []
    for (row,), found in guarded(partial(_solve, explainer, job, forest, frame), [[d] for d in rows], limits):
        if isinstance(found, Stopped):
            spent.append(found.seconds)
        else:
            seconds, table = found
            answers.append(table)
            if row > first:  # the first customer is not timed: it compiles and loads
                spent.append(seconds)
        if sum(spent) > ENOUGH:
            break
    return spent, pa.concat_tables(answers) if answers else None


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


def _solve(
    explainer: Any, job: AuditJob, forest: Forest, frame: pd.DataFrame, rows: list[int], tick: Tick
) -> tuple[float, pa.Table]:
    """Solve one customer; return the seconds and the answers."""
    begin = time.perf_counter()
    found = explainer.explain_many(frame.iloc[rows], partial(advance, tick, range(len(rows))))
    seconds = time.perf_counter() - begin
    read = read_rows(job.schema, frame.iloc[rows], missing=forest.accepts_missing)
    return seconds, answers_table(job, forest, found, row_keys(read.numbers)[0].hex())
