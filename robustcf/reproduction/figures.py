"""Draw the paper's figures again, with intervals and axes fitted to the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from robustcf.reproduction.paper import SHORT, short
from robustcf.thresholds import p_star

# The paper's colours and markers.
STYLES: dict[tuple[str, float | None], dict[str, Any]] = {
    ("direct-saa", None): {"color": "blue", "marker": "o", "label": "Direct-SAA"},
    ("robust-saa", 0.1): {"color": "red", "marker": "s", "label": "Robust-SAA, β = 0.1"},
    ("robust-saa", 0.05): {"color": "#4f7842", "marker": "^", "label": "Robust-SAA, β = 0.05"},
    ("naive", None): {"color": "brown", "marker": "p", "label": "naive", "linestyle": "-."},
    ("isolation-forest", None): {
        "color": "black",
        "marker": "D",
        "label": "isolation forest",
        "linestyle": "--",
    },
    ("local-outlier-factor", None): {"color": "darkcyan", "marker": "d", "label": "1-LOF", "linestyle": "--"},
    ("robx", None): {"color": "violet", "marker": "o", "label": "RobX", "linestyle": "--"},
}
Line = tuple[str, float | None]


def in_order(datasets: Iterable[str]) -> list[str]:
    """Return data sets in the paper's order, others last."""
    order = {name: i for i, name in enumerate(SHORT)}
    return sorted(set(datasets), key=lambda d: (order.get(d, len(order)), d))


def panels(count: int, width: float = 3.1, height: float = 2.5) -> tuple[Figure, list[Axes]]:
    columns = min(4, count)
    lines = -(-count // columns)
    figure = Figure(figsize=(max(width * columns, 4.5), height * lines + 0.7), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel().tolist()
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def shared_legend(figure: Figure, axes: Sequence[Axes], columns: int = 4) -> None:
    handles: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    columns = min(columns, max(2, int(figure.get_figwidth() / 2.4)))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=columns, frameon=False)


def _lines(table: pd.DataFrame) -> list[tuple[Line, pd.DataFrame]]:
    """Return a data set's lines in the order of `STYLES`."""
    found = []
    for (method, beta), _ in STYLES.items():
        own = table["method"] == method
        own &= table["beta"].isna() if beta is None else table["beta"] == beta
        if own.any():
            found.append(((method, beta), table[own]))
    return found


def thresholds() -> Figure:
    """Plot p* over the target 1 - α and over the size of the forest (Figure 1)."""
    figure, (left, right) = panels(2, 4.4, 3.0)
    levels = np.linspace(0.5, 0.995, 100)
    for n, colour in ((50, "blue"), (100, "red"), (200, "#4f7842"), (400, "black")):
        left.plot(levels, [p_star(n, 1 - level) for level in levels], color=colour, label=f"N = {n}")
    left.set(xlabel="robustness target 1 − α", ylabel="threshold p*", title="(a)")
    sizes = np.arange(1, 51)
    for alpha, colour in ((0.1, "blue"), (0.25, "red"), (0.5, "#4f7842"), (0.75, "black")):
        values = [p_star(int(n), alpha) for n in sizes]
        right.plot(sizes, values, ".-", color=colour, label=f"α = {alpha:g}", linewidth=0.8)
    right.set(xlabel="trees N", title="(b) odd and even N alternate")
    for panel in (left, right):
        panel.grid(alpha=0.3)
        panel.legend(frameon=False)
    return figure


def validity(table: pd.DataFrame, naive: pd.DataFrame | None = None) -> Figure:
    """Plot validity over the target 1 - α, per data set (Figures 3, 9 and 10)."""
    datasets = in_order(table["dataset"])
    figure, axes = panels(len(datasets))
    for panel, dataset in zip(axes, datasets, strict=True):
        panel.plot([0.5, 1], [0.5, 1], "k--", linewidth=1.2, label="target 1 − α")
        for line, part in _lines(table[table["dataset"] == dataset]):
            part = part.sort_values("alpha", ascending=False)
            x, style = 1 - part["alpha"], STYLES[line]
            panel.fill_between(
                x, part["validity_low"], part["validity_high"], color=style["color"], alpha=0.15, linewidth=0
            )
            panel.plot(x, part["validity"], markersize=3.5, linewidth=1.2, **style)
        if naive is not None and (own := naive[naive["dataset"] == dataset])["validity"].any():
            panel.axhline(own["validity"].iloc[0], color="brown", linestyle="-.", linewidth=1, label="naive")
        panel.set_title(panel_title(dataset), fontsize=10)
        panel.set_xlim(0.5, 1.0)
        panel.grid(alpha=0.3)
    outer_labels(axes, "target 1 − α", "validity")
    shared_legend(figure, axes, 5)
    return figure


def pareto(table: pd.DataFrame) -> Figure:
    """Plot validity over mean distance on identical rows, per method (Figure 4)."""
    datasets = in_order(table["dataset"])
    figure, axes = panels(len(datasets))
    for panel, dataset in zip(axes, datasets, strict=True):
        for line, part in _lines(table[table["dataset"] == dataset]):
            part = part.sort_values("distance")
            panel.plot(part["distance"], part["validity"], markersize=4, linewidth=1.1, **STYLES[line])
        panel.set_xscale("log")
        low, high = panel.get_xlim()
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high > 3 * low else MaxNLocator(4))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_title(panel_title(dataset), fontsize=10)
        panel.grid(alpha=0.3, which="both")
    outer_labels(axes, "mean distance (log scale)", "validity")
    shared_legend(figure, axes)
    return figure


