"""Tables of the experiment, from its records alone."""

from __future__ import annotations

from typing import Any

import pandas as pd

from robustcf.datasets.registry import PAPER_SETS
from robustcf.reproduction.certified.design import ALPHAS, VOTINGS
from robustcf.reproduction.certified.results import answers, granted, with_recourse
from robustcf.stats import cluster_bootstrap

CLUSTER = ["data", "simulation"]


def broken(own: pd.DataFrame, alpha: float) -> dict[str, Any]:
    """Return how often records break the promise 1 - α, clustered by simulation.

    `own` has the boolean column `given`: the record makes the promise. The rate refers to all records.
    """
    wrong = own["given"] & (own["validity"] < 1 - alpha)
    groups = wrong.groupby([own.index.get_level_values(name) for name in CLUSTER])
    low, high = cluster_bootstrap(groups.sum().tolist(), groups.count().tolist())
    return {
        "tested": len(own),
        "given": int(own["given"].sum()),
        "broken": int(wrong.sum()),
        "rate": float(wrong.mean()) if len(own) else float("nan"),
        "low": low,
        "high": high,
        "simulations": groups.ngroups,
        "simulations_broken": int((groups.sum() > 0).sum()),
    }


def false_certificates(rows: pd.DataFrame, certificate_for: str = "same-data") -> pd.DataFrame:
    """Return the rate of false certificates among tested customers, per voting and α."""
    lines = []
    for voting, alpha, part in _parts(rows):
        own = answers(part, "certified", certificate_for)
        own = own[own["certified"].notna()]
        own = own.assign(given=own["certified"].astype(bool))
        lines.append({"voting": voting, "alpha": alpha} | broken(own, alpha))
    return pd.DataFrame(lines)


def false_by_set(rows: pd.DataFrame) -> dict[str, int]:
    """Return the number of false certificates per data set, over all votings and α."""
    own = granted(rows[(rows["method"] == "certified") & (rows["certificate_for"] == "same-data")])
    counts = own[own["validity"] < 1 - own["alpha"]].groupby("data", sort=False).size()
    return {str(data): int(n) for data, n in counts.items()}


def granted_shares(rows: pd.DataFrame, certificate_for: str = "same-data") -> pd.DataFrame:
    """Return granted certificates per data set, of customers whose naive answer is not `no_recourse`."""
    lines = []
    for voting, alpha, part in _parts(with_recourse(rows)):
        for data, own in answers(part, "certified", certificate_for).groupby("data", sort=False):
            count = len(granted(own))
            lines.append(
                {"data": data, "voting": voting, "alpha": alpha, "customers": len(own)}
                | {"granted": count, "share": count / len(own)}
            )
    return pd.DataFrame(lines)


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Compare validity and distance on identical rows, per data set, voting and α.

    Only customers count to whom Direct-SAA and Robust-SAA give a point and `Certified` a certificate.
    """
    lines = []
    for voting, alpha, part in _parts(rows):
        for data, own in part.groupby("data", sort=False):
            lines.append({"data": data, "voting": voting, "alpha": alpha} | _compared(own, 1 - alpha))
    return pd.DataFrame(lines)


def _compared(own: pd.DataFrame, promise: float) -> dict[str, Any]:
    found = {
        "direct": answers(own, "direct-saa"),
        "robust": answers(own, "robust-saa"),
        "certified": granted(answers(own, "certified", "same-data")),
    }
    found = {name: part[part["distance"].notna()] for name, part in found.items()}
    both = found["direct"].index.intersection(found["robust"].index).intersection(found["certified"].index)
    line: dict[str, Any] = {"customers": len(both)}
    for name, part in found.items():
        line[f"{name}_points"] = len(part)
        line[f"{name}_validity"] = part.loc[both, "validity"].mean()
        line[f"{name}_kept"] = (part.loc[both, "validity"] >= promise).mean()
    sums = {name: part.loc[both, "distance"].sum() for name, part in found.items()}
    line["robust_to_direct"] = _ratio(sums["robust"], sums["direct"])
    line["certified_to_direct"] = _ratio(sums["certified"], sums["direct"])
    line["certified_to_robust"] = _ratio(sums["certified"], sums["robust"])
    return line


def costs(rows: pd.DataFrame) -> pd.DataFrame:
    """Return solving seconds per data set, voting and α, and their ratio to Direct-SAA's."""
    lines = []
    for voting, alpha, part in _parts(rows):
        for data, own in part.groupby("data", sort=False):
            spent = {m: answers(own, m)["seconds"] for m in ("direct-saa", "robust-saa", "certified")}
            line: dict[str, Any] = {"data": data, "voting": voting, "alpha": alpha}
            line["customers"] = len(spent["direct-saa"])
            for method, seconds in spent.items():
                line[method] = seconds.sum()
            line["ratio"] = _ratio(line["certified"], line["direct-saa"])
            lines.append(line)
    return pd.DataFrame(lines)


