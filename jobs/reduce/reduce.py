"""`robustcf reduce`: summarise a run in tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from robustcf.methods.registry import certifies
from robustcf.stats import (
    LEVEL,
    QUANTILE_ERROR,
    Quantiles,
    cluster_bootstrap,
    envelope,
    mean,
    normal_interval,
    pareto_front,
    wilson,
)

from ..cluster.session import session
from ..cluster.tasks import Tasks
from ..inputs.config import SolverChoice
from ..run.folder import RunFolder, require_run
from ..run.groups import CROSSED
from ..run.planned import readable_shards
from ..run.spreadsheet import csv_bytes
from ..terminal.progress import stage
from .alarms import compare_with_limits
from .groups import groups_table
from .partial import GROUP, Group, Part, Validity, merge, partial_of

SHARDS_PER_TASK = 8
COHORT = GROUP.index("cohort")


def _summary_schema(kind: str, validation: str) -> pa.Schema:
    """Return the summary's columns.

    Metadata name the kind of interval and a quantile's error.
    """
    wilson_or = "the wider of the Wilson interval over (row, forest) pairs and a cluster bootstrap over"
    clusters = {
        "sweep": f"{wilson_or} simulations",
        "audit": f"{wilson_or} the validation forests, conditional on the explained forest",
    }[kind]
    spread = {
        "sweep": "cluster bootstrap over simulations",
        "audit": "normal interval over customers, conditional on the explained forest",
    }[kind]
    validity = {"level": str(LEVEL), "interval": clusters, "measured": validation}
    distance = {"level": str(LEVEL), "interval": spread}
    quantile = {"relative_error": str(QUANTILE_ERROR)}
    numbers: list[tuple[str, Any, dict[str, str]]] = [
        ("n", pa.int64(), {}),
        ("n_optimal", pa.int64(), {}),
        ("n_no_recourse", pa.int64(), {}),
        ("n_reached", pa.int64(), {}),
        ("validity", pa.float64(), validity),
        ("validity_low", pa.float64(), validity),
        ("validity_high", pa.float64(), validity),
        ("validity_reached", pa.float64(), {"rows": "those that reach the threshold"}),
        ("distance", pa.float64(), distance),
        ("distance_low", pa.float64(), distance),
        ("distance_high", pa.float64(), distance),
        ("changed", pa.float64(), {}),
        ("seconds_median", pa.float64(), quantile),
        ("seconds_p95", pa.float64(), quantile),
        ("pareto", pa.bool_(), {"rows": "those for which every method of the run has a point"}),
        ("validity_reached_low", pa.float64(), validity),
        ("validity_reached_high", pa.float64(), validity),
        ("n_certified", pa.int64(), {"rows": "those with a certificate; null if the method makes none"}),
        ("held", pa.float64(), validity | {"rows": "those with a certificate"}),
        ("held_low", pa.float64(), validity),
        ("held_high", pa.float64(), validity),
        ("threshold", pa.float64(), {"rows": "the highest threshold of the rows"}),
    ]
    keys: list[tuple[str, Any, dict[str, str]]] = [
        ("dataset", pa.string(), {}),
        ("method", pa.string(), {}),
        ("alpha", pa.float64(), {}),
        ("beta", pa.float64(), {}),
        ("parameter", pa.float64(), {}),
        ("voting", pa.string(), {}),
        ("n_trees", pa.int32(), {}),
        ("cohort", pa.string(), {}),
        ("cohort_value", pa.string(), {}),
        ("scenario", pa.string(), {}),
    ]
    return pa.schema([pa.field(name, kind, metadata=note or None) for name, kind, note in keys + numbers])


def reduce_run(run: RunFolder, manifest: dict[str, Any], tasks: Tasks) -> pa.Table:
    """Summarise a run; memory use does not grow with the number of rows."""
    names = readable_shards(run, manifest)
    cohorts = manifest["config"].get("customers", {}).get("cohort", [])
    total: dict[Group, Part] = {}
    groups = [tuple(names[i : i + SHARDS_PER_TASK]) for i in range(0, len(names), SHARDS_PER_TASK)]
    with stage("summarising", len(names)) as progress:
        advice_only = manifest["kind"] == "audit"
        calls = ((run, group, tuple(cohorts), manifest["methods"], advice_only) for group in groups)
        for call, part in tasks.run(partial_of, calls):
            merge(total, part)
            progress.advance(len(call[1]))
    if cohorts:
        write_summary_table(run, "groups", groups_table(total))
        total = {group: part for group, part in total.items() if not group[COHORT].startswith(CROSSED)}
    schema = _summary_schema(manifest["kind"], manifest.get("validation", "not measured"))
    table = pa.Table.from_pylist(_summary(total, manifest["kind"]), schema=schema)
    write_summary_table(run, "summary", table)
    write_summary_table(run, "status", _statuses(total))
    return table


def reduce_folder(address: str, cluster: str | None = None, cpus: int | None = None) -> pa.Table:
    """Recompute the summary of a run folder."""
    run, manifest = require_run(address)
    with session(cluster, 1, cpus) as ray:
        table = reduce_run(run, manifest, Tasks(ray, SolverChoice()))
    if manifest["state"] == "complete" and manifest.get("alarms"):
        compare_with_limits(run, manifest)
        run.write_manifest(manifest)
    return table


def _summary(total: dict[Group, Part], kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    fronts: dict[tuple[Any, ...], list[tuple[int, float, float]]] = defaultdict(list)
    for group in sorted(total, key=_order):
        part = total[group]
        names: Iterable[str | None] = sorted(part.scenarios) or [None]
        for scenario in names:
            keys = dict(zip(GROUP, group, strict=True)) | {"scenario": scenario}
            validity = part.scenarios.get(scenario or "", Validity())
            front = tuple(keys[k] for k in ("dataset", "n_trees", "cohort", "cohort_value", "scenario"))
            share = validity.valid_common / validity.pairs_common if validity.pairs_common else math.nan
            fronts[front].append((len(rows), mean(part.distance_common, part.common), share))
            rows.append(keys | _figures(part, validity, kind) | _promised(part, keys, kind))
    for members in fronts.values():
        marks = pareto_front([d for _, d, _ in members], [v for _, _, v in members])
        for (at, _, share), mark in zip(members, marks, strict=True):
            rows[at]["pareto"] = None if math.isnan(share) else mark
    return [{k: _null(v) for k, v in row.items()} for row in rows]


def _figures(part: Part, validity: Validity, kind: str) -> dict[str, Any]:
    interval = _interval(validity, kind)
    if kind == "sweep":
        simulations = sorted(part.simulation_points)
        spread = cluster_bootstrap(
            [mean(part.simulation_distance[s], 1) for s in simulations],
            [part.simulation_points[s] for s in simulations],
        )
    else:
        spread = normal_interval(part.distance, part.squares, part.points)
    seconds = Quantiles(part.seconds)
    return {
        "n": part.rows,
        "n_optimal": part.statuses["optimal"],
        "n_no_recourse": part.statuses["no_recourse"],
        "n_reached": part.reached,
        "validity": _share(validity),
        "validity_low": interval[0],
        "validity_high": interval[1],
        "distance": mean(part.distance, part.points),
        "distance_low": spread[0],
        "distance_high": spread[1],
        "changed": part.changed / part.points if part.points else math.nan,
        "seconds_median": seconds.quantile(0.5),
        "seconds_p95": seconds.quantile(0.95),
        "pareto": None,
        "threshold": part.threshold,
    }


def _promised(part: Part, keys: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the validity of the rows that a method's promise is about.

    These are the rows that reach the threshold, and those with a certificate.
    """
    scenario = keys["scenario"] or ""
    reached = part.scenarios_reached.get(scenario, Validity())
    held = part.scenarios_certified.get(scenario, Validity())
    reached_low, reached_high = _interval(reached, kind)
    held_low, held_high = _interval(held, kind)
    return {
        "validity_reached": _share(reached),
        "validity_reached_low": reached_low,
        "validity_reached_high": reached_high,
        "n_certified": part.certified if certifies(keys["method"]) else None,
        "held": _share(held),
        "held_low": held_low,
        "held_high": held_high,
    }


