"""Mergeable parts of the report: counts, exact sums and a few rows per shard.

Rows to show are chosen by a hash of their names, or by their time. The order and the size of the shards
therefore do not change the report, and no process holds more than a few rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..reduce.partial import add_counts
from ..run.rows import Key

SAMPLE = {"answered": 150, "other": 50}  # customers shown, with and without an answer from every method
SLOWEST = 20
FAILED = 25  # rows shown per status
LOOKED_AT = ("timeout", "error", "invalid_input", "feasible")
NOT_ASKED = ("already_favourable", "invalid_input")
METHOD = ("method", "alpha", "beta", "parameter")

PopulationKey = tuple[str, int]  # data set and number of trees
Chosen = tuple[int, dict[str, Any]]  # a hash, and the row or customer that it selected


@dataclass
class MethodCounts:
    """Counts and sums of one method of one population, in the exact units of `exact_sums`."""

    statuses: Counter[str] = field(default_factory=Counter)
    reached: int = 0
    none: int = 0
    threshold: float | None = None
    pairs: int = 0
    distance_paired: int = 0
    naive_paired: int = 0
    predicted: int = 0
    predicted_rows: int = 0
    answers: int = 0  # rows behind the levers
    uses: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)  # summed |delta| by feature
    shifted: Counter[str] = field(default_factory=Counter)  # summed delta by feature
    words: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # feature, before, after
    certificate: dict[str, Any] | None = None  # one of the certificates, for its settings


@dataclass
class PopulationCounts:
    """Counts of one population: the customers of a data set with forests of one size."""

    seen: int = 0
    favourable: int = 0
    invalid: int = 0
    any_reached: int = 0
    any_none: int = 0
    feasible_gap: float = 0.0
    kept: int = 0
    unverified: int = 0
    open_best_scores: int = 0
    methods: dict[Key, MethodCounts] = field(default_factory=dict)


@dataclass
class ReportParts:
    """The merged parts of some shards."""

    populations: dict[PopulationKey, PopulationCounts] = field(default_factory=dict)
    sample: dict[str, list[Chosen]] = field(default_factory=dict)
    slow: list[Chosen] = field(default_factory=list)
    failed: dict[str, list[Chosen]] = field(default_factory=dict)

    def add(self, other: ReportParts) -> None:
        for place, facts in other.populations.items():
            mine = self.populations.setdefault(place, PopulationCounts())
            add_counts(mine, facts)
            mine.feasible_gap = max(mine.feasible_gap, facts.feasible_gap)
            for key, method in facts.methods.items():
                own = mine.methods.setdefault(key, MethodCounts())
                add_counts(own, method)
                own.threshold = method.threshold if own.threshold is None else own.threshold
                own.certificate = method.certificate if own.certificate is None else own.certificate
        for name, rows in other.sample.items():
            self.sample[name] = _first(self.sample.get(name, []) + rows, SAMPLE[name])
        for name, rows in other.failed.items():
            self.failed[name] = _first(self.failed.get(name, []) + rows, FAILED)
        self.slow = sorted(self.slow + other.slow, key=lambda r: (-r[1]["seconds"], r[0]))[:SLOWEST]

    def limits(self) -> dict[str, int]:
        """Return, for each full sample, the hash above which no customer can join it."""
        return {name: rows[-1][0] for name, rows in self.sample.items() if len(rows) == SAMPLE[name]}


def _first(rows: list[Chosen], n: int) -> list[Chosen]:
    return sorted(rows, key=lambda r: r[0])[:n]
