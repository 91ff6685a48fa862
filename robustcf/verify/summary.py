"""Recompute the summary from the rows and compare it with the stored one."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustcf.counterfactual import ADVICE
from robustcf.stats import bin_of
from robustcf.support.tolerances import CHECKED_SUMMARY, CHECKED_ZERO, reached
from robustcf.verify.findings import Findings, short

KEY = ("dataset", "method", "alpha", "beta", "parameter", "voting", "n_trees")
GROUP = (*KEY, "cohort", "cohort_value")
COUNTS = ("n", "n_optimal", "n_no_recourse", "n_reached")
MEANS = ("validity", "validity_reached", "distance", "changed")
Group = tuple[Any, ...]


class Tally:
    """Counts and sums per group, added up block by block."""

    def __init__(self, advice_only: bool = False) -> None:
        """With `advice_only`, means cover the rows whose point works, otherwise every row with a point."""
        self.advice_only = advice_only
        self.sums: defaultdict[Group, Counter[str]] = defaultdict(Counter)
        self.statuses: defaultdict[Group, Counter[str]] = defaultdict(Counter)
        self.validity: defaultdict[tuple[Group, str], Counter[str]] = defaultdict(Counter)
        self.thresholds: dict[Group, float] = {}  # the highest of each group
        self.distances: defaultdict[Group, Counter[int]] = defaultdict(Counter)  # of advice, by bin

    def add(
        self,
        frame: pd.DataFrame,
        method: np.ndarray,
        keys: Sequence[Group],
        cohorts: Mapping[str, np.ndarray],
        valid: Mapping[str, tuple[np.ndarray, np.ndarray]],
    ) -> None:
        """Add rows of `counterfactuals`.

        Parameters
        ----------
        frame : DataFrame
        method : ndarray of int
            Each row's index in `keys`, the values of `KEY`; -1 for an unknown method.
        cohorts : mapping
            Per cohort column, each row's value.
        valid : mapping
            Per scenario, each row's number of valid forests and of all forests.
        """
        score, tau = (_numbers(frame, c) for c in ("score_after", "threshold"))
        status = frame["status"].to_numpy(dtype=object)
        works = np.isin(status, ADVICE) & (frame["verified"].to_numpy(dtype=object) == True)  # noqa: E712
        with np.errstate(invalid="ignore"):
            works &= reached(score, tau, _numbers(frame, "n_trees"))
        has_point = frame["distance"].notna().to_numpy()
        got_there = has_point & works
        point = got_there if self.advice_only else has_point
        values = {
            "n": np.ones(len(frame)),
            "n_optimal": status == "optimal",
            "n_no_recourse": status == "no_recourse",
            "n_reached": got_there,
            "points": point,
            "distance": np.where(point, np.nan_to_num(_numbers(frame, "distance")), 0.0),
            "changed": np.where(point, np.nan_to_num(_numbers(frame, "n_changed")), 0.0),
        }
        pairs = {
            s: {
                "valid": v * point,
                "pairs": p * point,
                "valid_reached": v * got_there,
                "pairs_reached": p * got_there,
            }
            for s, (v, p) in valid.items()
        }
        codes, words = pd.factorize(status.astype(str))
        bins = bin_of(np.where(got_there, np.nan_to_num(_numbers(frame, "distance")), 0.0))
        for name, column in {"": np.full(len(frame), "", dtype=object), **cohorts}.items():
            cohort, known = pd.factorize(column, use_na_sentinel=False)
            group = np.where(method >= 0, method * len(known) + cohort, len(keys) * len(known))
            size = len(keys) * len(known) + 1
            sums = {k: np.bincount(group, weights=v, minlength=size) for k, v in values.items()}
            statuses = np.bincount(group * len(words) + codes, minlength=size * len(words)).reshape(size, -1)
            more = {
                s: {k: np.bincount(group, weights=v, minlength=size) for k, v in columns.items()}
                for s, columns in pairs.items()
            }
            for g in np.flatnonzero(sums["n"][:-1]).tolist():
                value = known[g % len(known)]
                key = (*keys[g // len(known)], name, None if pd.isna(value) else value)
                self.sums[key].update({k: float(v[g]) for k, v in sums.items()})
                self.statuses[key].update({w: int(n) for w, n in zip(words, statuses[g], strict=True) if n})
                here = group == g
                self.distances[key].update(bins[here & got_there].tolist())
                own = tau[here & ~np.isnan(tau)]
                if len(own):
                    self.thresholds[key] = max(self.thresholds.get(key, -math.inf), float(own.max()))
                for s, columns in more.items():
                    self.validity[key, s].update({k: float(v[g]) for k, v in columns.items()})

    def forget(self, prefix: str) -> None:
        """Forget the groups of cohorts whose name begins with a prefix, which are not in the summary."""
        cohort = GROUP.index("cohort")
        for own in (self.sums, self.statuses):
            for group in [g for g in own if g[cohort].startswith(prefix)]:
                del own[group]
        for group, scenario in [k for k in self.validity if k[0][cohort].startswith(prefix)]:
            del self.validity[group, scenario]

    def counts(self) -> Counter[str]:
        """Return the number of rows per status, over all methods."""
        total: Counter[str] = Counter()
        for group, counts in self.statuses.items():
            if group[-2:] == ("", ""):
                total.update(counts)
        return total

    def lines(self) -> dict[Group, dict[str, float]]:
        """Return the expected summary, by group and scenario."""
        wanted: dict[Group, dict[str, float]] = {}
        for group, sums in self.sums.items():
            scenarios: list[str | None] = [s for g, s in self.validity if g == group]
            for scenario in scenarios or [None]:
                v = self.validity[group, scenario] if scenario is not None else Counter[str]()
                wanted[(*group, scenario)] = {
                    **{c: sums[c] for c in COUNTS},
                    "validity": _share(v["valid"], v["pairs"]),
                    "validity_reached": _share(v["valid_reached"], v["pairs_reached"]),
                    "distance": _share(sums["distance"], sums["points"]),
                    "changed": _share(sums["changed"], sums["points"]),
                    "threshold": self.thresholds.get(group, math.nan),
                }
        return wanted

    def check(self, stored: Iterable[Mapping[str, Any]], file: str, findings: Findings) -> None:
        """Compare the stored summary with the recomputed one, line by line."""
        wanted = self.lines()
        seen: set[Group] = set()
        for line in stored:
            key = tuple(line[k] for k in (*GROUP, "scenario"))
            where = f"{file}: {described(key)}"
            if key in seen or key not in wanted:
                findings.add("summary", f"{where}: the line is repeated or unknown")
                continue
            seen.add(key)
            for column, value in wanted[key].items():
                if column in line and not _same(line[column], value):
                    found = "nothing" if line[column] is None else short(line[column])
                    findings.add(
                        "summary", f"{where}: {column}: stored {found}, recomputed {short(float(value))}"
                    )
            for column in ("validity", "distance"):
                low, value, high = line[f"{column}_low"], line[column], line[f"{column}_high"]
                if (
                    None not in (low, value, high)
                    and not low - CHECKED_SUMMARY <= value <= high + CHECKED_SUMMARY
                ):
                    findings.add("summary", f"{where}: {column} is outside its own interval")
        for key in wanted.keys() - seen:
            findings.add("summary", f"{file}: {described(key)}: the line is missing")

    def check_statuses(self, stored: Iterable[Mapping[str, Any]], file: str, findings: Findings) -> None:
        wanted = {(*group, s): n for group, counts in self.statuses.items() for s, n in counts.items()}
        found = {tuple(line[k] for k in (*GROUP, "status")): line["n"] for line in stored}
        for key in wanted.keys() | found.keys():
            if wanted.get(key) != found.get(key):
                findings.add(
                    "summary",
                    f"{file}: {described(key)}: n: stored {found.get(key)}, recomputed {wanted.get(key)}",
                )


def _numbers(frame: pd.DataFrame, column: str) -> np.ndarray:
    return frame[column].to_numpy(dtype=np.float64, na_value=np.nan)


def described(key: Sequence[Any]) -> str:
    return " ".join(short(v) if isinstance(v, str) else f"{v:g}" for v in key if v not in (None, ""))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _same(stored: float | None, wanted: float) -> bool:
    if stored is None or math.isnan(stored):
        return math.isnan(wanted)
    return math.isclose(stored, wanted, rel_tol=CHECKED_SUMMARY, abs_tol=CHECKED_ZERO)