def _share(validity: Validity) -> float:
    return validity.valid / validity.pairs if validity.pairs else math.nan


def _interval(validity: Validity, kind: str) -> tuple[float, float]:
    """Return the interval of a validity; NaN without a pair."""
    if not validity.pairs:
        return math.nan, math.nan
    if kind == "sweep":
        pairs, valid = validity.simulation_pairs, validity.simulation_valid
    else:
        pairs, valid = validity.forest_pairs, validity.forest_valid
    clusters = sorted(pairs)
    bootstrap = cluster_bootstrap([valid[c] for c in clusters], [pairs[c] for c in clusters])
    return envelope(wilson(validity.valid, validity.pairs), bootstrap)


def _statuses(total: dict[Group, Part]) -> pa.Table:
    """Return the number of rows per group and status."""
    rows = [
        dict(zip(GROUP, group, strict=True)) | {"status": status, "n": count}
        for group in sorted(total, key=_order)
        for status, count in sorted(total[group].statuses.items())
    ]
    fields = [f for f in _summary_schema("audit", "") if f.name in GROUP]
    return pa.Table.from_pylist(rows, pa.schema([*fields, ("status", pa.string()), ("n", pa.int64())]))


def _order(group: Group) -> tuple[Any, ...]:
    """Return a sort key: the whole before cohorts, parameters rising, null first."""
    keyed = dict(zip(GROUP, group, strict=True))
    names = ("cohort", "cohort_value", "dataset", "n_trees", "method", "beta", "parameter", "alpha", "voting")
    return tuple((keyed[k] is not None, keyed[k] if keyed[k] is not None else 0) for k in names)


def _null(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def write_summary_table(run: RunFolder, name: str, table: pa.Table | None) -> None:
    """Publish a table as Parquet and CSV."""
    if table is None:
        return
    run.publish_table(f"summary/{name}.parquet", table)
    run.publish(f"summary/{name}.csv", csv_bytes(table))
