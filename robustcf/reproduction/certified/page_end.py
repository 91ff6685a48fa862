"""Write the last parts of the page: costs, BetaRCE's rule, evolving data."""

from __future__ import annotations

from typing import Any

import pandas as pd

from robustcf.reproduction.certified import tables
from robustcf.reproduction.certified.beta_rce import CREDENCE, JUDGES
from robustcf.reproduction.certified.design import ALPHAS, DELTA, FIRST_SHARE
from robustcf.reproduction.certified.results import Results
from robustcf.reproduction.certified.words import basis, counted, interval, number, provisional, share
from robustcf.reproduction.markdown import markdown, percent


def costs_part(results: Results, rows: pd.DataFrame) -> str:
    table = tables.costs(rows)
    units = results.units[results.units["scenario"] == "same-data"].groupby("data")
    trained: dict[Any, Any] = units[["one forest", "fresh forests"]].mean().to_dict("index")
    lines = []
    for data, own in table[table["alpha"] == min(ALPHAS)].groupby("data", sort=False):
        line: dict[str, Any] = {"data set": data}
        for r in own.to_dict("records"):
            votes, n = r["voting"], r["customers"]
            line[f"{votes}: Direct-SAA, s"] = f"{r['direct-saa'] / n:.3f}"
            line[f"{votes}: Certified, s"] = f"{r['certified'] / n:.2f}"
            line[f"{votes}: ratio"] = f"{r['ratio']:.1f}"
        line["one forest, s"] = f"{trained[data]['one forest']:.2f}"
        line["fresh forests, s"] = f"{trained[data]['fresh forests']:.0f}"
        lines.append(line)
    overall = [
        {
            "votes": r["voting"],
            "α": f"{r['alpha']:g}",
            "all customers": f"{r['sum']:.1f}",
            "median over the paper's data sets": f"{number(r['median'])} ({counted(r['sets'], 'data set')})",
            "largest of a data set": f"{r['largest']:.1f}",
        }
        for r in tables.cost_summary(table).to_dict("records")
    ]
    words = (
        "Processor time of the search, as a ratio to Direct-SAA at the same α on the same customers. "
        f"{basis(results, 'same-data')}"
    )
    more = (
        f"Seconds per customer at α = {min(ALPHAS):g}, and the ratio of the sums per data set. The last "
        "columns are the seconds to train the explained forest, and all fresh forests of a simulation. The "
        "latter are trained once for all customers."
    )
    return f"## Cost\n\n{words}\n\n{markdown(overall)}\n\n{more}\n\n{markdown(lines)}"


def beta_rce_part(results: Results, rows: pd.DataFrame) -> str:
    table = tables.beta_rce(rows)
    if table.empty:
        return ""
    lines = [
        {
            "votes": r["voting"],
            "α": f"{r['alpha']:g}",
            "points given": share(r["given"], r["customers"]),
            "mean validity, %": percent(r["validity"]),
            "promise broken": r["broken"],
            "broken ÷ given (95 %)": interval(r["rate"], r["low"], r["high"]),
            f"at most {1 - CREDENCE:.2g}": _kept(r["rate"]),
        }
        for r in table.to_dict("records")
    ]
    words = (
        f"BetaRCE (Stępka, Lango and Stefanowski, KDD 2025) lets the same {JUDGES} retrained models judge "
        "every candidate, and takes the first that passes. A candidate passes if the lower end of the "
        f"credible interval of its validity, at {CREDENCE:g}, reaches 1 − α. We applied this rule to our "
        f"own candidates, the nearest points at rising scores, with the first {JUDGES} certification "
        "forests as judges. This is its rule, not its search. If the rule keeps its promise, at most 5 % "
        f"of the points have a validity below 1 − α. At α = 0.05, {JUDGES} models can never pass, even if "
        f"all agree. {basis(results, 'same-data')}{provisional(table['customers'])}"
    )
    return f"## Does BetaRCE's rule keep its promise?\n\n{words}\n\n{markdown(lines)}"


def _kept(rate: float) -> str:
    return "–" if pd.isna(rate) else "yes" if rate <= 1 - CREDENCE else "**no**"


def evolving_part(results: Results) -> str:
    rows = results.of("evolving")
    if rows.empty:
        command = "robustcf reproduce --experiment certified-evolving"
        return f"## Evolving data\n\nThis part has not been run. The command is `{command}`."
    table = tables.evolving(rows)
    lines = [
        {
            "votes": r["voting"],
            "α": f"{r['alpha']:g}",
            "certificate for": r["certificate_for"],
            "granted, %": share(r["given"], r["tested"]),
            "mean validity, %": percent(r["validity"]),
            "1 − α kept, %": percent(r["kept"]),
            "false ÷ customers (95 %)": interval(r["rate"], r["low"], r["high"]),
            f"at most δ = {DELTA:g}": "yes" if r["rate"] <= DELTA else "**no**",
            "distance ÷ same-data": number(r["distance"]),
        }
        for r in table.to_dict("records")
    ]
    words = (
        f"The explained forest sees {100 * FIRST_SHARE:.0f} % of the training rows. The forests that decide "
        "the truth are trained on all of them. A certificate for `same-data` makes no promise about this; "
        "the table shows what it is worth. A certificate for `evolving` is tested on forests trained on "
        "all rows, and must keep its promise. All customers whose naive answer is not `no_recourse` count. "
        "Distances are sums over the customers who get both certificates. The training rows named here are "
        f"those of the explained forest. {basis(results, 'evolving')}{provisional(table['tested'])}"
    )
    return f"## Evolving data\n\n{words}\n\n{markdown(lines)}"
