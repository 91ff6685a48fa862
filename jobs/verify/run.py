"""Check a whole run folder: file list, shards, counts, summary and input rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from robustcf.schema.schema import Schema
from robustcf.verify import Block, Findings, ShardQuestion, Tally, Trees, check_block
from robustcf.verify.findings import short
from robustcf.verify.rows import Checked

from ..inputs.errors import BadInput
from ..run.alarms import limits_of
from ..run.columns import COUNTERFACTUALS, ROW_KEYS, VALIDATION
from ..run.folder import require_run
from ..run.groups import CROSSED
from ..terminal.progress import stage
from .alarms import check_alarms
from .alternatives import check_alternatives, nearest_rows
from .auditor import NO_OWN_INPUTS, Auditor, Inputs
from .certificates import Certificates
from .customers import CustomerTable
from .groups import check_groups, with_intersections
from .input import DataSets, NoSource, Source
from .manifest import check_digests, check_listing
from .records import Records, Unit, Unreadable
from .retrain import AllRows, Retraining
from .summary import check_summary
from .tables import blocks, check_validation, cohorts_of, read_whole
from .training import Plausibility, Rows, check_training_hash, read_all_rows, read_training


class Challenge(Protocol):
    """Collects a run's claims shard by shard, then tries to refute some of them."""

    def add(self, unit: Unit, asked: ShardQuestion, block: Block, checked: Checked) -> None: ...

    def go(self, source: Source, findings: Findings) -> list[str]:
        """Add refuted claims to the findings; return lines that summarise the attempts."""
        ...


@dataclass
class Verified:
    """The result of a verification.

    `notes` lists what was not checked, `challenges` the results of attempts to refute claims.
    """

    rows: int = 0
    customers: int = 0
    findings: Findings = field(default_factory=Findings)
    notes: list[str] = field(default_factory=list)
    challenges: list[str] = field(default_factory=list)


def verify_run(
    address: str,
    auditor: Auditor = NO_OWN_INPUTS,
    challenge: Challenge | None = None,
    retraining: Retraining | None = None,
) -> Verified:
    """Check a run folder.

    Parameters
    ----------
    address : str
        A local path or a URI.
    auditor : Auditor
        The auditor's own table, model and config; missing ones are taken from the manifest.
    challenge : Challenge, optional
        An additional attempt to refute the run's claims.
    retraining : Retraining, optional
        Trains fresh forests of the run's certificates again.
    """
    run, manifest = require_run(address)
    done = Verified()
    try:
        records = Records(run, manifest, done.findings)
        inputs = Inputs(auditor, records.kind)
        inputs.check(manifest, done.findings)
        _Verification(records, done, inputs, challenge, retraining).go()
    except Unreadable as error:
        done.findings.add("manifest", f"manifest.json: {error}")
    return done


