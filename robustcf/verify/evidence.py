"""Check that each row has the evidence that its status requires."""

from __future__ import annotations

import numpy as np

from robustcf.verify.sheet import Sheet

NEAR_THE_LIMIT = 0.5  # a search that ran out of time took at least this share of its limit
BY_THRESHOLD = (
    "naive",
    "direct-saa",
    "robust-saa",
    "convex-approximation",
)  # only the time limit stops these methods early


def check_evidence(sheet: Sheet) -> None:
    """Add a finding for every status without its evidence.

    `optimal` and `feasible` need a point, its objective and a bound. For `optimal` the bound equals the
    objective (`rows.check_costs`). `no_recourse` needs the best reachable score and its gap, or a
    reason why they are missing. `timeout`, and `feasible` of threshold methods, need the time spent or
    a reason. `relaxed`, `invalid_input` and `error` need a reason.
    """
    status, silent = sheet.status, sheet.frame["reason"].isna().to_numpy()
    needs_reason = np.isin(status, ("invalid_input", "error", "relaxed"))
    sheet.note("status", needs_reason & silent, "the reason is missing")
    proved = np.isin(status, ("optimal", "feasible"))
    sheet.note("columns", proved & np.isnan(sheet.number("lower_bound")), "lower_bound is missing")
    sheet.note(
        "status",
        (status == "no_recourse") & ~sheet.has & silent,
        "no_recourse without the best reachable score or a reason why it is missing",
    )
    if sheet.asked.time_limit is None:
        return
    names = np.array([d.name for d in sheet.asked.demands] + [""], dtype=object)[sheet.method]
    cut = (status == "timeout") | ((status == "feasible") & np.isin(names, BY_THRESHOLD))
    # A customer's methods are solved together; each row stores an equal share of the time.
    spent = np.nan_to_num(sheet.number("seconds")) * len(sheet.asked.demands)
    limit = sheet.asked.time_limit
    early = cut & silent & (spent < NEAR_THE_LIMIT * limit)
    sheet.findings.where(
        "status",
        early,
        lambda i: f"{sheet.name(i)}: {status[i]} after {spent[i]:.3g} of {limit:g} s, without a reason",
    )
