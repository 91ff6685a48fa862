"""Train the fresh forests of an audit's certificates in parallel."""

from __future__ import annotations

import sys
from typing import Any

from robustcf import Forest
from robustcf.certificate.fresh import orders_for

from ..driver import Run
from ..run.fresh import (
    assemble,
    check_training_rows,
    described,
    designs_of,
    make_forest,
    together,
)
from ..run.question import Question
from ..terminal.progress import stage


def train_fresh_forests(
    run: Run, question: Question, forest: Forest, forest_ref: Any, training_ref: Any, from_pipeline: bool
) -> Any:
    """Return a reference to the fresh forests of all designs, or None if no method needs any.

    Stored forests are read instead of trained. The manifest gets the seed and the fingerprint of each.
    """
    designs = designs_of(question)
    if not designs:
        return None
    tasks, threads = run.tasks, question.threads
    if "certificates" not in run.manifest:
        check = tasks.start(check_training_rows, forest_ref, training_ref, threads, not from_pipeline)
        if warning := tasks.result(check):
            print(f"robustcf: {warning}", file=sys.stderr, flush=True)
    wanted = [(design, orders_for(forest, design, question.seed)) for design in designs]
    ready = []
    with stage("training certification forests", sum(len(orders) for _, orders in wanted)) as progress:
        for design, orders in wanted:
            refs = [
                tasks.start(make_forest, run.folder, forest_ref, training_ref, design, order, threads)
                for order in orders
            ]
            for _ in tasks.wait(refs):
                progress.advance(1)
            ready.append(tasks.start(assemble, forest_ref, design, orders, *refs))
    fresh_ref = tasks.start(together, *ready)
    run.refuse_change(
        "certificates", tasks.result(tasks.start(described, fresh_ref)), "the fresh forests have"
    )
    return fresh_ref
