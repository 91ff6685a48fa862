"""Read what a customer's file needs: the run's lines about a customer, and the customer's own row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robustcf import Forest, Schema
from robustcf.forest.forest import Label
from robustcf.schema.schema import Value
from robustcf.verify import Findings

from ..inputs.errors import BadInput
from ..run.folder import RunFolder, require_run
from ..run.reader import read_shard, row_digests
from ..run.rows import label_of, row_keys
from ..verify.auditor import Auditor, Inputs
from ..verify.customers import CustomerTable
from ..verify.records import Records, Unreadable

DECIDED = ("already_favourable", "invalid_input")  # no file is written for these with --denied


@dataclass(frozen=True)
class Person:
    """One customer: the row in original units, and one group of lines per method.

    A group has the nearest answer and its alternatives. `row` is None for a row that cannot be read.
    """

    id: str
    row: dict[str, Value] | None
    lines: list[list[dict[str, Any]]]

    @property
    def denied(self) -> bool:
        return self.lines[0][0]["status"] not in DECIDED


class AuditRun:
    """A finished audit with its model, and the customer table that it read."""

    def __init__(self, address: str, customers: str | None) -> None:
        self.run: RunFolder
        self.run, self.manifest = require_run(address)
        if self.manifest["kind"] != "audit":
            raise BadInput(f"{self.run.shown} is a sweep; files for customers need an audit")
        findings = Findings()
        try:
            self.records = Records(self.run, self.manifest, findings)
            schema, forest = self.records.schema("schema.toml"), self.records.forest("forest")
            trees = self.records.trees("forest")
            if schema is None or forest is None or trees is None:
                raise BadInput(f"{self.run.shown}: its schema or its forest cannot be read")
            self.schema: Schema = schema
            self.forest: Forest = forest
            self.target: Label = label_of(forest, str(self.records.target(trees)))
            where = Inputs(Auditor(customers=customers), "audit").where(self.records.take("config", dict))
            self.table = CustomerTable(
                where, self.manifest, schema, trees, str(self.target), self.records.voting, findings
            )
        except Unreadable as error:
            raise BadInput(f"{self.run.showing('manifest.json')}: {error}") from None

    def people(self, wanted: str | None) -> Iterator[Person]:
        """Yield one customer, or with None all that are denied, shard by shard."""
        found = False
        for unit in self.records.units:
            lines = self._lines(unit.shard, wanted)
            if not lines:
                continue
            found = True
            ids = list(lines)
            numbers = self.table.rows_of("customers", ids)
            digests = row_digests(self.run, unit.shard)
            keys = row_keys(numbers)
            for k, name in enumerate(ids):
                person = self._person(name, lines[name], numbers[k], keys[k] == digests.get(name))
                if wanted is not None or person.denied:
                    yield person
            if wanted is not None:
                return
        if wanted is not None and not found:
            raise BadInput(f"{self.run.shown}: no customer {wanted!r}")

    def _person(self, name: str, lines: list[dict[str, Any]], numbers: np.ndarray, same: bool) -> Person:
        groups: list[list[dict[str, Any]]] = []
        for line in lines:
            if line["alternative"] == 0:
                groups.append([])
            groups[-1].append(line)
        if lines[0]["status"] == "invalid_input":
            return Person(name, None, groups)
        if not same:
            raise BadInput(
                f"customer {name!r}: the row that the run explained was not found in the customer table; "
                "name the table with --customers"
            )
        values = zip(self.schema.features, numbers, strict=True)
        return Person(name, {f.name: f.value(float(number)) for f, number in values}, groups)

    def _lines(self, shard: str, wanted: str | None) -> dict[str, list[dict[str, Any]]]:
        """Return a shard's lines by customer, with the measured validity of each point."""
        try:
            table = read_shard(self.run, "counterfactuals", shard, alternatives=True)
            measured = self._measured(shard, wanted)
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"{self.run.showing(shard)}: cannot be read: {error}") from None
        if wanted is not None:
            table = table.filter(pc.equal(table["instance_id"], wanted))
        found: dict[str, list[dict[str, Any]]] = {}
        for line in table.to_pylist():
            line["measured"] = measured.get(_key(line), {})
            found.setdefault(line["instance_id"], []).append(line)
        return found

    def _measured(self, shard: str, wanted: str | None) -> dict[tuple[Any, ...], dict[str, tuple[int, int]]]:
        """Return how many retrained forests accept each point, and how many there are, by scenario."""
        if not self.records.measured:
            return {}
        table = read_shard(self.run, "validation", shard, alternatives=True)
        if wanted is not None:
            table = table.filter(pc.equal(table["instance_id"], wanted))
        found: dict[tuple[Any, ...], dict[str, tuple[int, int]]] = {}
        for line in table.to_pylist():
            valid: Sequence[bool] = line["valid"]
            found.setdefault(_key(line), {})[line["scenario"]] = sum(valid), len(valid)
        return found


def _key(line: dict[str, Any]) -> tuple[Any, ...]:
    names = ("instance_id", "method", "alpha", "beta", "parameter", "alternative")
    return tuple(line[name] for name in names)
