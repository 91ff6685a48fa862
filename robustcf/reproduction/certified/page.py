"""Write the page of the experiment: what was run, and what certificates are worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from robustcf.datasets.registry import PAPER_SETS
from robustcf.reproduction.certified import tables
from robustcf.reproduction.certified.design import ALPHAS, BETA, DELTA, SIMULATIONS, VOTINGS
from robustcf.reproduction.certified.page_end import beta_rce_part, costs_part, evolving_part
from robustcf.reproduction.certified.results import Results
from robustcf.reproduction.certified.words import (
    basis,
    counted,
    interval,
    number,
    provisional,
    share,
    span,
    wrapped,
)
from robustcf.reproduction.markdown import markdown, percent

FRONT = "certified-front"
INTRO = f"""This page measures whether certificates keep their promise, and what they cost. The command
`robustcf reproduce --experiment certified` runs the experiment and writes this page. With
`--experiment certified-evolving` it adds the last section.

For each simulation, a forest is trained without the customers to explain. Every method explains the same
customers, alone, so that each has its own cost. Certificates have δ = {DELTA:g} and 100
certification forests. Soft votes use the test on forests, hard votes the test on trees.

The *truth* about a point is its validity: the chance that a retrained forest accepts it. Further forests,
which no method has seen, are trained for it. Their trees are grouped into 10,000 random forests, and the
share that accepts the point is counted. A tie counts as rejected. A promise 1 − α is *kept* if the
validity is at least 1 − α. A certificate is *false* if its promise is not kept."""


def page(results: Results, figures: Sequence[str], folder: str = "figures") -> str:
    """Return the page in Markdown; it links its figure in `folder`."""
    rows = results.of("same-data")
    parts = ["# Do certificates keep their promise?", INTRO]
    if len(rows):
        parts += [
            _what_was_run(results),
            _false(results, rows),
            _granted(results, rows),
            _beside(results, rows, figures, folder),
            costs_part(results, rows),
            beta_rce_part(results, rows),
        ]
    parts.append(evolving_part(results))
    blocks = "\n\n".join(part for part in parts if part).split("\n\n")
    return "\n\n".join(wrapped(block) for block in blocks) + "\n"


def _what_was_run(results: Results) -> str:
    lines = []
    rows = results.of("same-data")
    units = results.units[results.units["scenario"] == "same-data"]
    for data, own in units.groupby("data", sort=False):
        customers = rows[rows["data"] == data]
        soft = customers[(customers["voting"] == "soft") & (customers["method"] == "naive")]
        lines.append(
            {
                "data set": data,
                "simulations": f"{len(own)} of {SIMULATIONS}",
                "customers": f"{len(soft):,}",
                "without recourse (soft votes)": int((soft["status"] == "no_recourse").sum()),
                "training rows": span(own["training_rows"]),
            }
        )
    done = units.groupby("data").size()
    complete = len(done) >= len(PAPER_SETS) and done.min() >= SIMULATIONS
    words = basis(results, "same-data")
    if not complete:
        words += f" This is a part of the full experiment, which has {SIMULATIONS} simulations per data set."
    design = results.designs["same-data"]
    words += f" `Certified` has a pool of {design.pool:,} trees and a pilot of {design.pilot:,}."
    words += f" The time limit is {design.time_limit:g} s per customer and method."
    words += " A point found within it counts, proved nearest or not."
    return f"## What was run\n\n{words}\n\n{markdown(lines)}"


def _false(results: Results, rows: pd.DataFrame) -> str:
    table = tables.false_certificates(rows)
    lines = [
        {
            "votes": r["voting"],
            "α": f"{r['alpha']:g}",
            "customers tested": f"{r['tested']:,}",
            "certificates": f"{r['given']:,}",
            "false": r["broken"],
            "false ÷ tested (95 %)": interval(r["rate"], r["low"], r["high"]),
            "simulations with a false one": f"{r['simulations_broken']} of {r['simulations']}",
            f"at most δ = {DELTA:g}": "yes" if r["rate"] <= DELTA else "**no**",
            "upper end below 2δ": "–" if pd.isna(r["high"]) else "yes" if r["high"] < 2 * DELTA else "**no**",
        }
        for r in table.to_dict("records")
    ]
    words = f"A customer is tested if the search gives a point to test. {basis(results, 'same-data')}"
    words += " The interval resamples whole simulations. If no certificate is false, it has no width;"
    words += " this does not prove that the rate is 0."
    words += provisional(table["tested"])
    where = ", ".join(f"{data} {n}" for data, n in tables.false_by_set(rows).items())
    found = (
        f"False certificates by data set, over all lines: {where}." if where else "No certificate is false."
    )
    return f"## False certificates\n\n{words}\n\n{markdown(lines)}\n\n{found}"


def _granted(results: Results, rows: pd.DataFrame) -> str:
    table = tables.granted_shares(rows)
    lines = []
    for data, own in table.groupby("data", sort=False):
        line: dict[str, Any] = {"data set": data}
        for voting in VOTINGS:
            for alpha in ALPHAS:
                r = own[(own["voting"] == voting) & (own["alpha"] == alpha)]
                line[f"{voting}, α = {alpha:g}"] = share(int(r["granted"].sum()), int(r["customers"].sum()))
        lines.append(line)
    words = "Certificates in % of the customers whose naive answer is not `no_recourse`, with both counts. "
    words += basis(results, "same-data")
    return f"## Certificates granted\n\n{words}\n\n{markdown(lines)}"


def _beside(results: Results, rows: pd.DataFrame, figures: Sequence[str], folder: str) -> str:
    table = tables.compared(rows)
    parts = [
        "## Validity and distance beside Direct-SAA and Robust-SAA",
        "Each line compares the methods on identical customers: those to whom Direct-SAA and Robust-SAA (β "
        f"= {BETA:g}) give a point and `Certified` a certificate. Each cell has the mean validity in %, and "
        "behind the bar the share of customers for whom 1 − α is kept. Distances are sums over these "
        f"customers, divided by those of Direct-SAA or Robust-SAA. {basis(results, 'same-data')} "
        "`certified-compared.csv` has the same for α = 0.2 and 0.1.",
    ]
    for voting in VOTINGS:
        own = table[(table["voting"] == voting) & (table["alpha"] == min(ALPHAS))]
        if own.empty:
            continue
        lines = [
            {
                "data set": r["data"],
                "customers": r["customers"],
                "Direct-SAA": _validity(r, "direct"),
                "Robust-SAA": _validity(r, "robust"),
                "Certified": _validity(r, "certified"),
                "Robust ÷ Direct": number(r["robust_to_direct"]),
                "Certified ÷ Direct": number(r["certified_to_direct"]),
                "Certified ÷ Robust": number(r["certified_to_robust"]),
            }
            for r in own.to_dict("records")
        ]
        parts += [f"### {voting.capitalize()} votes, α = {min(ALPHAS):g}", markdown(lines), _nearer(own)]
    if FRONT in figures:
        drawn = tables.front(rows).drop_duplicates("data")
        parts.append(
            "The figure shows soft votes. Each method has one marker per α. The share of customers is the "
            "one whose point at least 95 % of retrained forests accept, whatever α is. It counts the "
            f"{int(drawn['customers'].sum()):,} customers to whom every method gives a point at every α, "
            "certified or not."
        )
        parts.append(f"![customers who are safe over distance]({folder}/{FRONT}.png)")
    return "\n\n".join(parts)


def _validity(row: dict[Any, Any], method: str) -> str:
    return f"{percent(row[f'{method}_validity'])} ∣ {percent(row[f'{method}_kept'])}"


def _nearer(table: pd.DataFrame) -> str:
    own = table[table["data"].isin(list(PAPER_SETS)) & table["customers"].gt(0)]
    if own.empty:
        return ""
    than_robust = int((own["certified_to_robust"] < 1).sum())
    than_direct = int((own["certified_to_direct"] <= 1).sum())
    return (
        f"Of {counted(len(own), 'data set')} of the paper, certified points are nearer than Robust-SAA's on "
        f"{than_robust} and not farther than Direct-SAA's on {than_direct}."
    )
