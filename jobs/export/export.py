"""`robustcf export`: write one line per customer, for spreadsheets, letters and other tools."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from robustcf.methods.registry import certifies
from robustcf.schema.schema import Schema
from robustcf.show import no_way
from robustcf.verify import Demand, Findings
from robustcf.verify.moves import priced
from robustcf.verify.sheet import method_of

from ..inputs.errors import BadInput
from ..inputs.secrets import without_secrets
from ..inputs.uri import is_local, open_filesystem, parent_of
from ..run.advice import advice_rows
from ..run.columns import COUNTERFACTUALS, TESTED
from ..run.folder import RunFolder, require_run
from ..run.reader import read_shard
from ..run.spreadsheet import harmless
from ..terminal.progress import stage
from ..verify.alternatives import nearest_rows
from ..verify.records import Records, Unit, Unreadable
from ..verify.tables import block_of, cohorts_of
from .reasons import Reasons, read_reasons

ENDINGS = (".csv", ".parquet")
CERTIFICATE_COLUMNS = ("certified", "certificate_agree", "certificate_forests", "certificate_low")


@dataclass(frozen=True)
class ExportOptions:
    """What to export, and where to."""

    output: str
    methods: tuple[str, ...] = ()
    alphas: tuple[float, ...] = ()
    reasons: str | None = None
    most_reasons: int = 4


def export_run(address: str, options: ExportOptions) -> int:
    """Write the table and return its number of customers."""
    if not parent_of(options.output)[1].lower().endswith(ENDINGS):
        raise BadInput(f"{without_secrets(options.output)}: the file name must end in .csv or .parquet")
    run, manifest = require_run(address)
    findings = Findings()
    try:
        records = Records(run, manifest, findings)
        return _Export(run, records, options).go()
    except Unreadable as error:
        raise BadInput(f"{run.showing('manifest.json')}: {error}") from None


class _Export:
    def __init__(self, run: RunFolder, records: Records, options: ExportOptions) -> None:
        self.run, self.records, self.options = run, records, options
        self.chosen = _chosen(records.demands, options)
        self.most = dict(zip(records.demands, records.most_answers, strict=True))
        self.scenarios = list(records.units[0].seeds) if records.units else []
        schemas = {unit.schema: unit for unit in records.units}
        names = {f.name for unit in schemas.values() for f in self._schema(unit).features}
        self.reasons = Reasons() if options.reasons is None else read_reasons(options.reasons, sorted(names))
        self.schema = self._columns()

    def _schema(self, unit: Unit) -> Schema:
        schema = self.records.schema(unit.schema)
        if schema is None:
            raise BadInput(f"{self.run.showing(unit.schema)}: cannot be read as a schema")
        return schema

    def _columns(self) -> pa.Schema:
        number, text = pa.float64(), pa.string()
        first: list[tuple[str, Any]] = [("id", text)]
        if self.records.kind == "sweep":
            first = [("dataset", text), ("simulation", pa.int32()), ("n_trees", pa.int32()), ("id", text)]
        first += [(f"cohort_{name}", text) for name in self.records.cohorts]
        first += [("decision", text), ("score_before", number)]
        for demand in self.chosen:
            own: list[tuple[str, Any]] = [("status", text), ("note", text), ("distance", number)]
            own += [("score_after", number), ("validity_predicted", number)]
            own += [(f"validity_{_slug(s)}", number) for s in self.scenarios]
            own += [("changes", text), ("reason_codes", text), ("reason_texts", text)]
            first += [(f"{slug(demand)}_{name}", kind) for name, kind in own]
        for demand in self.chosen:
            own = [("distance", number), ("score_after", number), ("validity_predicted", number)]
            own += [(f"validity_{_slug(s)}", number) for s in self.scenarios] + [("changes", text)]
            for a in range(1, self.most[demand]):
                first += [(f"{slug(demand)}_alternative{a}_{name}", kind) for name, kind in own]
        for demand in filter(_certifies, self.chosen):  # last, so that the other columns keep their places
            first += [
                (f"{slug(demand)}_{name}", COUNTERFACTUALS.field(name).type) for name in CERTIFICATE_COLUMNS
            ]
        return pa.schema(first)

    def go(self) -> int:
        written = 0
        with (
            _writer(self.options.output, self.schema) as write,
            stage("exporting", self.records.rows) as progress,
        ):
            for unit in self.records.units:
                name = f"counterfactuals/{unit.shard}"
                try:
                    table = read_shard(self.run, "counterfactuals", unit.shard, alternatives=True)
                except (OSError, pa.ArrowException) as error:
                    raise BadInput(f"{self.run.showing(name)}: cannot be read: {error}") from None
                if not table.schema.equals(COUNTERFACTUALS):
                    raise BadInput(f"{self.run.showing(name)}: not a table of counterfactuals")
                if len(table):
                    wide = self._wide(unit, table.combine_chunks())
                    write(wide)
                    written += len(wide)
                progress.advance(int(nearest_rows(table).sum()))
        return written

    def _wide(self, unit: Unit, table: pa.Table) -> pa.Table:
        """Return one line for each customer of a shard."""
        block = block_of(unit.shard, table, len(self._schema(unit).columns), Findings())
        frame = block.frame
        codes, ids = pd.factorize(frame["instance_id"].to_numpy(dtype=object))
        method = method_of(frame, self.records.demands)
        alternative = frame["alternative"].fillna(0).to_numpy(dtype=np.int64)
        head = np.full(len(ids), -1)
        place = {}
        for demand in self.chosen:
            own = method == self.records.demands.index(demand)
            for a in range(self.most[demand]):
                mine = np.flatnonzero(own & (alternative == a))
                place[demand, a] = np.full(len(ids), -1)
                place[demand, a][codes[mine]] = mine
            head = np.where(head < 0, place[demand, 0], head)
        columns: dict[str, Any] = {"id": pa.array(ids, pa.string())}
        for name in ("dataset", "simulation", "n_trees"):
            columns[name] = _taken(table[name], head)
        for name, values in cohorts_of(table, self.records.cohorts).items():
            columns[f"cohort_{name}"] = _taken(pa.array(values, pa.string()), head)
        columns["decision"] = _taken(_decisions(table), head)
        columns["score_before"] = _taken(table["score_before"], head)
        works, has_certificate = advice_rows(table), table[TESTED].is_valid().to_numpy()
        advice = {
            "distance": table["distance"],
            "score_after": table["score_after"],
            "validity_predicted": table["predicted_validity"],
            **self._words(unit, block),
            **self._measured(unit, table),
        }
        for (demand, a), rows in place.items():
            working = np.where((rows >= 0) & works[rows], rows, -1)  # nothing else is shown as advice
            if a:
                for name, values in advice.items():
                    columns[f"{slug(demand)}_alternative{a}_{name}"] = _taken(values, working)
                continue
            columns[f"{slug(demand)}_status"] = _taken(table["status"], rows)
            columns[f"{slug(demand)}_note"] = _taken(_notes(table), rows)
            for name, values in advice.items():
                columns[f"{slug(demand)}_{name}"] = _taken(values, working)
            tested = np.where((rows >= 0) & has_certificate[rows], rows, -1)
            for name in CERTIFICATE_COLUMNS if _certifies(demand) else ():
                columns[f"{slug(demand)}_{name}"] = _taken(table[name], tested)
        return pa.table({f.name: columns[f.name] for f in self.schema}, schema=self.schema)

    def _words(self, unit: Unit, block: Any) -> dict[str, pa.Array]:
        """Return the changes and reasons of every row as text."""
        changes, n = block.changes, len(block.at)
        told: list[list[str]] = [[] for _ in range(n)]
        for row, *move in zip(
            changes.row.tolist(), changes.feature, changes.before, changes.after, strict=True
        ):
            told[row].append("{}: {} -> {}".format(*move))
        cost, up = priced(self._schema(unit), changes)
        ranked = self.reasons.ranked(changes, cost, up, n, self.options.most_reasons)
        words = {
            "changes": ["; ".join(own) for own in told],
            "reason_codes": ["; ".join(code for code, _ in own) for own in ranked],
            "reason_texts": ["; ".join(text for _, text in own) for own in ranked],
        }
        rows = np.full(len(block.frame), -1)
        rows[block.at] = np.arange(n)
        return {name: _taken(pa.array(values, pa.string()), rows) for name, values in words.items()}

    def _measured(self, unit: Unit, table: pa.Table) -> dict[str, pa.Array]:
        """Return, per scenario, the share of retrained forests that accept each row's point."""
        found: dict[str, pa.Array] = {}
        name = f"validation/{unit.shard}"
        if not self.scenarios:
            return found
        point = np.flatnonzero(table["point"].is_valid().to_numpy())
        try:
            columns = ["instance_id", "scenario", "valid"]
            validation = read_shard(self.run, "validation", unit.shard, columns, alternatives=True)
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"{self.run.showing(name)}: cannot be read: {error}") from None
        for scenario in self.scenarios:
            own = validation.filter(pc.equal(validation["scenario"], scenario)).combine_chunks()
            if not own["instance_id"].equals(table["instance_id"].take(pa.array(point))):
                raise BadInput(
                    f"{self.run.showing(name)}: its rows do not match counterfactuals/{unit.shard}"
                )
            lists = own["valid"].combine_chunks()
            row = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
            good = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
            share = np.full(len(table), np.nan)
            share[point] = np.bincount(row, weights=good, minlength=len(own)) / np.maximum(
                np.bincount(row, minlength=len(own)), 1
            )
            found[f"validity_{_slug(scenario)}"] = pa.array(share, from_pandas=True)
        return found


