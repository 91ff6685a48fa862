"""Test whether Direct-SAA and Robust-SAA reach 1 - α.

Test each level alone, and all levels together.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pandas as pd
from scipy.stats import ttest_1samp

from robustcf.methods.registry import title_of
from robustcf.reproduction.compare import chance_of_fewer, chance_of_more, holm
from robustcf.reproduction.paper import Paper
from robustcf.reproduction.tables import METHOD, ROBUST, share_of

SIGNIFICANT = 0.05
FEWEST = 10  # simulations needed for a verdict
FAMILIES = (("direct-saa", None), ("robust-saa", 0.1), ("robust-saa", 0.05))


def label_of(method: str, beta: float | None) -> str:
    return title_of(method, None, None if pd.isna(beta) else beta, None)


def targets(rows: pd.DataFrame) -> pd.DataFrame:
    """Test each cell's validity against 1 - α both ways, with Holm's correction.

    `verdict` is "missed" or "surpassed" if significant at a family-wise level of 5 %, else "open". With
    fewer than `FEWEST` simulations it is "open": the correlation within a simulation is then unknown.
    """
    own = rows[rows["method"].isin(ROBUST)]
    lines = []
    for key, group in own.groupby(["experiment", "dataset", *METHOD], dropna=False, sort=False):
        share = share_of(group)
        line: dict[str, Any] = dict(zip(["experiment", "dataset", *METHOD], key, strict=True))
        target = 1 - float(line["alpha"])
        fewer, more = chance_of_fewer(share, target), chance_of_more(share, target)
        lines.append(
            line
            | {"target": target, "validity": share.value, "p_fewer": fewer, "p_more": more}
            | {"simulations": group["simulation"].nunique()}
        )
    table = pd.DataFrame(lines)
    if table.empty:
        return table
    table["missed"], table["surpassed"] = holm(table["p_fewer"].tolist()), holm(table["p_more"].tolist())
    words = np.where(table["missed"] < SIGNIFICANT, "missed", "open")
    words = np.where(table["surpassed"] < SIGNIFICANT, "surpassed", words)
    table["verdict"] = np.where(table["simulations"] < FEWEST, "open", words)
    return table


def claims(tested: pd.DataFrame, paper: Paper) -> pd.DataFrame:
    """Return per data set the levels that each method misses, and the paper's claim."""
    lines = []
    for (experiment, dataset), mine in tested.groupby(["experiment", "dataset"], sort=False):
        claim = paper.claim(str(experiment))
        line: dict[str, Any] = {"experiment": experiment, "dataset": dataset, "paper": "–"}
        if claim is not None and dataset in paper.datasets:
            line["paper"] = "misses" if dataset in claim.missed else "reaches"
        for name, beta in FAMILIES:
            beta_fits = mine["beta"].isna() if beta is None else mine["beta"] == beta
            part = mine[(mine["method"] == name) & beta_fits]
            label = label_of(name, beta)
            line[f"{label} tested"] = len(part)
            line[label] = part.loc[part["verdict"] == "missed", "target"].tolist()
            line[f"{label} below"] = part.loc[part["validity"] < part["target"], "target"].tolist()
        lines.append(line)
    return pd.DataFrame(lines)


def together(rows: pd.DataFrame) -> pd.DataFrame:
    """Test whether validity minus its target, averaged over all levels, is below 0.

    Each simulation gives one number, so rows and levels may be correlated. The test is Student's
    one-sided t-test over simulations, with Holm's correction over all lines of a frame. It detects a
    small shortfall at every level that no single level shows.
    """
    own = rows[rows["method"].isin(ROBUST) & rows["valid"].notna()]
    own = own.assign(over=own["valid"] - (1 - own["alpha"]))
    lines = []
    for (experiment, dataset, method, beta), group in own.groupby(
        ["experiment", "dataset", "method", "beta"], dropna=False, sort=False
    ):
        over = group.groupby("simulation")["over"].mean().to_numpy()
        test = ttest_1samp(over, 0.0, alternative="less") if np.ptp(over) > 0 else None
        low, high = ttest_1samp(over, 0.0).confidence_interval() if test else (np.nan, np.nan)
        lines.append(
            {"experiment": experiment, "dataset": dataset, "label": label_of(str(method), cast(float, beta))}
            | {"simulations": len(over), "over": over.mean(), "low": low, "high": high}
            | {"p": float(test.pvalue) if test else float(over.mean() >= 0)}
        )
    table = pd.DataFrame(lines)
    if len(table):
        table["missed"] = (np.array(holm(table["p"].tolist())) < SIGNIFICANT) & (
            table["simulations"] >= FEWEST
        )
    return table
