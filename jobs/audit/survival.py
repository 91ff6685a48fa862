"""How an audit uses a previous one: what it cannot copy, and which recourses still work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from robustcf import Schema

from ..cluster.tasks import Tasks
from ..reduce.reduce import write_summary_table
from ..run.folder import RunFolder
from ..run.planned import readable_shards
from ..run.previous import Previous, survivors
from ..run.question import Question
from ..terminal.progress import stage


def not_copied(previous: Previous, question: Question, answer_keys: Sequence[str]) -> str | None:
    """Return which methods' answers cannot be copied, and why; None if all can."""
    if previous.schema is not None:
        why = "" if previous.unlike is None else f" ({previous.unlike})"
        return f"its schema differs{why}: nothing was copied, but its recourses were tested again"
    methods = zip(question.methods, question.keys, answer_keys, strict=True)
    stale = [method.name for method, name, key in methods if previous.answer_keys.get(name) != key]
    if not stale:
        return None
    names = ", ".join(dict.fromkeys(stale))
    return f"forest, method, seed, training rows or version differ: {names} solved again"


def survival(
    folder: RunFolder, tasks: Tasks, previous: Previous, forest: Any, schema: Schema
) -> list[dict[str, Any]]:
    """Count the previous run's recourses that still work with this forest (a reference).

    Publishes the counts as the table `summary/survival`.
    """
    names = readable_shards(previous.run, previous.run.manifest() or {})
    counts: Counter[Any] = Counter()
    with stage("checking earlier recourses", len(names)) as progress:
        for _, part in tasks.run(survivors, [(previous, forest, schema, name) for name in names]):
            counts.update(part)
            progress.advance(1)
    rows = [
        dict(zip(("method", "alpha", "beta", "parameter"), key, strict=True))
        | {"given": counts[key, "given"], "survived": counts[key, "survived"]}
        for key in sorted({key for key, _ in counts}, key=repr)
    ]
    write_summary_table(folder, "survival", pa.Table.from_pylist(rows) if rows else None)
    return rows