class _Verification:
    def __init__(
        self,
        records: Records,
        done: Verified,
        inputs: Inputs,
        challenge: Challenge | None,
        retraining: Retraining | None,
    ) -> None:
        self.records, self.done, self.inputs, self.challenge = records, done, inputs, challenge
        self.retraining = retraining
        self.certificates = Certificates(records, retraining)
        self.findings, self.tally = done.findings, Tally(records.kind == "audit")
        self.plausibility = Plausibility(records)
        self.ids: list[np.ndarray] = []
        self.complete = True
        self._training: Rows | str | None = None
        self._all_rows: AllRows | None = None

    def go(self) -> None:
        records, manifest = self.records, self.records.manifest
        check_digests(records)
        check_listing(records)
        source = self.source()
        if self.retraining is not None:
            self.retraining.begin(manifest, lambda unit, _: self.all_rows(unit, source), self.findings)
        self.certificates.prepare()
        with stage("verifying", records.rows) as progress:
            for unit in records.units:
                progress.advance(self.check_unit(unit, source))
        notes = self.done.notes
        if self.complete:
            self.check_counts()
            check_groups(records, self.tally)
            self.tally.forget(CROSSED)
            check_summary(records.run, manifest, self.tally, self.findings)
            if records.kind == "audit":
                check_alarms(records, self.tally)
            notes += source.finish()
        else:
            notes.append("counts, summary and customers: a file needed for these checks cannot be read")
        notes += [*self.plausibility.notes, *self.certificates.notes]
        notes += [f"{what}: {n:,} rows" for what, n in self.findings.unchecked.items() if n]
        if records.measured:
            notes.append("the validation forests' decisions: these forests are not stored")
        if "seconds" in limits_of(manifest):
            notes.append("the run time: only the manifest has it")
        for name in sorted({d.name for d in records.demands if d.foreign is not None}):
            notes.append(f"the threshold of {name}: it is the one that the method's own package computes")
        if self.retraining is not None:
            self.done.challenges += self.retraining.lines
        if self.challenge is not None:
            self.done.challenges += self.challenge.go(source, self.findings)

    def source(self) -> Source:
        """Return the source of the run's input rows, if they can be read again."""
        records = self.records
        if records.kind == "sweep":
            if not self.inputs.auditor.reads:
                return NoSource("the run's input rows: not requested")
            hashes = records.take("data_hash", dict)
            trusted = self.inputs.config is not None
            return DataSets(records.config, hashes, records.seed, self.findings, trusted)
        trees, schema = records.trees("forest"), records.schema("schema.toml")
        if trees is None or schema is None:
            return NoSource("the customers' own rows: the run's forest or schema cannot be read")
        if not self.inputs.auditor.reads:
            return NoSource("the run's input rows: not requested", len(schema))
        where = self.inputs.where(records.take("config", dict))
        target = records.target(trees)
        return CustomerTable(where, records.manifest, schema, trees, target, records.voting, self.findings)

    def training(self, unit: Unit, source: Source, trees: Trees, schema: Schema) -> Rows | str | None:
        """Return a unit's training rows if a method needs them.

        The result is a text if they are not available.
        """
        if not self.plausibility.needed or not self.inputs.auditor.reads:
            return None
        if isinstance(source, DataSets):
            rows = source.training(unit.dataset, unit.simulation)
            if rows is None:
                return "the data set cannot be read"
            return rows[0], np.array([str(label) for label in rows[1].tolist()], dtype=object)
        if self._training is None:
            own = self.inputs.training(self.records.config)
            self._training = read_training(own, schema, trees, self.inputs.config is not None)
            if not isinstance(self._training, str):
                check_training_hash(self.records, trees, *self._training)
        return self._training

    def all_rows(self, unit: Unit, source: Source) -> AllRows:
        """Return the rows that a unit's fresh forests are trained on."""
        if isinstance(source, DataSets):
            rows = source.all_rows(unit.dataset, unit.simulation)
            if rows is None:
                raise BadInput(f"--retrain needs the rows of data set {unit.dataset!r}, which differ here")
            return rows
        if self._all_rows is None:
            records = self.records
            trees, schema = records.trees(unit.forest), records.schema(unit.schema)
            if trees is None or schema is None:
                raise BadInput("--retrain needs the run's forest and schema, which cannot be read")
            own = self.inputs.training(records.config)
            trusted = self.inputs.config is not None
            self._all_rows = read_all_rows(records, own, schema, trees, trusted)
        return self._all_rows

    def check_unit(self, unit: Unit, source: Source) -> int:
        """Check one shard and all its files; return its number of nearest answers."""
        records, findings = self.records, self.findings
        name = f"counterfactuals/{unit.shard}"
        facts = records.shards.get(name)
        table = read_whole(records.run, name, COUNTERFACTUALS, facts, findings)
        trees, schema = records.trees(unit.forest), records.schema(unit.schema)
        if table is None:
            self.complete = False
            return 0
        valid = self.check_measured(unit, table)
        self.check_facts(name, facts, table)
        if trees is None or schema is None:
            self.complete = False
            return int(nearest_rows(table).sum())
        asked = ShardQuestion(
            schema,
            trees,
            records.demands,
            records.voting,
            records.target(trees),
            {"dataset": unit.dataset, "simulation": unit.simulation, "n_trees": len(trees)},
            float(records.take("config", "solver", "time_limit", float)),
            self.plausibility.of(unit, trees, schema, self.training(unit, source, trees, schema)),
            self.certificates.of(unit),
        )
        keys = [(unit.dataset, *d.key, d.voting, len(trees)) for d in records.demands]
        methods, start = [np.zeros(0, dtype=np.int64)], 0
        for part, block in blocks(name, table, trees.n_features, findings):
            checked = check_block(block, asked, findings)
            methods.append(checked.method)
            rows = slice(start, start + len(part))
            here = {scenario: (good[rows], pairs[rows]) for scenario, (good, pairs) in valid.items()}
            cohorts = cohorts_of(part, records.cohorts)
            near = nearest_rows(part)
            self.tally.add(
                block.frame[near],
                checked.method[near],
                keys,
                with_intersections({column: values[near] for column, values in cohorts.items()}),
                {scenario: (good[near], pairs[near]) for scenario, (good, pairs) in here.items()},
            )
            source.add(unit.dataset, unit.simulation, block.frame, cohorts, checked)
            if self.challenge is not None:
                self.challenge.add(unit, asked, block, checked)
            start += len(part)
        ids = self.check_complete(name, table, np.concatenate(methods))
        if records.kind == "audit":
            self.check_keys(unit, ids, source)
        return int(nearest_rows(table).sum())

    def check_measured(self, unit: Unit, table: pa.Table) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Check the shard's validation.

        Return valid and all forests per scenario and row.
        """
        if not self.records.measured:
            return {}
        name = f"validation/{unit.shard}"
        facts = self.records.shards.get(name)
        validation = read_whole(self.records.run, name, VALIDATION, facts, self.findings)
        if validation is None:
            self.complete = False
            return {}
        if isinstance(facts, dict):
            self.findings.expect("counts", f"manifest.json: {name}: rows", facts.get("rows"), len(validation))
        return check_validation(name, validation, table, unit.seeds, self.findings)

    def check_facts(self, name: str, facts: Any, table: pa.Table) -> None:
        """Check the manifest's entries about a shard."""
        if not isinstance(facts, dict):
            return
        nearest = table["status"].filter(pa.array(nearest_rows(table)))
        counts = {v["values"]: v["counts"] for v in nearest.value_counts().to_pylist()}
        expect, where = self.findings.expect, f"manifest.json: {name}"
        expect("counts", f"{where}: rows", facts.get("rows"), len(table))
        expect("counts", f"{where}: customers", facts.get("customers"), len(table["instance_id"].unique()))
        expect("counts", f"{where}: counts", facts.get("counts"), counts)

    def check_complete(self, name: str, table: pa.Table, method: np.ndarray) -> np.ndarray:
        """Check that each customer has one nearest answer per method; return the shard's ids."""
        codes, ids = pd.factorize(table["instance_id"].to_pandas().to_numpy(dtype=object))
        near, records = nearest_rows(table), self.records
        known = (method >= 0) & (codes >= 0) & near
        count = np.zeros((len(ids), len(self.records.demands)), dtype=np.int64)
        np.add.at(count, (codes[known], method[known]), 1)
        self.findings.where(
            "counts",
            (count != 1).any(axis=1),
            lambda i: f"{name}: {short(ids[i])}: not exactly one row for each method",
        )
        if len(method) == len(table):
            check_alternatives(name, table, method, records.most_answers, records.levers, self.findings)
        self.done.rows += int(near.sum())
        self.done.customers += len(ids)
        return np.asarray(ids, dtype=object)

    def check_keys(self, unit: Unit, ids: np.ndarray, source: Source) -> None:
        """Check that the shard's key file has the same customers."""
        self.ids.append(pd.util.hash_array(ids))
        name = f"keys/{unit.shard}"
        keys = read_whole(self.records.run, name, ROW_KEYS, None, self.findings)
        if keys is None:
            return
        if keys["instance_id"].null_count or sorted(keys["instance_id"].to_pylist()) != sorted(ids):
            self.findings.add("counts", f"{name}: the customers are not those of the shard")
            return
        source.add_keys(keys)

    def check_counts(self) -> None:
        """Check the manifest's counts over the whole run."""
        records, expect = self.records, self.findings.expect
        counts = dict(sorted(self.tally.counts().items()))
        expect("counts", "manifest.json: counts", records.manifest.get("counts"), counts)
        expect("counts", "rows of all shards", self.done.rows, records.rows)
        if records.kind != "audit" or not self.ids:
            return
        ids = np.concatenate(self.ids)
        again = len(ids) - len(np.unique(ids))
        if again:
            self.findings.add("counts", f"{again} customers are in more than one shard")
        invalid, favoured = (
            counts.get(status, 0) // len(records.demands)
            for status in ("invalid_input", "already_favourable")
        )
        expect("counts", "manifest.json: plan.invalid", records.take("plan", "invalid", int), invalid)
        denied = len(ids) - invalid - favoured
        expect("counts", "manifest.json: plan.denied", records.take("plan", "denied", int), denied)
