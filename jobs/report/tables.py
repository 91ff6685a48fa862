"""Turn counts and summary tables into the values of the report, in original units."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from robustcf.certificate.certificate import claim
from robustcf.methods.registry import certifies, promises, title_of
from robustcf.report.content import Group, Lever, Population, Use
from robustcf.report.differences import Differences
from robustcf.report.method_line import Certificates, Estimate, MethodLine, Outcomes, Validity
from robustcf.report.words import share
from robustcf.schema.schema import Schema
from robustcf.stats import mean

from ..run.figures import strictest, watched
from ..run.folder import RunFolder
from ..run.reader import read_shard
from ..run.rows import Key
from .parts import METHOD, MethodCounts, PopulationCounts, PopulationKey

MOST_GROUPS = 40  # values of a cohort column on the page; summary.csv has all of them


@dataclass(frozen=True)
class Summary:
    """The summary tables of `robustcf reduce`: their lines and their column metadata."""

    lines: tuple[dict[str, Any], ...]
    statuses: tuple[dict[str, Any], ...]
    schema: pa.Schema | None

    @classmethod
    def read(cls, run: RunFolder) -> Summary:
        tables = [_table(run, name) for name in ("summary", "status")]
        lines, statuses = (t.to_pylist() if t is not None else [] for t in tables)
        lines.sort(key=lambda line: line["scenario"] != "same-data")  # the first scenario is the headline
        return cls(tuple(lines), tuple(statuses), None if tables[0] is None else tables[0].schema)

    @property
    def methods(self) -> set[Key]:
        return {(o["method"], o["alpha"], o["beta"], o["parameter"]) for o in self.lines}

    def note(self, column: str, key: str) -> str:
        if self.schema is None or column not in self.schema.names:
            return ""
        metadata = self.schema.field(column).metadata or {}
        return str(metadata.get(key.encode(), b"").decode())

    def of(
        self, place: PopulationKey, key: Key, cohort: str = "", value: str | None = ""
    ) -> list[dict[str, Any]]:
        """Return the lines of one method and group, one per scenario."""
        wanted = (*place, *key, cohort, value)
        return [line for line in self.lines if _group(line) == wanted]

    def beside(self, earlier: Summary) -> Iterator[tuple[str, Estimate, Estimate, Estimate, Estimate]]:
        """Return previous and current distance and validity of the methods of both runs."""
        seen = set()
        for line in sorted(self.lines, key=lambda o: o["distance"] or 0.0):
            group = _group(line)
            other = next((o for o in earlier.lines if _group(o) == group), None)
            if line["cohort"] == "" and other is not None and group not in seen:
                seen.add(group)
                yield (
                    title_of(line["method"], line["alpha"], line["beta"], line["parameter"]),
                    _estimate(other, "distance"),
                    _estimate(line, "distance"),
                    _estimate(other, "validity"),
                    _estimate(line, "validity"),
                )


def _table(run: RunFolder, name: str) -> pa.Table | None:
    if not run.exists(f"summary/{name}.parquet"):
        return None
    return read_shard(run, "summary", f"{name}.parquet")


def _group(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(line[k] for k in ("dataset", "n_trees", *METHOD, "cohort", "cohort_value"))


def _estimate(line: Mapping[str, Any], name: str) -> Estimate:
    """Return a figure with its interval; summaries of older versions lack some of them."""
    return Estimate(*(line.get(column) for column in (name, f"{name}_low", f"{name}_high")))


def headline(facts: PopulationCounts) -> Key | None:
    """Return the strictest method of a population, if it has one that aims at robustness."""
    return strictest({key: method.threshold for key, method in facts.methods.items()})


def watched_in(facts: PopulationCounts) -> Key:
    """Return the method that limits and the differences between groups are about."""
    return watched({key: method.threshold for key, method in facts.methods.items()})


def population(
    name: str,
    place: PopulationKey,
    facts: PopulationCounts,
    summary: Summary,
    schema: Schema | None,
    cohorts: Sequence[str] = (),
    experiment: bool = False,
    decision: str | None = None,
    differences: Differences | None = None,
    fully_grown: bool = False,
) -> Population:
    """Return one population of the report."""
    denied = facts.seen - facts.favourable - facts.invalid
    least = "an answer to the mildest method"
    if _has_naive(facts):
        least = "any change that flips the decision"
    best = headline(facts)
    lines = tuple(
        _method(place, key, m, denied, summary) for key, m in sorted(facts.methods.items(), key=rank)
    )
    strict = next((m for m in lines if best is not None and m.title == title_of(*best)), None)
    groups, left_out = _groups(place, facts, summary, cohorts)
    return Population(
        name=name,
        seen=facts.seen,
        favourable=facts.favourable,
        invalid=facts.invalid,
        denied=denied,
        any=Outcomes(least, facts.any_reached, facts.any_none, denied - facts.any_reached - facts.any_none),
        strict=None if strict is None else _asked(strict),
        headline=None if strict is None else strict.title,
        methods=lines,
        levers=tuple(_levers(facts, schema)),
        groups=tuple(groups),
        groups_left_out=left_out,
        means_of_all_points=experiment,
        decision=decision,
        differences=differences,
        fully_grown=fully_grown,
    )


def _has_naive(facts: PopulationCounts) -> bool:
    return any(key[0] == "naive" for key in facts.methods)


def _asked(method: MethodLine) -> Outcomes:
    """Return the outcomes of the headline method; a certified method is asked for certificates."""
    found, own = method.outcomes, method.certificates
    if own is None:
        return found
    return Outcomes(found.question, own.certified, found.none, found.unresolved, own.uncertified)


def rank(item: tuple[Key, MethodCounts]) -> tuple[Any, ...]:
    """Sort naive first, then methods with a promise by threshold, certified ones, then the others."""
    (name, alpha, beta, parameter), facts = item
    kind = 0 if name == "naive" else 2 if certifies(name) else 1 if promises(name) else 3
    strict = (facts.threshold or 0.0) if kind == 1 else -(alpha or 0.0) if kind == 2 else 0.0
    return kind, strict, name, alpha or 0, beta or 0, parameter or 0


def _method(place: PopulationKey, key: Key, facts: MethodCounts, denied: int, summary: Summary) -> MethodLine:
    found = summary.of(place, key)
    first: Mapping[str, Any] = found[0] if found else {}
    statuses = Counter(
        {k: v for k, v in facts.statuses.items() if k not in ("already_favourable", "invalid_input")}
    )
    asked = statuses.total()
    title = title_of(*key)
    return MethodLine(
        title=title,
        naive=key[0] == "naive",
        alpha=key[1],
        threshold=facts.threshold,
        statuses=dict(sorted(statuses.items())),
        outcomes=Outcomes(title, facts.reached, facts.none, asked - facts.reached - facts.none),
        distance=_estimate(first, "distance") if first else Estimate(),
        changed=first.get("changed"),
        pairs=facts.pairs,
        distance_paired=_mean(facts.distance_paired, facts.pairs),
        naive_paired=_mean(facts.naive_paired, facts.pairs),
        predicted=_mean(facts.predicted, facts.predicted_rows),
        validity=tuple(
            Validity(
                o["scenario"],
                _estimate(o, "validity"),
                _estimate(o, "validity_reached"),
                bool(o["pareto"]),
                _estimate(o, "held"),
            )
            for o in found
            if o["scenario"] is not None
        ),
        seconds_median=first.get("seconds_median"),
        seconds_p95=first.get("seconds_p95"),
        promises=promises(key[0]),
        certificates=_certificates(key, facts, first.get("n_certified") or 0),
    )


def _certificates(key: Key, facts: MethodCounts, certified: int) -> Certificates | None:
    """Return what the certificates of a method say; None if it makes none."""
    if not certifies(key[0]):
        return None
    one = facts.certificate
    if one is None:
        return Certificates(facts.reached, certified)
    alpha, each = key[1] or math.nan, one["delta"]
    return Certificates(
        facts.reached,
        certified,
        claim(alpha, each, one["scenario"], one["n_trees"], one["test"]),
        one["forests"],
        each,
        max(1, round((key[3] or each) / each)),
        one["scenario"],
    )


def _mean(total: int, rows: int) -> float | None:
    value = mean(total, rows)
    return None if math.isnan(value) else value


def _levers(facts: PopulationCounts, schema: Schema | None) -> Iterator[Lever]:
    """Return the features, most used first over all methods."""
    total: Counter[str] = Counter()
    for method in facts.methods.values():
        total.update(method.uses)
    ordered = sorted(facts.methods.items(), key=rank)
    for name, _ in sorted(total.items(), key=lambda i: (-i[1], i[0])):
        yield Lever(
            _label(schema, name),
            tuple(Use(title_of(*k), m.uses[name], m.answers, _typical(m, name, schema)) for k, m in ordered),
        )


def _label(schema: Schema | None, name: str) -> str:
    return name if schema is None or name not in schema.names else schema[name].label or name


def _typical(facts: MethodCounts, name: str, schema: Schema | None) -> str:
    """Return a number's mean change with its unit, or a category's most frequent change."""
    uses = facts.uses[name]
    if not uses:
        return "–"
    words = [(n, before, after) for (f, before, after), n in facts.words.items() if f == name]
    if words:
        n, before, after = min(words, key=lambda w: (-w[0], w[1], w[2]))
        return f"{before} → {after} ({share(n / uses, 0)})"
    far, signed = mean(facts.moved[name], uses), mean(facts.shifted[name], uses)
    unit = "" if schema is None or name not in schema.names else schema[name].unit or ""
    if abs(abs(signed) - far) <= 1e-9 * far:
        return f"{'+' if signed > 0 else '−'}{_short(far)} {unit}".strip()
    return f"±{_short(far)} {unit}".strip()


def _short(value: float) -> str:
    """Format with at least three significant digits and thousands separators."""
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{round(value, digits):,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"


def _groups(
    place: PopulationKey, facts: PopulationCounts, summary: Summary, cohorts: Sequence[str]
) -> tuple[list[Group], int]:
    """Return the largest groups of each cohort column, sorted by name."""
    statuses: dict[tuple[Any, ...], Counter[str]] = {}
    for line in summary.statuses:
        statuses.setdefault(_group(line), Counter())[line["status"]] += line["n"]
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in summary.lines:  # the first scenario represents the group
        if line["cohort"] and (line["dataset"], line["n_trees"]) == place:
            lines.setdefault(_group(line), line)
    sizes = Counter({(o["cohort"], o["cohort_value"]): o["n"] for o in lines.values()})
    kept, left_out = [], 0
    for cohort in dict.fromkeys([*cohorts, *(c for c, _ in sizes)]):
        values = sorted((v for c, v in sizes if c == cohort), key=lambda v: (-sizes[cohort, v], str(v)))
        left_out += len(values[MOST_GROUPS:])
        kept += [(cohort, v) for v in sorted(values[:MOST_GROUPS], key=str)]
    order = [key for key, _ in sorted(facts.methods.items(), key=rank)]
    made = []
    for cohort, value in kept:
        for key in order:
            group = (*place, *key, cohort, value)
            if group not in lines:
                continue
            line, own = lines[group], statuses.get(group, Counter())
            made.append(
                Group(
                    cohort=cohort,
                    value="(missing)" if value is None else value,
                    method=title_of(*key),
                    seen=line["n"],
                    denied=line["n"] - own["already_favourable"] - own["invalid_input"],
                    answers=line["n_reached"],
                    none=line["n_no_recourse"],
                    distance=_estimate(line, "distance"),
                    validity=_estimate(line, "validity"),
                )
            )
    return made, left_out
