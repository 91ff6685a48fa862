"""`robustcf status RUN`: how far a run is, from its folder alone.

It works while the run goes on, after it was killed, and after it has ended. The manifest of a running run is
at most `CHECKPOINT` seconds old; the shards themselves are listed now.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..inputs.errors import BadInput
from ..run.claim import live_claims
from ..run.folder import RunFolder
from ..run.planned import planned_shards

RECENT = 50  # the rate is that of the last shards
FAILURES = ("error", "timeout", "invalid_input")
SHOWN = 5  # slowest customers


@dataclass(frozen=True)
class Status:
    """How far a run is. `rows` counts answers by status, in the shards that the manifest lists."""

    run: str
    kind: str
    state: str  # "running", "stopped" or "complete"
    stage: str
    holder: str | None = None
    shards: int = 0
    explained: int = 0
    validated: int | None = None  # None if the run validates nothing
    customers: int | None = None
    customers_done: int = 0
    customers_per_second: float | None = None
    seconds_left: float | None = None
    rows: dict[str, int] = field(default_factory=dict)
    slowest: list[tuple[str, float]] = field(default_factory=list)

    @property
    def failures(self) -> dict[str, int]:
        return {name: self.rows[name] for name in FAILURES if self.rows.get(name)}

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"failures": self.failures}


def status_of(address: str) -> Status:
    """Read the state of a run folder."""
    run = RunFolder(address)
    try:
        manifest, holders = run.manifest(), live_claims(run)
    except OSError as error:
        raise BadInput(f"{run.shown}: cannot be read: {error}") from None
    holder = holders[0] if holders else None
    if manifest is None:
        if holder is None:
            raise BadInput(f"{run.shown} is not a run folder: it has no manifest.json")
        return Status(run.shown, "run", "running", "reading the inputs", holder)
    shards = planned_shards(manifest)
    listed = {folder: run.names(folder) for folder in ("counterfactuals", "validation")}
    made = {folder: sum(f"{folder}/{s}" in names for s in shards) for folder, names in listed.items()}
    state = "complete" if manifest["state"] == "complete" else "running" if holder else "stopped"
    validated = made["validation"] if _validates(manifest) else None
    notes = [
        note
        for s in shards
        if (note := manifest["shards"].get(f"counterfactuals/{s}")) is not None
        and f"counterfactuals/{s}" in listed["counterfactuals"]
    ]
    customers, done = _customers(manifest), sum(note.get("customers", 0) for note in notes)
    rate = _rate(notes) if state == "running" else None
    left = None if rate is None or customers is None else max(0, customers - done) / rate
    rows: dict[str, int] = {}
    for note in notes:
        for name, count in note.get("counts", {}).items():
            rows[name] = rows.get(name, 0) + count
    slow = [(str(name), float(s)) for note in notes for name, s in note.get("log", {}).get("slowest", [])]
    return Status(
        run.shown,
        manifest["kind"],
        state,
        _stage(state, len(shards), made["counterfactuals"], validated),
        holder,
        len(shards),
        made["counterfactuals"],
        validated,
        customers,
        done,
        rate,
        left,
        dict(sorted(rows.items())),
        sorted(slow, key=lambda each: -each[1])[:SHOWN],
    )


def _validates(manifest: Mapping[str, Any]) -> bool:
    return manifest["kind"] == "sweep" or manifest["config"].get("training") is not None


def _customers(manifest: Mapping[str, Any]) -> int | None:
    if manifest["kind"] == "audit":
        rows: int | None = manifest.get("plan", {}).get("rows")
        return rows
    return len(planned_shards(manifest)) * int(manifest["config"]["sweep"].get("rows", 0))


def _stage(state: str, shards: int, explained: int, validated: int | None) -> str:
    if state == "complete":
        return "complete"
    if explained < shards or not shards:
        return "explaining"
    if validated is not None and validated < shards:
        return "validating"
    return "summarising"


def _rate(notes: list[dict[str, Any]]) -> float | None:
    """Return the customers per second of the last shards, or None before there are two of them."""
    ended = sorted((n["log"]["ended"], n.get("customers", 0)) for n in notes if "ended" in n.get("log", {}))
    last = ended[-RECENT:]
    if len(last) < 2:
        return None
    seconds = max(last[-1][0], min(time.time(), last[-1][0] + 3600.0)) - last[0][0]
    customers = sum(count for _, count in last[1:])
    return customers / seconds if seconds > 0 and customers else None
