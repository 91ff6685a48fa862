"""Tables: validity by method, comparison with the paper, unproved rows.

Each is computed from one frame with a line per (experiment, data set, simulation, row, method):
`experiment, dataset, simulation, instance_id, method, alpha, beta, parameter, voting, n_trees, status,
distance, n_changed, seconds, predicted_validity, gap, valid` (share of the retrained forests that agree)
and `forests` (the number of retrained forests).
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from robustcf.reproduction.compare import Share, clustered_share, difference, wilson_of
from robustcf.reproduction.paper import Paper
from robustcf.stats import cluster_bootstrap

METHOD = ["method", "alpha", "beta", "parameter"]
SETTLED = ("optimal", "no_recourse", "relaxed", "heuristic")
ROBUST = ("direct-saa", "robust-saa")
ROUNDED = 0.005 + 1e-9  # the paper prints whole percentages


def share_of(rows: pd.DataFrame) -> Share:
    """Return the validity of rows that have a point, clustered by simulation."""
    pointed = rows[rows["valid"].notna()]
    parts = pointed.groupby("simulation")["valid"].agg(["sum", "size"])
    return clustered_share(parts["sum"].tolist(), parts["size"].tolist())


def validity_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return validity, distance, changes and seconds by experiment and method.

    Relaxed and best-reachable points count, as in the paper. Validity has Wilson intervals for the
    effective number of rows. Distance has bootstrap intervals over simulations.
    """
    lines = []
    for key, group in rows.groupby(["experiment", "dataset", *METHOD], dropna=False, sort=False):
        share = share_of(group)
        low, high = wilson_of(share)
        pointed = group[group["valid"].notna()]
        parts = pointed.groupby("simulation")["distance"].agg(["sum", "size"])
        nearest, farthest = cluster_bootstrap(parts["sum"].tolist(), parts["size"].tolist())
        lines.append(
            dict(zip(["experiment", "dataset", *METHOD], key, strict=True))
            | {
                "simulations": group["simulation"].nunique(),
                "n": len(group),
                "no_recourse": int((group["status"] == "no_recourse").sum()),
                "unproved": int((~group["status"].isin(SETTLED)).sum()),
                "validity": share.value,
                "validity_low": low,
                "validity_high": high,
                "effect": share.effect,
                "distance": pointed["distance"].mean(),
                "distance_low": nearest,
                "distance_high": farthest,
                "changed": pointed["n_changed"].mean(),
                "seconds_median": group["seconds"].median(),
                "seconds_p95": group["seconds"].quantile(0.95),
            }
        )
    return pd.DataFrame(lines)


def on_their_draw(rows: pd.DataFrame, paper: Paper) -> pd.DataFrame:
    """Return naive validity on the authors' rows and forests, ours and printed.

    `least` and `most` are the validities with the worst and the best of the equally near points found
    for each row. So ties alone can change the number at least within this range.
    """
    lines = []
    for table in paper.naive:
        name = table.experiment.replace("naive", "authors")
        for dataset, theirs in table.validity.items():
            mine = rows[(rows["experiment"] == name) & (rows["dataset"] == dataset)]
            if len(mine):
                ours, n = float(mine["valid"].mean()), len(mine)
                least, most = float(mine["valid_least"].mean()), float(mine["valid_most"].mean())
                whole = mine["simulation"].nunique() == table.simulations
                lines.append(
                    {"n_trees": table.n_trees, "dataset": dataset, "rows": n, "ours": ours, "paper": theirs}
                    | {"tied": float((mine["ties"] > 1).mean()), "least": least, "most": most}
                    | {"whole": whole, "equal": whole and abs(ours - theirs) <= ROUNDED}
                    | {"within": whole and least - ROUNDED <= theirs <= most + ROUNDED}
                )
    return pd.DataFrame(lines)


def beside_the_paper(rows: pd.DataFrame, paper: Paper) -> pd.DataFrame:
    """Return naive validity, ours minus the paper's, with its 95 % interval.

    The paper's number is a sample too. Its size is as printed, and its design effect is assumed to be
    the same as ours.
    """
    lines = []
    for table in paper.naive:
        own = rows[(rows["experiment"] == table.experiment) & (rows["method"] == "naive")]
        for dataset, theirs in table.validity.items():
            mine = own[own["dataset"] == dataset]
            if mine.empty:
                continue
            share = share_of(mine)
            printed = Share(theirs, table.simulations * table.rows, share.effect)
            d, low, high = difference(share, printed)
            lines.append(
                {
                    "source": table.source,
                    "n_trees": table.n_trees,
                    "dataset": dataset,
                    "simulations": mine["simulation"].nunique(),
                    "ours": share.value,
                    "paper": theirs,
                    "difference": d,
                    "low": low,
                    "high": high,
                    "agrees": low <= 0 <= high,
                }
            )
    return pd.DataFrame(lines)


def unproved(rows: pd.DataFrame) -> pd.DataFrame:
    """Return all solves that ended without a proof."""
    columns = ["experiment", "dataset", "n_trees", "simulation", "instance_id", *METHOD, "status", "gap"]
    return rows.loc[~rows["status"].isin(SETTLED), columns].reset_index(drop=True)


def predicted_and_measured(
    rows: pd.DataFrame, edges: Sequence[float] = (0, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
) -> pd.DataFrame:
    """Return mean predicted and measured validity of points, binned by prediction."""
    pointed = rows[rows["valid"].notna() & rows["predicted_validity"].notna()]
    bins = pd.cut(pointed["predicted_validity"], list(edges), include_lowest=True)
    table = pointed.groupby(["dataset", bins], observed=True).agg(
        predicted=("predicted_validity", "mean"), measured=("valid", "mean"), n=("valid", "size")
    )
    return table.reset_index(names=["dataset", "bin"]).drop(columns="bin")
