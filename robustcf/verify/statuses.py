"""Check each row's keys, status and threshold; points are checked in `rows`."""

from __future__ import annotations

import numpy as np

from robustcf.support.tolerances import CHECKED_COLUMN, TIE_MARGIN
from robustcf.verify.demands import NO_PROOF, needed_score, threshold
from robustcf.verify.findings import short
from robustcf.verify.sheet import Sheet

CLAIMS = ("optimal", "feasible", "relaxed", "heuristic")  # the point reaches the threshold
POINTLESS = ("already_favourable", "timeout", "invalid_input")
STATUSES = (*CLAIMS, *POINTLESS, "no_recourse", "error")


def check_keys(sheet: Sheet) -> None:
    sheet.note("method", sheet.method < 0, "the run's config does not have this method")
    for column, wanted in sheet.asked.constants.items():
        stored = sheet.frame[column].to_numpy(dtype=object)
        sheet.note("keys", stored != wanted, f"{column} is not {short(wanted)}")
    readable = sheet.status != "invalid_input"
    sheet.note("target", readable & (sheet.target < 0), "target is not a class of the forest")
    if sheet.asked.target is not None:
        stored = sheet.frame["target"].to_numpy(dtype=object)
        sheet.note("target", readable & (stored != sheet.asked.target), "target is not the favourable class")
    votings = np.array([d.voting for d in sheet.asked.demands] + [""], dtype=object)
    stored = sheet.frame["voting"].to_numpy(dtype=object)
    sheet.note("voting", (sheet.method >= 0) & (stored != votings[sheet.method]), "the voting rule differs")


def check_statuses(sheet: Sheet) -> None:
    """Check that each row has the columns that its status requires, and no others."""
    status, has = sheet.status, sheet.has
    sheet.note("status", ~np.isin(status, STATUSES), "unknown status")
    sheet.note("status", np.isin(status, CLAIMS) & ~has, "the status requires a point, but there is none")
    sheet.note("status", np.isin(status, POINTLESS) & has, "the status allows no point, but there is one")
    for name, method in NO_PROOF.items():
        own = np.array([d.name == method for d in sheet.asked.demands] + [False])[sheet.method]
        sheet.note("status", (status == name) & ~own, f"only {method} gives the status {name}")
    wanted = dict.fromkeys(("distance", "objective", "score_after", "n_changed"), has)
    wanted["predicted_validity"] = has & (sheet.asked.trees.boosting is None)
    wanted["best_score"] = has & (status == "no_recourse")
    wanted["best_score_gap"] = wanted["best_score"]
    wanted["threshold"] = wanted["score_before"] = status != "invalid_input"
    wanted["gap"] = has & ~np.isnan(sheet.number("lower_bound"))
    for column, there in wanted.items():
        wrong = (np.isnan(sheet.number(column)) == there) & (status != "error")
        sheet.note("columns", wrong, f"{column} is present or missing contrary to the status")
    verified = sheet.frame["verified"].to_numpy(dtype=object) == True  # noqa: E712 (null is not True)
    sheet.note("verified", verified != (has & (status != "error")), "verified has the wrong value")


def check_demands(sheet: Sheet) -> np.ndarray:
    """Check thresholds; return the score that each row's point needs."""
    n = len(sheet.asked.trees)
    tau = np.full(sheet.n, np.nan)
    need = np.full(sheet.n, np.nan)
    cut = np.full(sheet.n, np.nan)
    for target in np.unique(sheet.target[sheet.target >= 0]):
        mine, bar = sheet.target == target, sheet.asked.trees.bar(int(target))
        cut[mine] = np.nan if bar.plurality else bar.score
        for d, demand in enumerate(sheet.asked.demands):
            own = mine & (sheet.method == d)
            tau[own], need[own] = threshold(demand, n, bar), needed_score(demand, n, bar)
    stated = (sheet.status != "invalid_input") & (sheet.method >= 0)
    sheet.compare("threshold", stated, tau, CHECKED_COLUMN)
    plural = np.isnan(cut) & (sheet.target >= 0)  # the highest of several scores decides
    sheet.compare("cutoff", stated & ~plural, cut, 0.0)
    there = ~np.isnan(sheet.number("cutoff"))
    sheet.note("cutoff", stated & plural & there, "cutoff is stated, but the highest score decides")
    before = sheet.number("score_before")
    if len(sheet.asked.trees.classes) == 2:
        own_voting = sheet.frame["voting"].to_numpy(dtype=object) == sheet.asked.voting
        favoured = sheet.status == "already_favourable"
        denied = ~np.isin(sheet.status, ("already_favourable", "invalid_input", "error"))
        with np.errstate(invalid="ignore"):
            sheet.note(
                "decision",
                own_voting & favoured & (before < cut - TIE_MARGIN),
                "already_favourable, but score_before is below the cut-off",
            )
            sheet.note(
                "decision",
                own_voting & denied & (before > cut + TIE_MARGIN),
                "turned down, but score_before is above the cut-off",
            )
    return need