def _chosen(demands: Sequence[Demand], options: ExportOptions) -> list[Demand]:
    named, alphas = options.methods, options.alphas
    chosen = [
        d
        for d in demands
        if (not named or d.name in named)
        and (not alphas or d.alpha in alphas or (d.alpha is None and d.name in named))
    ]
    if not chosen:
        raise BadInput(f"the run has no such method; its methods are {', '.join(map(str, demands))}")
    return chosen


def slug(demand: Demand) -> str:
    """Return the column prefix of a method.

    >>> slug(Demand("direct-saa", 0.05, None, None, "soft"))
    'direct_saa_alpha0_05'
    """
    parts = zip(("alpha", "beta", "parameter"), demand.key[1:], strict=True)
    return _slug("_".join([demand.name, *(f"{k}{v:g}" for k, v in parts if v is not None)]))


def _certifies(demand: Demand) -> bool:
    return certifies(demand.name)


def _slug(text: str) -> str:
    return text.replace("-", "_").replace(".", "_")


def _decisions(table: pa.Table) -> pa.Array:
    words = {"already_favourable": "favourable", "invalid_input": "not readable"}
    return pa.array([words.get(s, "denied") for s in table["status"].to_pylist()], pa.string())


def _notes(table: pa.Table) -> pa.Array:
    """Return each row's reason; a row without recourse says how close the closest change comes."""
    notes = []
    columns = (table[name].to_pylist() for name in ("status", "reason", "threshold", "best_score"))
    for status, reason, threshold, best in zip(*columns, strict=True):
        if status == "no_recourse" and threshold is not None:
            reason = "; ".join(part for part in (no_way(threshold, best), reason) if part)
        notes.append(reason)
    return pa.array(notes, pa.string())


def _taken(values: Any, rows: np.ndarray) -> Any:
    """Take the values at the rows; a row of -1 gives null."""
    return values.take(pa.array(rows, mask=rows < 0))


@contextmanager
def _writer(output: str, schema: pa.Schema) -> Iterator[Any]:
    """Write tables one after another; on a disk, the file appears only when it is complete."""
    filesystem, path = open_filesystem(output)
    local = is_local(output)
    target = path
    if local:
        target = str(Path(path).with_name(f".{Path(path).name}.{uuid.uuid4().hex}.part"))
    try:
        if local:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with filesystem.open_output_stream(target) as sink:
            if path.lower().endswith(".csv"):
                with pyarrow.csv.CSVWriter(sink, harmless(schema.empty_table()).schema) as file:
                    yield lambda table: file.write_table(harmless(table))
            else:
                with pq.ParquetWriter(sink, schema, compression="zstd") as file:
                    yield file.write_table
        if local:
            os.replace(target, path)
    except OSError as error:
        raise BadInput(f"{without_secrets(output)}: cannot be written: {error.strerror or error}") from None
    finally:
        if local:
            with suppress(OSError):
                Path(target).unlink()
