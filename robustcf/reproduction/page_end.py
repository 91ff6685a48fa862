"""Write the last parts of the results page: beyond the paper, and what is proved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd

from robustcf.methods.registry import title_of
from robustcf.reproduction.markdown import figure_link, markdown, percent
from robustcf.reproduction.material import Material
from robustcf.reproduction.paper import short


def beyond_the_paper(material: Material, figures: Sequence[str]) -> str:
    parts = []
    summary = material.summary
    twenty = summary[summary["experiment"] == "retrain-20"]
    if len(twenty):
        parts += ["### Twenty retrained forests per point", _by_method(twenty)]
        parts.append(figure_link("predicted", "predicted and measured validity", figures))
    hard = summary[summary["experiment"] == "hard"]
    if len(hard):
        parts += ["### Hard votes", _by_method(hard)]
        parts.append(figure_link("hard-and-soft", "hard and soft votes", figures))
    stumps = summary[summary["experiment"] == "stumps"]
    if len(stumps):
        parts += ["### The convex approximation on stumps", _by_method(stumps, recourse=True)]
        parts.append(_guarantees(material.guarantees))
    return "\n\n".join(["## Beyond the paper", *(p for p in parts if p)]) if parts else ""


def _guarantees(table: pd.DataFrame) -> str:
    """Return the guarantees of Prop. 5 for the points on which all stumps agree."""
    lines = [
        {
            "data set": r["dataset"],
            "rows": r["rows"],
            "guaranteed": r["guaranteed"],
            "vacuous (δ ≥ 1)": r["vacuous"],
            "trees for δ = 0.05, as printed": f"{r['trees']:,.3g}",
            "with 1 − p* in place of α": f"{r['trees_p_star']:,.3g}",
        }
        for r in table.to_dict("records")
    ]
    words = "The finite-sample bound for these rows at α = 0.05 (medians of the trees needed):"
    return f"{words}\n\n{markdown(lines)}" if lines else ""


def _by_method(summary: pd.DataFrame, recourse: bool = False) -> str:
    """Return a table of validity in % with intervals, by data set and method."""
    lines = []
    for dataset, own in summary.groupby("dataset", sort=False):
        line: dict[str, Any] = {"data set": f"{dataset} ({short(str(dataset))})"}
        for row in own.to_dict("records"):
            name = title_of(row["method"], None if pd.isna(row["alpha"]) else row["alpha"], None, None)
            ends = f"{percent(row['validity_low'])} to {percent(row['validity_high'])}"
            line[name] = f"{percent(row['validity'])} ({ends})"
            if recourse:
                line[f"{name}: no recourse"] = f"{row['no_recourse']} of {row['n']}"
        lines.append(line)
    return markdown(lines)


def what_is_proved(material: Material) -> str:
    rows, left = material.rows, material.unproved
    counts = rows["status"].value_counts()
    words = ", ".join(f"{n:,} {status}" for status, n in counts.items())
    parts = ["## What is proved", f"{len(rows):,} solves: {words}."]
    if left.empty:
        return "\n\n".join([*parts, "All of them are settled."])
    made: dict[Any, int] = rows.groupby(["experiment", "dataset"]).size().to_dict()
    lines = [
        {
            "experiment": key[0],
            "data set": key[1],
            "solves": f"{len(own):,} of {made[key]:,}",
            "rows (simulation:row)": _named(own),
            "largest gap": "–" if own["gap"].isna().all() else f"{100 * own['gap'].max():.0f} %",
        }
        for key, own in left.groupby(["experiment", "dataset"], sort=False)
    ]
    words = f"Not settled within the time limit: {len(left):,}. `unproved.csv` lists their settings and gaps."
    parts += [words, markdown(lines)]
    return "\n\n".join(parts)


def _named(rows: pd.DataFrame) -> str:
    """Return rows as simulation:row, with the number of settings if more than one."""
    counts = Counter(rows["simulation"].astype(str) + ":" + rows["instance_id"].astype(str))
    return ", ".join(name if n == 1 else f"{name} (×{n})" for name, n in counts.items())
