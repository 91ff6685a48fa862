"""`robustcf report`: write a run folder's report as one HTML file, RUN/report.html."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from robustcf.methods.registry import title_of
from robustcf.report import Report, render
from robustcf.report.content import AlarmLine, Doubts, Population, Since, Survival
from robustcf.report.method_line import Estimate
from robustcf.schema.schema import Schema, SchemaError
from robustcf.stats import wilson

from ..cluster.tasks import Tasks
from ..inputs.errors import BadInput, TaskFailed
from ..run.alarms import read_alarms
from ..run.folder import BROKEN, RunFolder, require_run
from ..run.planned import readable_shards
from ..run.rows import Key
from ..terminal.progress import stage
from .groups import differences
from .model import decision_of, is_fully_grown
from .parts import MethodCounts, PopulationCounts, PopulationKey, ReportParts
from .people import customers, failed_rows, slow_rows
from .rows import look_at
from .since import STATES, Side, compare, flat, parts_for, settings_changed
from .tables import Summary, headline, population, watched_in

SHARDS_PER_TASK = 8


def report_folder(address: str) -> str:
    """Write the report of a run folder and return its address."""
    run, manifest = require_run(address)
    try:
        manifest["report"] = report_run(run, manifest)
        if manifest["state"] == "complete":  # an active run writes its own manifest
            run.write_manifest(manifest)
        return run.showing("report.html")
    except (*BROKEN, KeyError) as error:
        raise BadInput(f"{run.shown}: files are damaged or were not written by robustcf: {error}") from error


def report_run(
    run: RunFolder, manifest: dict[str, Any], tasks: Tasks | None = None, previous: str | None = None
) -> dict[str, Any]:
    """Write the report and return its size and digest, which belong in the manifest.

    With `tasks` the shards are read on the cluster, else here, one after another.
    """
    names = readable_shards(run, manifest)
    found = ReportParts()
    groups = [tuple(names[i : i + SHARDS_PER_TASK]) for i in range(0, len(names), SHARDS_PER_TASK)]
    with stage("reporting", len(names)) as progress:
        for call, part in _each(tasks, look_at, [(run, group) for group in groups]):
            found.add(part)
            progress.advance(len(call[1]))
    html = render(_content(run, manifest, found, tasks, previous))
    file = run.publish("report.html", html.encode("utf-8"))
    return {"size": file.size, "sha256": file.digest}


def _each(tasks: Tasks | None, function: Any, calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, Any]]:
    if tasks is not None:
        yield from tasks.run(function, calls)
        return
    for call in calls:
        yield call, function(*call)


def _content(
    run: RunFolder, manifest: Mapping[str, Any], found: ReportParts, tasks: Tasks | None, previous: str | None
) -> Report:
    summary = Summary.read(run)
    schemas = _Schemas(run)
    several = len(found.populations) > 1 or manifest["kind"] == "sweep"
    names = {place: _name(place, several) for place in sorted(found.populations)}
    config = manifest.get("config", {})
    cohorts = config.get("customers", {}).get("cohort", ())
    decision, grown = decision_of(run), is_fully_grown(run)
    sweep = manifest["kind"] == "sweep"
    populations = tuple(
        population(
            names[p],
            p,
            found.populations[p],
            summary,
            schemas.of(p[0]),
            cohorts,
            sweep,
            decision,
            None if sweep else differences(run, watched_in(found.populations[p])),
            grown,
        )
        for p in sorted(found.populations)
    )
    favourable = config.get("model", {}).get("favourable")
    return Report(
        kind=manifest["kind"],
        run=run.shown,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        state=str(manifest.get("state", "unknown")),
        target=None if favourable is None else str(favourable),
        populations=populations,
        customers=customers(found, names, schemas.of),
        denied=sum(p.denied for p in populations),
        slow=slow_rows(found, names),
        failed=failed_rows(found, names),
        failed_total=_failed_total(found),
        doubts=_doubts(found, populations, summary, manifest),
        since=_since(run, manifest, found, summary, tasks, previous),
        settings=tuple(flat(config)),
        hashes=tuple(_hashes(manifest)),
        versions=tuple((str(k), str(v)) for k, v in sorted(manifest.get("versions", {}).items())),
        alarms=_alarms(run),
    )


def _alarms(run: RunFolder) -> tuple[AlarmLine, ...]:
    """Return the run's limits, the broken ones first."""
    found = read_alarms(run)
    if found is None:
        return ()
    kept = (alarm for alarm in found.alarms if alarm.state == "ok")
    return tuple(AlarmLine(alarm.state, alarm.text) for alarm in (*found.broken, *kept))


def _name(place: PopulationKey, several: bool) -> str:
    return f"{place[0]}, {place[1]} trees" if several else place[0]