def changed(table: pd.DataFrame) -> Figure:
    """Plot the mean number of features that Direct-SAA changes (Figure 5)."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    own = table[table["method"] == "direct-saa"]
    last = {str(d): float(part.sort_values("alpha")["changed"].iloc[0]) for d, part in own.groupby("dataset")}
    for k, dataset in enumerate(sorted(last, key=lambda d: -last[d])):
        part = own[own["dataset"] == dataset].sort_values("alpha", ascending=False)
        mark = "os^Dvp*d"[k % 8]
        axes.plot(1 - part["alpha"], part["changed"], marker=mark, markersize=4, label=short(dataset))
    axes.set(xlabel="target 1 − α", ylabel="features changed", xlim=(0.5, 1.0))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def times(rows: pd.DataFrame) -> Figure:
    """Plot seconds per explanation, over all parameters of a method (Figure 6)."""
    datasets = in_order(rows["dataset"])
    kinds = [m for m in dict.fromkeys(m for m, _ in STYLES) if m in set(rows["method"])]
    labels = {m: STYLES[line]["label"].split(",")[0] for line in reversed(STYLES) for m in [line[0]]}
    figure, axes = panels(len(datasets))
    ends = rows["seconds"].clip(lower=1e-4).quantile([0.001, 0.999])
    for panel, dataset in zip(axes, datasets, strict=True):
        own = rows[rows["dataset"] == dataset]
        shown = [m for m in kinds if (own["method"] == m).any()]
        boxes = panel.boxplot(
            [own.loc[own["method"] == m, "seconds"].clip(lower=1e-4) for m in shown],
            whis=(5, 95),
            sym="",
            widths=0.6,
            patch_artist=True,
            medianprops={"color": "black"},
        )
        for box, m in zip(boxes["boxes"], shown, strict=True):
            colour = next(style["color"] for (name, _), style in STYLES.items() if name == m)
            box.set(facecolor=colour, alpha=0.45)
        panel.set_xticks(range(1, len(shown) + 1), [labels[m] for m in shown], rotation=35, ha="right")
        panel.tick_params(labelsize=7)
        panel.set_yscale("log")
        panel.set_ylim(0.7 * ends.iloc[0], 1.5 * ends.iloc[1])
        panel.minorticks_off()
        panel.set_title(panel_title(dataset), fontsize=10)
        panel.grid(axis="y", alpha=0.3)
    outer_labels(axes, "", "seconds")
    return figure


def trajectory(initial: pd.Series, changes: pd.DataFrame, title: str) -> Figure:
    """Plot one row's values and its changes at rising targets (Figures 2, 7, 8).

    Parameters
    ----------
    initial : Series
        The row's value of each feature on its [0, 1] scale.
    changes : DataFrame
        A line per target (index 1 - α, rising), a column per feature.
    """
    height = 0.24 * (len(changes) + 1)
    figure = Figure(figsize=(max(5.5, 0.45 * len(initial) + 2), height + 2.0), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[len(changes), 1])
    most = max(float(np.abs(changes.to_numpy()).max()), 1e-9)
    image = upper.pcolormesh(
        changes.to_numpy(), cmap="RdBu", vmin=-most, vmax=most, edgecolors="#eeeeee", linewidth=0.5
    )
    upper.set_yticks(np.arange(len(changes)) + 0.5, [f"{level:.2f}" for level in changes.index], fontsize=7)
    upper.set_ylabel("target 1 − α", fontsize=8)
    upper.set_title(title, fontsize=10)
    values = lower.pcolormesh(
        initial.to_numpy()[None, :], cmap="Greys", vmin=0, vmax=1, edgecolors="#eeeeee", linewidth=0.5
    )
    lower.set_yticks([0.5], ["row"], fontsize=7)
    lower.set_xticks(np.arange(len(initial)) + 0.5, list(initial.index), rotation=40, ha="right", fontsize=7)
    for bar, label in (
        (figure.colorbar(image, ax=upper), "change"),
        (figure.colorbar(values, ax=lower), "value"),
    ):
        bar.ax.tick_params(labelsize=6)
        bar.set_label(label, fontsize=7)
    return figure


def importance(tables: dict[str, pd.DataFrame], most: int = 14) -> Figure:
    """Plot permutation importance next to the mean change (Figures 11 and 12)."""
    figure = Figure(figsize=(11, 2.6 * -(-len(tables) // 2) + 0.8), layout="constrained")
    axes = figure.subplots(-(-len(tables) // 2), 2, squeeze=False).ravel().tolist()
    for spare in axes[len(tables) :]:
        spare.set_axis_off()
    shown = axes[: len(tables)]
    for panel, (dataset, table) in zip(shown, tables.items(), strict=True):
        top = table.head(most)
        at = np.arange(len(top))
        panel.bar(at - 0.2, top["importance"], 0.4, color="#555555", label="permutation importance")
        panel.bar(at + 0.2, top["change"], 0.4, color="blue", alpha=0.6, label="average change, 1 − α = 0.5")
        panel.set_xticks(at, list(top.index), rotation=40, ha="right", fontsize=7)
        panel.set_title(panel_title(dataset), fontsize=10)
        panel.grid(axis="y", alpha=0.3)
    shared_legend(figure, shown)
    return figure


def beside(table: pd.DataFrame) -> Figure:
    """Plot our naive validity minus the paper's, with the interval of the difference."""
    sizes = list(table["n_trees"].unique())
    figure, axes = panels(len(sizes), 4.4, 3.0)
    for panel, n_trees in zip(axes, sizes, strict=True):
        own = table[table["n_trees"] == n_trees].reset_index(drop=True)
        spread = 100 * np.array([own["difference"] - own["low"], own["high"] - own["difference"]])
        panel.errorbar(100 * own["difference"], -own.index, xerr=spread, fmt="o", color="blue", capsize=3)
        panel.axvline(0, color="black", linewidth=0.8)
        panel.set_yticks(
            -own.index,
            [
                f"{short(d)}   {100 * a:.0f} | {100 * b:.0f}"
                for d, a, b in own[["dataset", "ours", "paper"]].to_numpy()
            ],
        )
        panel.set(title=f"N = {n_trees}: ours | paper, in %", xlabel="difference in points (95 %)")
        panel.grid(axis="x", alpha=0.3)
    return figure


