"""Plot times per data set, ratios with intervals, and growth curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .cases import CASE

matplotlib.use("Agg", force=False)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=130, bbox_inches="tight")


def _label(row: Any) -> str:
    data, trees, depth, moves = row
    return f"{data}\n{trees}×{depth}{', a fifth frozen' if moves == 'some' else ''}"


def times(solved: pd.DataFrame, path: Path) -> None:
    """Plot times per contender.

    Boxes are at the quartiles, whiskers at the 5th and 95th percentile.
    """
    cases = list(solved[CASE].drop_duplicates().itertuples(index=False, name=None))
    contenders = list(solved.contender.unique())
    figure = Figure(figsize=(2 + 1.7 * len(cases), 5))
    axes = figure.subplots()
    width = 0.8 / len(contenders)
    for k, contender in enumerate(contenders):
        mine = solved[(solved.contender == contender) & ~solved.status.isin(["does_not_fit", "error"])]
        grouped = dict(list(mine.groupby(CASE)))
        at = [i for i, case in enumerate(cases) if case in grouped]
        if at:
            boxes = axes.boxplot(
                [1000 * grouped[cases[i]].seconds for i in at],
                positions=[i + (k + 0.5) * width - 0.4 for i in at],
                widths=0.85 * width,
                whis=(5, 95),
                sym=".",
                patch_artist=True,
                manage_ticks=False,
                medianprops={"color": "black"},
                flierprops={"markersize": 2},
            )
            for box in boxes["boxes"]:
                box.set_facecolor(f"C{k}")
        axes.plot([], [], "s", color=f"C{k}", label=contender)
    axes.set_xticks(range(len(cases)), [_label(c) for c in cases])
    axes.set_yscale("log")
    axes.set_ylabel("milliseconds per customer and threshold")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    _save(figure, path)


def ratios(table: pd.DataFrame, path: Path) -> None:
    """Plot how many times longer the others take, with intervals.

    Below 1 they are faster.
    """
    if table.empty:
        return
    labels = list(table[CASE].drop_duplicates().itertuples(index=False, name=None))
    contenders = list(table.contender.unique())
    figure = Figure(figsize=(8, 1.2 + 0.16 * len(table)))
    axes = figure.subplots()
    for k, contender in enumerate(contenders):
        mine = table[table.contender == contender]
        at = [labels.index(c) for c in mine[CASE].itertuples(index=False, name=None)]
        y = -np.array(at) - 0.8 * (k + 0.5) / len(contenders) + 0.4
        error = np.array([mine.ratio - mine.low, mine.high - mine.ratio]).clip(min=0)
        axes.errorbar(mine.ratio, y, xerr=error, fmt="o", markersize=4, color=f"C{k}", label=contender)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks([-i for i in range(len(labels))], [_label(c).replace("\n", " ") for c in labels])
    axes.set_xscale("log")
    axes.set_xlabel("time of the other ÷ ours, median over problems (95 % interval)")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    _save(figure, path)


def growth(frame: pd.DataFrame, axis: str, path: Path) -> None:
    """Plot median time or throughput over one size, per data set and contender."""
    figure = Figure(figsize=(7, 4.5))
    axes = figure.subplots()
    value = "rows_per_second" if axis == "customers" else "seconds"
    for k, (data, part) in enumerate(frame.groupby("data", sort=False)):
        for contender, line in part.groupby("contender", sort=False):
            middle = line.groupby("size")[value].median()
            style = "-o" if str(contender).startswith("ours") else "--s"
            axes.plot(middle.index, middle, style, color=f"C{k}", label=f"{data}, {contender}")
    axes.set_xscale("log", base=2) if axis in ("trees", "customers") else None
    axes.set_xticks(sorted(frame["size"].unique()), [str(s) for s in sorted(frame["size"].unique())])
    axes.minorticks_off()
    axes.set_yscale("log")
    axes.set_xlabel(axis)
    axes.set_ylabel("customers per second" if axis == "customers" else "seconds, median")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    _save(figure, path)