def cost_summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return, per voting and α, the ratio of the sums and the median over the paper's data sets."""
    lines = []
    for (voting, alpha), own in table.groupby(["voting", "alpha"], sort=False):
        eight = own[own["data"].isin(list(PAPER_SETS))]
        lines.append(
            {"voting": voting, "alpha": alpha, "sum": _ratio(own["certified"].sum(), own["direct-saa"].sum())}
            | {"median": eight["ratio"].median(), "largest": own["ratio"].max(), "sets": len(eight)}
        )
    return pd.DataFrame(lines)


def beta_rce(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how often BetaRCE's rule breaks its promise, among the points that it gives."""
    lines = []
    for voting, alpha, part in _parts(rows):
        own = answers(part, "beta-rce")
        given = own[own["validity"].notna()]
        line = {"voting": voting, "alpha": alpha, "customers": len(own), "validity": given["validity"].mean()}
        lines.append(line | broken(given.assign(given=True), alpha))
    return pd.DataFrame(lines)


def evolving(rows: pd.DataFrame) -> pd.DataFrame:
    """Compare certificates for the same data and for evolving data, when data evolve."""
    lines = []
    for voting, alpha, part in _parts(with_recourse(rows)):
        both = {kind: granted(answers(part, "certified", kind)) for kind in ("same-data", "evolving")}
        shared = both["same-data"].index.intersection(both["evolving"].index)
        sums = {kind: own.loc[shared, "distance"].sum() for kind, own in both.items()}
        for kind, own in both.items():
            tested = answers(part, "certified", kind)
            found = broken(tested.assign(given=tested["certified"].fillna(False).astype(bool)), alpha)
            line = {"voting": voting, "alpha": alpha, "certificate_for": kind} | found
            line |= {"kept": (own["validity"] >= 1 - alpha).mean(), "validity": own["validity"].mean()}
            lines.append(line | {"both": len(shared), "distance": _ratio(sums[kind], sums["same-data"])})
    return pd.DataFrame(lines)


def front(rows: pd.DataFrame, voting: str = "soft", asked: float = 0.95) -> pd.DataFrame:
    """Return mean distance ÷ naive distance, and the share of customers with validity ≥ `asked`.

    Only customers count to whom every method gives a point at every α, with or without a certificate.
    """
    own = rows[(rows["voting"] == voting) & (rows["method"] != "beta-rce")]
    lines = []
    for data, part in own.groupby("data", sort=False):
        settings = len(part[["method", "alpha"]].drop_duplicates())
        part = part.set_index(["simulation", "row"])
        points = part.groupby(level=[0, 1])["distance"].count()
        kept = points[points == settings].index
        part = part[part.index.isin(kept)]
        base = part.loc[part["method"] == "naive", "distance"].sum()
        for (method, alpha), group in part.groupby(["method", "alpha"], dropna=False, sort=False):
            lines.append(
                {"data": data, "method": method, "alpha": alpha, "customers": len(kept)}
                | {"distance": _ratio(group["distance"].sum(), base)}
                | {"kept": (group["validity"] >= asked).mean()}
            )
    return pd.DataFrame(lines, columns=["data", "method", "alpha", "customers", "distance", "kept"])


def _parts(rows: pd.DataFrame) -> list[tuple[str, float, pd.DataFrame]]:
    """Return the records of each voting and α."""
    found: list[tuple[str, float, pd.DataFrame]] = []
    for voting in VOTINGS:
        for alpha in ALPHAS:
            part = rows[(rows["voting"] == voting) & (rows["alpha"] == alpha)]
            if len(part):
                found.append((voting, alpha, part))
    return found


def _ratio(a: float, b: float) -> float:
    return float(a / b) if b else float("nan")
