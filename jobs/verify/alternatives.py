"""Check that a shard's alternatives are complete, and that no one contains another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robustcf.support.tolerances import CHECKED_COLUMN
from robustcf.verify import Findings
from robustcf.verify.findings import short


def nearest_rows(table: pa.Table) -> np.ndarray:
    """Return which rows are nearest answers; a missing number counts as 0."""
    alternative = table["alternative"].combine_chunks()
    nearest: np.ndarray = pc.fill_null(pc.equal(alternative, 0), True).to_numpy(zero_copy_only=False)
    return nearest.astype(bool)


def check_alternatives(
    name: str,
    table: pa.Table,
    method: np.ndarray,
    most: Sequence[int],
    levers: Mapping[str, Sequence[str]],
    findings: Findings,
) -> None:
    """Check the alternatives of each customer and method.

    `method` is each row's method, and `most` the number of answers that each method may have. An alternative
    follows its nearest answer. Alternatives are numbered, none of them is nearer than one before it if all
    are proved, and of any two, neither changes all levers of the other.
    """
    if nearest_rows(table).all():
        return
    lever_of = {feature: f"{lever}\0" for lever, features in levers.items() for feature in features}
    columns = (table[c].to_pylist() for c in ("instance_id", "alternative", "status", "objective", "changes"))
    group: list[tuple[int, str, float, frozenset[str]]] = []
    owner: tuple[Any, int] = (None, -1)
    for who, number, status, objective, changes, m in zip(*columns, method.tolist(), strict=True):
        pulled = frozenset(lever_of.get(c["feature"], c["feature"]) for c in changes or ())
        if number == 0 or (who, m) != owner:
            owner, group = (who, m), []
        wrong = _wrong(group, number, status, objective, pulled, most[m] if m >= 0 else 1)
        if wrong is not None:
            findings.add("alternative", f"{name}: {short(who)}: alternative {number}: {wrong}")
        group.append((number, status, objective, pulled))


def _wrong(
    group: Sequence[tuple[int, str, float, frozenset[str]]],
    number: int,
    status: str,
    objective: float | None,
    pulled: frozenset[str],
    most: int,
) -> str | None:
    if number != len(group):
        return "does not follow the one before it"
    if number >= most:
        return f"the method has at most {most} answers"
    if number == 0:
        return None
    if group[0][1] not in ("optimal", "feasible"):
        return "the nearest answer has no point"
    if status in ("timeout", "error"):
        return None
    if status not in ("optimal", "feasible"):
        return f"cannot have the status {short(status)}"
    if any(pulled <= other or other <= pulled for *_, other in group):
        return "changes what another answer changes"
    proved = status == "optimal" and all(earlier == "optimal" for _, earlier, *_ in group)
    if proved and objective is not None and objective < group[-1][2] - CHECKED_COLUMN:
        return "is nearer than the one before it"
    return None
