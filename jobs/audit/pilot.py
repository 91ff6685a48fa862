"""Measure how long a rejected customer takes, before an audit plans its shards."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa

from robustcf import Forest, FreshForests

from ..cluster.guard import Stopped, Tick, advance, guarded
from ..run.question import allowance, explainer_for
from .shard import AuditJob, customers_of, first_training_rows

PILOTS = 5  # tasks; they also start workers and load the kernels
ROWS = 2  # customers that each of them times
ENOUGH = 2.0  # seconds after which a pilot times no other customer: the whole cluster waits for the plan


def pilot(
    job: AuditJob,
    forest: Forest,
    training: Any,
    fresh: Sequence[FreshForests] | None,
    rejected: Sequence[pa.Table],
    number: int,
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
    frame, _, _ = customers_of(job, rejected)
    first = number * (1 + ROWS)
    rows = range(first, min(first + 1 + ROWS, len(frame)))
    if len(rows) < 2:
        return []
    limits = allowance(job.question, len(job.question.methods))
    found = guarded(partial(_seconds, explainer, frame), [[d] for d in rows], limits)
    next(found)  # the first customer is not timed: it compiles and loads
    spent: list[float] = []
    for _, seconds in found:
        spent.append(seconds.seconds if isinstance(seconds, Stopped) else seconds)
        if sum(spent) > ENOUGH:
            break
    return spent


def _seconds(explainer: Any, frame: pd.DataFrame, rows: list[int], tick: Tick) -> float:
    """Return the seconds of solving alone: a shard shares other work among many customers."""
    found = explainer.explain_many(frame.iloc[rows], partial(advance, tick, range(len(rows))))
    return float(sum(answer.seconds for answer in found))
