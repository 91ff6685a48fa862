"""Prepare the single rows of the report: sampled customers, slow rows and failed rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from robustcf.methods.registry import title_of
from robustcf.report.content import Advice, Customer, Row
from robustcf.report.words import share
from robustcf.schema.schema import Schema

from ..run.columns import certificate_of
from ..run.rows import Key
from .parts import LOOKED_AT, MethodCounts, PopulationKey, ReportParts
from .tables import rank

Names = Mapping[PopulationKey, str]


def customers(
    found: ReportParts, names: Names, schema_of: Callable[[str], Schema | None]
) -> tuple[Customer, ...]:
    """Return the sample in the order of its hashes."""
    chosen = sorted((c for rows in found.sample.values() for c in rows), key=lambda c: c[0])
    return tuple(_customer(c, names, schema_of(c["dataset"])) for _, c in chosen)


def _customer(record: Mapping[str, Any], names: Names, schema: Schema | None) -> Customer:
    before = [row["score_before"] for row in record["rows"] if row["score_before"] is not None]
    name = str(record["instance_id"])
    ranked = sorted(record["rows"], key=lambda r: rank((_key(r), MethodCounts(threshold=r["threshold"]))))
    return Customer(
        name=name,
        population=names[record["dataset"], record["n_trees"]],
        score=before[0] if before else None,
        cohorts=tuple((k, "(missing)" if v is None else str(v)) for k, v in record["cohort"] or ()),
        advice=tuple(_advice(row, schema) for row in ranked),
    )


def _key(row: Mapping[str, Any]) -> Key:
    return row["method"], row["alpha"], row["beta"], row["parameter"]


def _advice(row: Mapping[str, Any], schema: Schema | None) -> Advice:
    works = row["works"]  # a point that does not work is never shown as advice
    return Advice(
        method=title_of(*_key(row)),
        status=row["status"],
        reason=row["reason"],
        changes=tuple(_change(c, schema) for c in row["changes"] or () if works),
        distance=row["distance"] if works else None,
        score=row["score_after"] if works else None,
        threshold=row["threshold"],
        gap=row["gap"],
        predicted=row["predicted_validity"] if works else None,
        held=tuple((name, *row["held"][name]) for name in sorted(row["held"], key=_headline_first) if works),
        best_score=row["best_score"],
        certificate=_certificate(row),
        certified=row["certified"],
    )


def _certificate(row: Mapping[str, Any]) -> str | None:
    """Return the outcome of a row's certificate; the report states the claim once per method."""
    found = certificate_of(row)
    if found is None:
        return None
    counted = f"{found['agree']} of {found['forests']} certification forests agree"
    return f"{counted}; lower bound {share(found['lower_bound'])}"


def _headline_first(scenario: str) -> tuple[bool, str]:
    return scenario != "same-data", scenario


def _change(change: Mapping[str, Any], schema: Schema | None) -> tuple[str, str, str]:
    """Return label, old and new value, unrounded: a rounded value may not flip the decision."""
    from robustcf.counterfactual import Change
    from robustcf.show import change_rows

    name = change["feature"]
    if schema is None or name not in schema.names:
        return name, str(change["before"]), str(change["after"])
    feature = schema[name]
    before, after = (
        feature.value(float(v)) if feature.is_number else v for v in (change["before"], change["after"])
    )
    return change_rows(schema, (Change(name, before, after, change["delta"]),))[0]


def slow_rows(found: ReportParts, names: Names) -> tuple[Row, ...]:
    return tuple(_row(row, names) for _, row in found.slow)


def failed_rows(found: ReportParts, names: Names) -> tuple[Row, ...]:
    """Return rows without a full answer; equal rows of a customer's methods become one line."""
    made: dict[tuple[str, ...], list[Row]] = {}
    for status in LOOKED_AT:
        for _, record in found.failed.get(status, ()):
            row = _row(record, names)
            gap = "" if row.gap is None else repr(row.gap)
            made.setdefault((row.population, row.name, status, row.reason or "", gap), []).append(row)
    methods = {names[place]: len(facts.methods) for place, facts in found.populations.items()}
    return tuple(replace(rows[0], method=_together(rows, methods)) for rows in made.values())


def _together(rows: list[Row], methods: Mapping[str, int]) -> str:
    if rows[0].status == "invalid_input" or len(rows) == methods[rows[0].population]:
        return "every method"
    return "; ".join(row.method for row in rows)


def _row(row: Mapping[str, Any], names: Names) -> Row:
    return Row(
        name=str(row["instance_id"]),
        population=names[row["dataset"], row["n_trees"]],
        method=title_of(*_key(row)),
        status=row["status"],
        reason=row["reason"],
        seconds=row["seconds"],
        nodes=row["nodes"],
        gap=row["gap"],
        solver=row["solver"],
    )
