"""The key figures of one audit: one line for each method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from robustcf.methods.registry import title_of
from robustcf.report.method_line import Estimate
from robustcf.stats import share_interval

from ..reduce.alarms import counted
from ..run.figures import watched
from ..run.reader import read_shard
from ..run.rows import Key
from .find import Night

FIGURES = ("denial_rate", "without_recourse", "unproved", "validity", "survival", "distance")
_ENDS = ("", "_low", "_high")
SCHEMA = pa.schema(
    [
        ("position", pa.int32()),
        ("run", pa.string()),
        ("began", pa.float64()),
        ("method", pa.string()),
        ("alpha", pa.float64()),
        ("beta", pa.float64()),
        ("parameter", pa.float64()),
        ("strictest", pa.bool_()),
        ("customers", pa.int64()),
        ("denied", pa.int64()),
        ("reached", pa.int64()),
        *((name + end, pa.float64()) for name in FIGURES for end in _ENDS),
        ("scenario", pa.string()),
        ("seconds", pa.float64()),
        ("alarms", pa.string()),
        ("model_changed", pa.bool_()),
        ("schema_change", pa.string()),
        ("data_changed", pa.bool_()),
        ("forest_hash", pa.string()),
        ("schema_hash", pa.string()),
        ("promises_given", pa.int64()),
        ("promises_broken", pa.int64()),
    ]
)


@dataclass(frozen=True)
class MethodNight:
    """One method in one audit: its counts, and each figure with its interval."""

    key: Key
    strictest: bool
    customers: int
    denied: int
    reached: int
    scenario: str | None
    figures: Mapping[str, Estimate]

    @property
    def title(self) -> str:
        return title_of(*self.key)

    def as_columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = dict(zip(("method", "alpha", "beta", "parameter"), self.key, strict=True))
        columns |= {"strictest": self.strictest, "customers": self.customers, "denied": self.denied}
        columns |= {"reached": self.reached, "scenario": self.scenario}
        for name, found in self.figures.items():
            values = (found.value, found.low, found.high)
            columns |= {name + end: value for end, value in zip(_ENDS, values, strict=True)}
        return columns


def method_nights(night: Night) -> Iterator[MethodNight]:
    """Yield the figures of each method of an audit."""
    whole = [c for c in counted(night.run) if not c.cohort]
    strict = watched({c.key: c.threshold for c in whole})
    lines = _whole_lines(night)
    survival = {
        (row["method"], row["alpha"], row["beta"], row["parameter"]): (row["survived"], row["given"])
        for row in night.manifest.get("survival") or []
    }
    for own in whole:
        measured = lines[own.key]
        customers = measured[0]["n"]
        tested = [o for o in measured if o.get("validity_reached") is not None]
        worst = min(tested, key=lambda o: (o["validity_reached"], o["scenario"]), default=None)
        figures = {
            "denial_rate": _share(own.denied, customers),
            "without_recourse": _share(own.denied - own.reached, own.denied),
            "unproved": _share(own.denied - own.proved, own.denied),
            "validity": Estimate() if worst is None else _estimate(worst, "validity_reached"),
            "survival": _share(*survival.get(own.key, (0, 0))),
            "distance": _estimate(measured[0], "distance"),
        }
        scenario = None if worst is None else worst["scenario"]
        yield MethodNight(own.key, own.key == strict, customers, own.denied, own.reached, scenario, figures)


def _whole_lines(night: Night) -> dict[Key, list[dict[str, Any]]]:
    """Return the summary's lines about all customers, by method."""
    found: dict[Key, list[dict[str, Any]]] = {}
    for line in read_shard(night.run, "summary", "summary.parquet").to_pylist():
        if not line["cohort"]:
            key = (line["method"], line["alpha"], line["beta"], line["parameter"])
            found.setdefault(key, []).append(line)
    return found


def _share(part: int, whole: int) -> Estimate:
    return Estimate(part / whole, *share_interval(part / whole, whole)) if whole else Estimate()


def _estimate(line: Mapping[str, Any], name: str) -> Estimate:
    return Estimate(*(line.get(name + end) for end in _ENDS))
