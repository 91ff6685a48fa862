"""Format shares, distances, counts, times and statuses for readers."""

from __future__ import annotations

import math

from robustcf.report.method_line import Estimate

STATUSES = {
    "optimal": "proved nearest",
    "feasible": "found, not proved nearest",
    "no_recourse": "proved none",
    "relaxed": "plausibility relaxed",
    "heuristic": "heuristic, no proof",
    "already_favourable": "already favourable",
    "timeout": "time limit, nothing found",
    "invalid_input": "could not be read",
    "error": "error",
}
NOTHING = "–"


def share(value: float | None, digits: int = 1) -> str:
    """Format a share as per cent.

    >>> share(0.98809), share(1.0), share(0.99999), share(0.001, 0), share(None)
    ('98.8 %', '100 %', '>99.9 %', '<1 %', '–')
    """
    if value is None:
        return NOTHING
    if value in (0, 1):
        return f"{100 * value:.0f} %"
    least = 10.0**-digits  # only exactly 0 and 1 are written as 0 % and 100 %
    if 0 < value < 1 and not 0 < round(100 * value, digits) < 100:
        return f"<{least:g} %" if value < 0.5 else f">{100 - least:g} %"
    return f"{100 * value:.{digits}f} %"


def number(value: float | None, like: float | None = None) -> str:
    """Format a distance or score with at least three decimals, more if it (or `like`) is small.

    >>> number(0.0785461), number(1.2345), number(0.00031), number(0.112, like=0.0785)
    ('0.0785', '1.234', '0.000310', '0.1120')
    """
    if value is None:
        return NOTHING
    size = abs(value if like is None else like)
    digits = min(max(3, 2 - math.floor(math.log10(size))), 8) if size else 3
    return f"{value:,.{digits}f}"


def count(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def seconds(value: float | None) -> str:
    """Format a time in seconds or milliseconds.

    >>> seconds(0.0262), seconds(75.2), seconds(0.0)
    ('26 ms', '75.2 s', '–')
    """
    if not value:  # 0 means that nothing was solved: the answer was copied or the row was refused
        return NOTHING
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"


def share_of(part: int, whole: int) -> str:
    return share(part / whole) if whole else NOTHING


def with_interval(estimate: Estimate, form: str = "number") -> str:
    """Format a mean with its interval.

    >>> with_interval(Estimate(0.5, 0.4, 0.6), "share")
    '50.0 % (40.0 % to 60.0 %)'
    """
    value = estimate.value
    if value is None:
        return NOTHING
    if estimate.low is None or estimate.high is None:
        return share(value) if form == "share" else number(value)
    ends = (max(estimate.low, 0.0), estimate.high)  # shares and distances are never negative
    low, high = (share(end) if form == "share" else number(end, like=value) for end in ends)
    return f"{share(value) if form == 'share' else number(value)} ({low} to {high})"


def status(name: str) -> str:
    return STATUSES.get(name, name.replace("_", " "))
