"""The required speed-ups of the engine, and whether this run reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

from .contenders import PROVED
from .names import OURS, PEERS

HARD = ("students-performance", "spambase", "credit-card-default", "german-credit")


def bars(solved: pd.DataFrame, ratios: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
    """Return one line per bar that the measured contenders allow.

    Frozen-feature rows count.
    """
    rows = []
    for key, group in solved.groupby(["trees", "depth"], sort=False):
        group = group.assign(row=group.row.astype(str) + " " + group.moves, moves="any")
        if OURS in set(group.contender):
            table = ratios(group)
            for bar, least, value in _of(group, table):
                rows.append((*key, bar, least, value, bool(value >= least)))
    return pd.DataFrame(rows, columns=["trees", "depth", "bar", "least", "measured", "met"])


def _of(group: pd.DataFrame, table: pd.DataFrame) -> Iterator[tuple[str, float, float]]:
    ours = group[group.contender == OURS]
    yield "ours: share of rows proved", 1.0, float(ours.status.isin(PROVED).mean())
    if table.empty:
        return
    for contender, part in table.groupby("contender", sort=False):
        overall, each = part[part["data"] == "all"].iloc[0], part[part["data"] != "all"]
        if contender == "highs-full":
            yield "highs-full: median ratio", 10.0, float(overall.ratio)
            yield f"highs-full: lowest data set ({_lowest(each)})", 5.0, float(each.ratio.min())
            yield "highs-full: p95 ratio", 5.0, float(overall.p95_ratio)
        elif contender == "highs-reduced":
            yield "highs-reduced: median ratio", 3.0, float(overall.ratio)
            hard = each[each["data"].isin(HARD)]
            if len(hard):
                yield f"highs-reduced: lowest hard set ({_lowest(hard)})", 3.0, float(hard.ratio.min())
        elif contender == "gurobi-reduced":
            enough = each[each.n >= 5]
            if len(enough):
                yield f"gurobi-reduced: lowest data set ({_lowest(enough)})", 1.0, float(enough.ratio.min())
        elif contender in PEERS:
            peer = str(contender)
            yield f"{peer}: lowest data set ({_lowest(each)})", 1.0, float(each.ratio.min())
            yield f"{peer}: rows proved by ours beyond it", 1.0, _beyond(group, peer)


def _lowest(each: pd.DataFrame) -> str:
    return str(each["data"].to_numpy()[each.ratio.to_numpy().argmin()])


def _beyond(group: pd.DataFrame, contender: str) -> float:
    """Return how many more problems ours proved, among those that both solved."""
    key = ["data", "row", "method"]
    proved = group.set_index(key).status.isin(PROVED)
    theirs = proved[(group.contender == contender).to_numpy()]
    ours = proved[(group.contender == OURS).to_numpy()]
    return float(ours.reindex(theirs.index).sum() - theirs.sum())