class _Schemas:
    """The run's schemas by data set; without a schema, features are shown by name."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.known: dict[str, Schema | None] = {}

    def of(self, dataset: str) -> Schema | None:
        if dataset not in self.known:
            names = (f"schema/{dataset}.toml", "schema.toml")
            self.known[dataset] = next((self._read(n) for n in names if self.run.exists(n)), None)
        return self.known[dataset]

    def _read(self, name: str) -> Schema | None:
        try:
            return Schema.from_toml(self.run.read(name), name=self.run.showing(name))
        except SchemaError as error:
            raise BadInput(str(error)) from None


def _failed_total(found: ReportParts) -> int:
    total = 0
    for facts in found.populations.values():
        statuses = _statuses(facts.methods)
        total += statuses["timeout"] + statuses["error"] + statuses["feasible"] + facts.invalid
    return total


def _statuses(methods: Mapping[Key, MethodCounts]) -> Counter[str]:
    total: Counter[str] = Counter()
    for method in methods.values():
        total.update(method.statuses)
    return total


def _doubts(
    found: ReportParts, populations: Sequence[Population], summary: Summary, manifest: Mapping[str, Any]
) -> Doubts:
    counts: list[PopulationCounts] = list(found.populations.values())
    statuses: Counter[str] = sum((_statuses(f.methods) for f in counts), Counter())
    config = manifest.get("config", {})
    voting = (config.get("model") or config.get("sweep") or {}).get("voting", "soft")
    return Doubts(
        feasible=statuses["feasible"],
        worst_gap=max((f.feasible_gap for f in counts), default=0.0),
        kept=sum(f.kept for f in counts),
        relaxed=statuses["relaxed"],
        heuristic=statuses["heuristic"],
        timeout=statuses["timeout"],
        error=statuses["error"],
        invalid=sum(f.invalid for f in counts),
        unverified=sum(f.unverified for f in counts),
        open_best_scores=sum(f.open_best_scores for f in counts),
        measured=any(p.scenarios for p in populations),
        forests=int(config.get("validation", {}).get("forests", 0)),
        validity_interval=summary.note("validity", "interval"),
        distance_interval=summary.note("distance", "interval"),
        soft=voting == "soft",
        certified=sum(m.certificates.certified for p in populations for m in p.methods if m.certificates),
    )


def _hashes(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("forest", "schema", "data", "config"):
        value = manifest.get(f"{name}_hash")
        if isinstance(value, Mapping):
            yield from ((f"{name}: {k}", str(v)) for k, v in sorted(value.items()))
        elif value is not None:
            yield name, str(value)
    digests = sorted((name, facts.get("sha256", "")) for name, facts in manifest.get("shards", {}).items())
    if digests:
        whole = hashlib.sha256("".join(f"{d}  {n}\n" for n, d in digests).encode()).hexdigest()
        yield f"all {len(digests)} shards (SHA-256 over “digest  name” lines, by name)", whole


def _since(
    run: RunFolder,
    manifest: Mapping[str, Any],
    found: ReportParts,
    summary: Summary,
    tasks: Tasks | None,
    previous: str | None,
) -> Since | None:
    """Compare with the previous run; None if the run names no previous run."""
    named = previous or manifest.get("config", {}).get("previous")
    if named is None:
        return None
    facts = manifest.get("shards", {}).values()
    common: dict[str, Any] = {
        "survival": tuple(_survival(manifest)),
        "copied": sum(f.get("copied", 0) for f in facts),
        "solved": sum(f.get("solved", 0) for f in facts),
    }
    earlier = RunFolder(named)
    try:
        before = earlier.manifest()
    except (BadInput, OSError):
        before = None
    if before is None:
        return Since(
            earlier.shown,
            "the previous run cannot be read; the report shows only what this run recorded",
            **common,
        )
    earlier_summary = Summary.read(earlier)
    key = _compared(found, earlier_summary)
    counts: Counter[tuple[str, ...]] = Counter()
    problem = manifest.get("previous")
    parts = parts_for(before, manifest)
    try:
        sides = [
            Side(r, int(m["methods"]), tuple(readable_shards(r, m)))
            for r, m in ((earlier, before), (run, manifest))
        ]
        for _, part in _each(tasks, compare, [(*sides, key, k, parts) for k in range(parts)]):
            counts.update(part)
    except (OSError, ValueError, TaskFailed, BadInput) as error:
        counts, problem = Counter(), f"the rows of the previous run could not be compared: {error}"
    return Since(
        earlier.shown,
        problem,
        same=tuple(
            (name, before.get(f"{name}_hash") == manifest.get(f"{name}_hash"))
            for name in ("forest", "schema", "data")
        ),
        customers={name: counts[(name,)] for name in ("new", "gone", "changed", "unchanged")}
        if counts
        else {},
        moves=tuple((a, b, counts[a, b]) for a in STATES for b in STATES if key and counts[a, b]),
        question=title_of(*key) if key else "",
        settings=tuple(settings_changed(before, manifest)),
        figures=tuple(summary.beside(earlier_summary)),
        **common,
    )


def _compared(found: ReportParts, earlier: Summary) -> Key | None:
    """Return the strictest method of both runs, else any method of both."""
    facts = found.populations[min(found.populations)]
    both = {key: facts.methods[key] for key in facts.methods if key in earlier.methods}
    return headline(PopulationCounts(methods=both)) or next(iter(both), None)


def _survival(manifest: Mapping[str, Any]) -> Iterator[Survival]:
    for row in sorted(manifest.get("survival", []), key=_mildest_first):
        low, high = wilson(row["survived"], row["given"])
        share = Estimate(row["survived"] / row["given"], low, high) if row["given"] else Estimate()
        title = title_of(row["method"], row["alpha"], row["beta"], row["parameter"])
        yield Survival(title, row["given"], row["survived"], share)


def _mildest_first(row: Mapping[str, Any]) -> tuple[bool, str, float]:
    return row["method"] != "naive", row["method"], -(row["alpha"] or 1.0)
