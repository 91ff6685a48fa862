"""Measure how long a rejected customer takes, before an audit plans its shards.

The pilot is bounded: it stops a customer after `LONGEST` seconds, and times no other after `ENOUGH`. It runs
on all CPUs. Its finished answers are kept for the shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa

from robustcf import Forest, FreshForests
from robustcf.schema.encode import read_rows

from ..cluster.guard import Stopped, Tick, advance, guarded
from ..run.question import allowance, explainer_for
from ..run.rows import row_keys
from .shard import AuditJob, answers_table, customers_of, first_training_rows

MOST = 16  # tasks; they also start workers and load the kernels
ENOUGH = 2.0  # seconds after which a pilot times no other customer: the whole cluster waits for the plan
LONGEST = 8.0  # seconds after which a customer is stopped; the shard solves it with its own time limit


def pilot(
    job: AuditJob,
    forest: Forest,
    training: Any,
    fresh: Sequence[FreshForests] | None,
    rejected: Sequence[pa.Table],
    number: int,
    pilots: int,
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
    frame, _, _ = customers_of(job, rejected)
    rows = [[row] for row in range(number, len(frame), pilots)]
    limits = allowance(job.question, job.question.methods)
    limits = replace(limits, seconds=min(limits.seconds, LONGEST))
    spent: list[float] = []
    answers: list[pa.Table] = []
    for (row,), found in guarded(partial(_solve, explainer, job, forest, frame), rows, limits):
        if isinstance(found, Stopped):
            spent.append(found.seconds)
        else:
            seconds, table = found
            answers.append(table)
            if row != number:  # the first customer is not timed: it compiles and loads
                spent.append(seconds)
        if sum(spent) > ENOUGH:
            break
    return spent, pa.concat_tables(answers) if answers else None


def _solve(
    explainer: Any, job: AuditJob, forest: Forest, frame: pd.DataFrame, rows: list[int], tick: Tick
) -> tuple[float, pa.Table]:
    """Solve one customer; return the seconds of solving alone, and the answers.

    A shard shares all other work among many customers.
    """
    ticking = partial(advance, tick, range(len(rows)))
    found = explainer.explain_many(frame.iloc[rows], ticking, **job.question.options)
    numbers = read_rows(job.schema, frame.iloc[rows], missing=forest.accepts_missing).numbers
    seconds = float(sum(answer.seconds for answer in found))
    return seconds, answers_table(job, forest, found, row_keys(numbers)[0].hex())
