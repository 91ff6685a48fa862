"""Draw the front of the experiment: distance against the share of customers who are safe."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from robustcf.reproduction.certified.design import BREAST
from robustcf.reproduction.figures import STYLES, in_order, outer_labels, panel_title, panels, shared_legend

STYLE = {
    "naive": STYLES["naive", None],
    "direct-saa": STYLES["direct-saa", None],
    "robust-saa": STYLES["robust-saa", 0.05],
    "certified": {"color": "darkorange", "marker": "*", "label": "Certified, δ = 0.05"},
}


def draw(table: pd.DataFrame) -> Figure:
    """Plot the share of customers with validity ≥ 0.95 over distance ÷ naive, per data set."""
    sets = [
        *in_order(d for d in table["data"] if d not in BREAST),
        *(d for d in BREAST if d in set(table["data"])),
    ]
    figure, axes = panels(len(sets))
    for panel, data in zip(axes, sets, strict=True):
        for method, style in STYLE.items():
            own = table[(table["data"] == data) & (table["method"] == method)]
            own = own.sort_values("alpha", ascending=False)
            panel.plot(own["distance"], own["kept"], markersize=5, linewidth=1.1, **style)
        panel.set_title(panel_title(data), fontsize=10)
        panel.set_ylim(-0.03, 1.03)
        panel.yaxis.set_major_formatter(PercentFormatter(1.0))
        panel.grid(alpha=0.3)
    outer_labels(axes, "distance ÷ naive", "customers with ≥ 95 %")
    shared_legend(figure, axes)
    return figure
