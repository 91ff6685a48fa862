"""Numbers and counts of the page as text."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable

from robustcf.reproduction.certified.results import CUSTOMER, Results

FEWEST = 1000  # customers for a verdict


def counted(n: int, what: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "customer"), counted(1200, "customer")
    ('1 customer', '1,200 customers')
    """
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def span(values: Iterable[float]) -> str:
    """Return the range of whole numbers.

    >>> span([3000, 2990]), span([5, 5])
    ('2,990 to 3,000', '5')
    """
    there = [int(v) for v in values if not math.isnan(v)]
    if not there:
        return "–"
    low, high = min(there), max(there)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def share(part: int, whole: int) -> str:
    """Return a share in % with both counts.

    >>> share(39, 40), share(0, 0)
    ('97.5 (39 of 40)', '–')
    """
    return f"{100 * part / whole:.1f} ({part:,} of {whole:,})" if whole else "–"


def interval(value: float, low: float, high: float) -> str:
    """Return a share in % with its interval.

    >>> interval(0.01, 0.0, 0.02), interval(0.5, math.nan, math.nan)
    ('1.0 % (0.0 to 2.0)', '50.0 %')
    """
    if math.isnan(value):
        return "–"
    ends = "" if math.isnan(low) else f" ({100 * low:.1f} to {100 * high:.1f})"
    return f"{100 * value:.1f} %{ends}"


def number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def provisional(customers: Iterable[int]) -> str:
    """Return a warning if the customers of a line are too few for a verdict."""
    if min(customers) >= FEWEST:
        return ""
    return f" With fewer than {FEWEST:,} customers in a line, the verdicts are provisional."


def wrapped(block: str) -> str:
    """Break the lines of a paragraph; leave tables, headings and figures as they are."""
    if block.startswith(("|", "#", "![")):
        return block
    return textwrap.fill(block, 120, break_on_hyphens=False, break_long_words=False)


def basis(results: Results, scenario: str) -> str:
    """Return the sentence that says how much stands behind a table."""
    design = results.designs[scenario]
    units = results.units[results.units["scenario"] == scenario]
    customers = results.of(scenario)[CUSTOMER].drop_duplicates()
    return (
        f"Basis: {counted(len(customers), 'customer')} in {counted(len(units), 'simulation')} of "
        f"{counted(units['data'].nunique(), 'data set')}; {span(units['training_rows'])} training rows, "
        f"{design.trees} trees per forest, {design.truth} truth forests."
    )
