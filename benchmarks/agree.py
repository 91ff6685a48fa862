"""Check that all proved answers agree."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from .cases import NAMED, PROBLEM
from .contenders import PROVED
from .names import INCUMBENT, PEERS

TOLERANCE = 1e-6


def disagreements(frame: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return lines about contradictions, and lines about other differences of peers.

    Solvers share one problem, so status, objective and bounds must agree. A peer formulates the problem
    differently (its own margins, no value lists). It contradicts ours only by a point that is allowed,
    reaches the threshold and is nearer. Other differences are only noted.
    """
    wrong: list[str] = []
    notes: list[str] = []
    for key, group in frame.groupby(PROBLEM, sort=False):
        name = NAMED.format(*key)
        solvers = group[~group.contender.isin([*PEERS, INCUMBENT])]
        wrong += [f"{name}: {line}" for line in _among_solvers(solvers)]
        proved = solvers[solvers.status.isin(PROVED)]
        if proved.empty:
            continue
        best = proved.iloc[0]
        for _, other in group[group.contender.isin([*PEERS, INCUMBENT])].iterrows():
            line = f"{name}: {other.contender} {_status(other)}, {best.contender} {_status(best)}"
            if pd.notna(other.objective) and (
                best.status == "no_recourse" or other.objective < best.objective - _slack(best.objective)
            ):
                wrong.append(line)
            elif other.status in PROVED and _differ(other, best):
                notes.append(line + ("" if pd.isna(other.reason) else f" ({other.reason})"))
    return wrong, notes


def _among_solvers(group: pd.DataFrame) -> Iterator[str]:
    for _, row in group[group.status == "error"].iterrows():
        yield f"{row.contender} failed: {row.reason}"
    proved = group[group.status.isin(PROVED)]
    if proved.empty:
        return
    first = proved.iloc[0]
    for _, row in proved.iloc[1:].iterrows():
        if _differ(row, first):
            yield f"{row.contender} {_status(row)}, {first.contender} {_status(first)}"
    for _, row in group[~group.status.isin(PROVED)].iterrows():
        if first.status == "no_recourse":
            if pd.notna(row.objective):
                yield f"{row.contender} {_status(row)}, {first.contender} {_status(first)}"
        elif row.objective < first.objective - _slack(first.objective):
            yield f"{row.contender} found {row.objective!r}, {first.contender} {_status(first)}"
        elif row.lower_bound > first.objective + _slack(first.objective):
            yield f"{row.contender} bounds by {row.lower_bound!r}, {first.contender} {_status(first)}"


def _differ(a: pd.Series, b: pd.Series) -> bool:
    if a.status != b.status:
        return True
    if a.status == "no_recourse":
        return False
    return bool(pd.isna(a.objective) or abs(a.objective - b.objective) > _slack(b.objective))


def _slack(objective: float) -> float:
    return TOLERANCE * max(1.0, abs(objective))


def _status(row: pd.Series) -> str:
    return str(row.status) if pd.isna(row.objective) else f"{row.status} {float(row.objective)!r}"
