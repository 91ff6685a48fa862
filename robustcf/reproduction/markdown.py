"""Write tables, numbers and links of the results page in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd


def markdown(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return lines as a Markdown table.

    >>> print(markdown([{"a": 1, "b": "x"}]))
    | a | b |
    |---|---|
    | 1 | x |
    """
    if not lines:
        return ""
    heads = list(lines[0])
    made = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    made += ["| " + " | ".join(str(line[h]) for h in heads) + " |" for line in lines]
    return "\n".join(made)


def percent(value: float) -> str:
    return "–" if pd.isna(value) else f"{100 * value:.0f}"


def points(value: float, low: float, high: float) -> str:
    if math.isnan(low):  # the same in every simulation
        return f"{100 * value:+.1f}"
    return f"{100 * value:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def figure_link(name: str, words: str, figures: Sequence[str]) -> str:
    return f"![{words}](figures/{name}.png)" if name in figures else ""
