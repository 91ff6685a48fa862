"""`robustcf datasets`: list the known data sets and describe one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rich.text import Text

from robustcf.datasets import Dataset, available
from robustcf.schema.schema import Feature
from robustcf.show import value_text

from .printing import console, table


def print_list() -> None:
    out = console()
    made = table("name", "rows", "features", "what", "where", right=("rows", "features"))
    for listing in available():
        where = "not found" if listing.where is None else str(listing.where)
        style = "dim" if listing.where is None else ""
        cells = (listing.name, f"{listing.rows:,}", str(listing.features), listing.title, where)
        made.add_row(*(Text(cell, style=style) for cell in cells))
    out.print(made)
    if any(listing.where is None for listing in available()):
        out.print("`robustcf datasets fetch NAME` downloads a data set; ROBUSTCF_DATA names your own folder.")


def print_description(data: Dataset) -> None:
    out = console()
    out.print(Text(f"{data.name}: {len(data):,} rows, {len(data.schema)} features", style="bold"))
    counts = Counter(int(label) for label in data.y)
    out.print(", ".join(f"class {label}: {counts[label]:,} rows" for label in data.classes))
    out.print()
    made = table("feature", "kind", "may", "values")
    for feature in data.schema.features:
        may = {"free": "change", "increase": "rise", "decrease": "fall", "fixed": "not change"}
        cells = (feature.name, feature.kind, may[feature.action], _values(feature))
        made.add_row(*map(Text, cells))
    out.print(made)


def _values(feature: Feature) -> str:
    if feature.is_number:
        low, high = feature.span
        return f"{value_text(replace(feature, unit=''), low, 6)} to {value_text(feature, high, 6)}"
    return ", ".join(map(str, feature.values))