def two_votings(soft: pd.DataFrame, hard: pd.DataFrame) -> Figure:
    """Plot Direct-SAA with soft and with hard votes.

    The theory is exact for hard votes.
    """
    datasets = [d for d in in_order(soft["dataset"]) if d in set(hard["dataset"])]
    figure, axes = panels(len(datasets))
    for panel, dataset in zip(axes, datasets, strict=True):
        panel.plot([0.5, 1], [0.5, 1], "k--", linewidth=1.2, label="target 1 − α")
        for table, colour, label in ((soft, "blue", "soft votes"), (hard, "darkorange", "hard votes")):
            part = table[(table["dataset"] == dataset) & (table["method"] == "direct-saa")]
            part = part.sort_values("alpha", ascending=False)
            x = 1 - part["alpha"]
            panel.fill_between(
                x, part["validity_low"], part["validity_high"], color=colour, alpha=0.15, linewidth=0
            )
            panel.plot(x, part["validity"], marker="o", markersize=3.5, color=colour, label=label)
        panel.set_title(panel_title(dataset), fontsize=10)
        panel.grid(alpha=0.3)
    outer_labels(axes, "target 1 − α", "validity")
    shared_legend(figure, axes)
    return figure


def predicted(table: pd.DataFrame) -> Figure:
    """Plot predicted validity against the one measured by retraining.

    A marker's size shows its number of points.
    """
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0.5, 1], [0.5, 1], "k--", linewidth=1, label="as predicted")
    for k, dataset in enumerate(in_order(table["dataset"])):
        part = table[table["dataset"] == dataset].sort_values("predicted")
        x, y, mark = part["predicted"], part["measured"], "os^Dvp*d"[k % 8]
        (line,) = axes.plot(x, y, marker=mark, markersize=4, linewidth=0.8, label=short(dataset))
        axes.scatter(x, y, s=2 * part["n"], marker=mark, color=line.get_color(), alpha=0.4)
    axes.set(xlabel="predicted from the explained forest alone", ylabel="measured on retrained forests")
    axes.set(xlim=(0.48, 1.01), ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def panel_title(dataset: str) -> str:
    return f"{dataset} ({SHORT[dataset]})" if dataset in SHORT else dataset


def outer_labels(axes: Sequence[Axes], x: str, y: str) -> None:
    for k, panel in enumerate(axes):
        if k % 4 == 0:
            panel.set_ylabel(y)
        if k >= len(axes) - 4:
            panel.set_xlabel(x)
