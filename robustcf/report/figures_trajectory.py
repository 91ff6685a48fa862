"""Plot how one customer's explanation changes with the required robustness (Fig. 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robustcf.schema.encode import read_rows
from robustcf.schema.schema import Schema
from robustcf.show import value_text

MOST_FEATURES = 20  # with more features, only those that change are drawn
DIGITS = 6


def trajectory_figure(
    table: pd.DataFrame, schema: Schema, row: Mapping[str, Any], title: str = "", points: Any = None
) -> Figure:
    """Draw the initial row, and above it the signed changes by robustness 1 - α.

    Parameters
    ----------
    table : DataFrame
        The result of `insight.trajectory`.
    schema : Schema
    row : mapping
        The customer in original units.
    title : str
    points : sequence of mappings, optional
        The explained rows in original units, one per line of the table; None where no change works. If
        given, each changed cell shows the feature's new value.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with `savefig`.
    """
    names = [n for n in schema.names if len(schema) <= MOST_FEATURES or bool((table[n] != 0).any())]
    names = names or list(schema.names[:MOST_FEATURES])
    height, width = 1.9 + 0.42 * (len(table) + 1), 2.2 + 0.95 * len(names)
    figure = Figure(figsize=(max(width, 6.0), height), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[max(len(table), 1), 1], sharex=True)
    changes = table[names].to_numpy(dtype=np.float64)
    shade = np.sign(changes) * np.sqrt(np.abs(changes))  # the square root keeps small changes visible
    above.imshow(shade[::-1], cmap="RdBu", vmin=-1.2, vmax=1.2, aspect="auto")
    above.set_yticks(range(len(table)), [f"{r:.2f}" for r in table["robustness"][::-1]])
    above.set_ylabel("robustness 1 − α")
    above.set_title(title or "What to change for more robustness", fontsize=11, loc="left")
    above.set_title("blue: more, or another category · red: less", fontsize=8, loc="right")
    if points is not None:
        _label(above, table, schema, names, list(points))
    below.imshow(_initial(schema, names, row), cmap="Greys", vmin=0.0, vmax=1.6, aspect="auto")
    below.set_yticks([0], ["now"])
    labels = [schema[n].label or n for n in names]
    below.set_xticks(range(len(names)), labels, rotation=40, ha="right", rotation_mode="anchor")
    for k, name in enumerate(names):
        below.text(
            k, 0, _short(value_text(schema[name], row[name], DIGITS)), ha="center", va="center", fontsize=7
        )
    for axes in (above, below):
        axes.tick_params(length=0)
        axes.set_xticks(np.arange(len(names)) - 0.5, minor=True)
        axes.set_yticks(np.arange(axes.get_images()[0].get_array().shape[0]) - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=1.5)
        axes.tick_params(which="minor", length=0)
        axes.spines[:].set_visible(False)
    above.tick_params(labelbottom=False)
    return figure


def _initial(schema: Schema, names: list[str], row: Mapping[str, Any]) -> np.ndarray:
    """Return the customer's values on the [0, 1] scale; categories and missing values are 0."""
    numbers = read_rows(schema, {n: row[n] for n in schema.names}, missing=True).numbers[0]
    scaled = []
    for name in names:
        feature, number = schema[name], numbers[schema.names.index(name)]
        scaled.append(float(feature.scaled(np.array([number]))[0]) if feature.ordered else 0.0)
    clipped: np.ndarray = np.clip(np.nan_to_num(np.array([scaled])), 0.0, 1.0)
    return clipped


def _label(axes: Axes, table: pd.DataFrame, schema: Schema, names: list[str], points: list[Any]) -> None:
    for i, point in enumerate(points):
        if point is None:
            axes.text(
                (len(names) - 1) / 2,
                len(points) - 1 - i,
                "no change found that works",
                ha="center",
                va="center",
                fontsize=7,
            )
        for k, name in enumerate(names):
            change = float(table[name].iloc[i])
            if point is not None and change != 0.0:
                axes.text(
                    k,
                    len(points) - 1 - i,
                    _short(value_text(schema[name], point[name], DIGITS)),
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white" if abs(change) > 0.5 else "black",
                )


def _short(text: str) -> str:
    return text if len(text) <= 14 else text[:13] + "…"
