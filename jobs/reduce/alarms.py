"""Compare an audit's figures with its limits."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ..run.alarms import FILE, limits_of, raised, write_alarms
from ..run.figures import Counted
from ..run.folder import RunFolder
from ..run.reader import read_shard

NOT_ASKED = ("already_favourable", "invalid_input")
PROVED = ("optimal", "no_recourse")
_GROUP = ("method", "alpha", "beta", "parameter", "cohort", "cohort_value")


def compare_with_limits(run: RunFolder, manifest: dict[str, Any]) -> str:
    """Write `alarms.json` if the run has limits; return "ok", "warn" or "fail"."""
    limits = limits_of(manifest)
    if not limits:
        manifest.pop("alarms", None)
        if run.exists(FILE):
            run.filesystem.delete_file(run.path(FILE))
        return "ok"
    document = raised(limits, counted(run), manifest)
    write_alarms(run, manifest, document)
    return str(document["state"])


def counted(run: RunFolder) -> list[Counted]:
    """Return the counts of every method and group, from the summary tables."""
    asked: dict[tuple[Any, ...], int] = defaultdict(int)
    proved: dict[tuple[Any, ...], int] = defaultdict(int)
    for line in read_shard(run, "summary", "status.parquet").to_pylist():
        group = tuple(line[name] for name in _GROUP)
        asked[group] += line["n"] if line["status"] not in NOT_ASKED else 0
        proved[group] += line["n"] if line["status"] in PROVED else 0
    lines: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for line in read_shard(run, "summary", "summary.parquet").to_pylist():
        lines[tuple(line[name] for name in _GROUP)].append(line)
    found = []
    for group, own in lines.items():
        method, alpha, beta, parameter, cohort, value = group
        measured = {
            o["scenario"]: o["validity_reached"] for o in own if o.get("validity_reached") is not None
        }
        first = own[0]
        found.append(
            Counted(
                (method, alpha, beta, parameter),
                cohort,
                value,
                asked[group],
                first["n_reached"],
                proved[group],
                first.get("threshold"),  # older runs have none
                measured,
            )
        )
    return found
