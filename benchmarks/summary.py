"""Tables of the measurements: times, ratios with intervals, incumbents and bars."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from . import plots
from .bars import bars
from .cases import CASE, PROBLEM
from .contenders import PROVED
from .names import INCUMBENT, OURS

KIND = CASE[1:]  # forests of one kind are also summarised over all data sets
UNMEASURED = ("does_not_fit", "error")  # statuses without a comparable time


def write(frame: pd.DataFrame, folder: Path, console: Console, clock: str = "wall") -> None:
    """Write all results to the folder as CSV, Parquet and PNG; print the tables."""
    frame.to_parquet(folder / "measurements.parquet")
    share = (frame.cpu / frame.seconds)[frame.seconds > 0.05].median()
    if share < 0.9:
        console.print(
            f"[yellow]the machine was busy: the median solve got {share:.0%} of a core; use --clock cpu"
        )
    if clock == "cpu":
        frame = frame.assign(seconds=frame.cpu.fillna(frame.seconds))
    solved = frame[frame.status != "setup"]
    frame[frame.status == "setup"].dropna(axis=1, how="all").to_csv(folder / "setup.csv", index=False)
    tables = {
        "times": times(solved),
        "ratios": ratios(solved),
        "incumbents": incumbents(solved),
        "bars": bars(solved, ratios),
    }
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
        if len(table):
            console.print(_shown(name, table))
    plots.times(solved[solved.contender != INCUMBENT], folder / "times.png")
    plots.ratios(tables["ratios"], folder / "ratios.png")


def times(solved: pd.DataFrame) -> pd.DataFrame:
    """Return counts and times per contender and forest, and per kind of forest."""
    solved = solved[solved.contender != INCUMBENT]
    rows = [_times_of(key, group) for key, group in solved.groupby([*CASE, "contender"], sort=False)]
    rows += [
        _times_of(("all", *key), group) for key, group in solved.groupby([*KIND, "contender"], sort=False)
    ]
    return pd.DataFrame(rows)


def _times_of(key: tuple[object, ...], group: pd.DataFrame) -> dict[str, object]:
    seconds = group.seconds[~group.status.isin(UNMEASURED)]
    counts = group.status.value_counts()
    return {
        **dict(zip([*CASE, "contender"], key, strict=True)),
        "n": len(group),
        "proved": int(group.status.isin(PROVED).sum()),
        "no_recourse": int(counts.get("no_recourse", 0)),
        "timeouts": int(counts.get("feasible", 0) + counts.get("timeout", 0)),
        "does_not_fit": int(counts.get("does_not_fit", 0)),
        "errors": int(counts.get("error", 0)),
        "median_ms": 1000 * seconds.median(),
        "p95_ms": 1000 * seconds.quantile(0.95),
        "worst_ms": 1000 * seconds.max(),
    }


def paired(solved: pd.DataFrame, contender: str) -> pd.DataFrame:
    """Return our and another's seconds on the same problems.

    A timeout counts the time it took.
    """
    usable = solved[~solved.status.isin(UNMEASURED)]
    ours = usable[usable.contender == OURS].set_index(PROBLEM)
    other = usable[usable.contender == contender].set_index(PROBLEM)
    pair = ours[["seconds"]].join(other.seconds.rename("seconds_other"), how="inner").reset_index()
    return pair.assign(ratio=pair.seconds_other / pair.seconds)


def ratios(solved: pd.DataFrame) -> pd.DataFrame:
    """Return the other's time divided by ours: median with interval, and of p95.

    The interval is a bootstrap over customers.
    """
    rows = []
    for contender in solved.contender.unique():
        if contender in (OURS, INCUMBENT):
            continue
        pair = paired(solved, contender)
        groups = [*pair.groupby(CASE, sort=False)]
        groups += [(("all", *key), group) for key, group in pair.groupby(KIND, sort=False)]
        for key, group in groups:
            low, high = bootstrap(group, lambda g: float(np.median(g)))
            rows.append(
                {
                    **dict(zip(CASE, key, strict=True)),
                    "contender": contender,
                    "n": len(group),
                    "ratio": group.ratio.median(),
                    "low": low,
                    "high": high,
                    "p95_ratio": group.seconds_other.quantile(0.95) / group.seconds.quantile(0.95),
                    "least": group.ratio.min(),
                }
            )
    return pd.DataFrame(rows)


def bootstrap(
    group: pd.DataFrame, statistic: Callable[[np.ndarray], float], draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Return a 95 % percentile interval.

    Draws whole customers, whose thresholds are correlated.
    """
    clusters = [part.ratio.to_numpy() for _, part in group.groupby([*CASE, "row"], sort=False)]
    rng = np.random.default_rng(seed)
    drawn = [
        statistic(np.concatenate([clusters[i] for i in rng.integers(len(clusters), size=len(clusters))]))
        for _ in range(draws)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def incumbents(solved: pd.DataFrame) -> pd.DataFrame:
    """Return the heuristic's gap to the optimum, its time, and the building time."""
    proved = solved[(solved.contender == OURS) & (solved.status == "optimal")].set_index(PROBLEM).objective
    found = solved[solved.contender == INCUMBENT].set_index(PROBLEM)
    joined = found.join(proved.rename("optimum"), how="inner").reset_index()
    if joined.empty:
        return pd.DataFrame()
    gap = (joined.objective - joined.optimum) / joined.optimum.clip(lower=1e-12)
    elsewhere = np.where(joined.status == "settled", 0.0, np.inf)  # settled without a search; not found
    joined = joined.assign(gap=gap.where(joined.status == "heuristic", elsewhere))
    groups = [*joined.groupby(CASE, sort=False)]
    groups += [(("all", *key), group) for key, group in joined.groupby(KIND, sort=False)]
    return pd.DataFrame(
        {
            **dict(zip(CASE, key, strict=True)),
            "n": len(group),
            "not_found": int((group.status == "none").sum()),
            "gap_median_%": 100 * group.gap.median(),
            "gap_p95_%": 100 * group.gap.quantile(0.95, interpolation="higher"),
            "median_ms": 1000 * group.seconds.median(),
            "p95_ms": 1000 * group.seconds.quantile(0.95),
            "build_ms": 1000 * group.build_seconds.median(),
            "reduce_ms": 1000 * group.reduce_seconds.median(),
            "options": group["options"].median(),
            "leaves": group.leaves.median(),
        }
        for key, group in groups
    )


def _shown(title: str, table: pd.DataFrame) -> Table:
    shown = Table(title=title, title_justify="left")
    for name in table.columns:
        shown.add_column(name, justify="right" if pd.api.types.is_numeric_dtype(table[name]) else "left")
    for row in table.itertuples(index=False):
        shown.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row))
    return shown
