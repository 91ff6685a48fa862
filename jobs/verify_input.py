"""The rows that a run was made from, read again where they still are, against the rows of the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from jobs.badinput import BadInput
from jobs.tables import Chunk, Plan, plan_table, read_chunk
from jobs.uri import is_uri
from jobs.verify_tables import derived_seed
from robustcf.datasets import DatasetError, load, read_typed_csv
from robustcf.encode import read_rows
from robustcf.schema import Schema
from robustcf.verify import Findings, Trees
from robustcf.verify.findings import MOST_SHOWN, short
from robustcf.verify.reading import encode_rows
from robustcf.verify.rows import Checked
from robustcf.verify.trees import TIE

FAVOURED, DENIED, INVALID = 0, 1, 2
_KINDS = ("already_favourable", "turned down", "invalid_input")


class Source(Protocol):
    """Takes note of a run's rows, shard by shard; compares at the end; says what it could not compare."""

    def add(self, dataset: str, simulation: int, frame: pd.DataFrame, checked: Checked) -> None: ...

    def add_keys(self, keys: pa.Table) -> None: ...

    def finish(self) -> list[str]: ...


class Nothing:
    """No input to compare with, and why."""

    def __init__(self, why: str) -> None:
        self.why = why

    def add(self, dataset: str, simulation: int, frame: pd.DataFrame, checked: Checked) -> None:
        pass

    def add_keys(self, keys: pa.Table) -> None:
        pass

    def finish(self) -> list[str]:
        return [self.why]


class CustomerTable:
    """An audit's customers. Of each only hashes, a score and a decision are kept: 33 bytes."""

    def __init__(
        self,
        manifest: Mapping[str, Any],
        schema: Schema,
        trees: Trees,
        target: str | None,
        voting: str,
        remote: bool,
        findings: Findings,
    ) -> None:
        self.manifest, self.customers = manifest, manifest["config"]["customers"]
        self.schema, self.trees, self.voting = schema, trees, voting
        self.target = trees.position(str(target))
        self.remote, self.findings = remote, findings
        self.parts: list[pd.DataFrame] = []
        self.keys: list[pd.DataFrame] = []

    def add(self, dataset: str, simulation: int, frame: pd.DataFrame, checked: Checked) -> None:
        status = frame["status"].to_numpy(dtype=object)
        kind = np.where(
            status == "already_favourable", FAVOURED, np.where(status == "invalid_input", INVALID, DENIED)
        ).astype(np.int8)
        origin = np.zeros(len(frame), dtype=np.uint64)
        origin[checked.instance] = hash_rows(checked.origin)
        own = frame["voting"].to_numpy(dtype=object) == self.voting
        score = frame["score_before"].to_numpy(dtype=np.float64, na_value=np.nan)
        rows = pd.DataFrame(
            {
                "id": hash_ids(frame["instance_id"].to_numpy(dtype=object)),
                "kind": kind,
                "least": kind,
                "origin": origin,
                "score": np.where(own, score, np.nan),
            }
        )
        how: dict[str, Any] = {"kind": "max", "least": "min", "origin": "max", "score": "first"}
        self.parts.append(rows.groupby("id", sort=False).agg(how).reset_index())

    def add_keys(self, keys: pa.Table) -> None:
        ids = keys["instance_id"].to_pandas().to_numpy(dtype=object)
        digests = b"".join(keys["row"].to_pylist())
        row = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)[:, 0]
        self.keys.append(pd.DataFrame({"id": hash_ids(ids), "row": row}))

    def finish(self) -> list[str]:
        address, name = self.customers["data"], self.customers.get("id")
        columns = [*([] if name is None else [name]), *self.schema.names]
        if is_uri(address) and not self.remote:
            return ["the customers' own rows: they are remote, ask for them with --customers"]
        try:
            plan = plan_table(address, columns)
            if [size for _, size, _ in plan.files] != [f[1] for f in self.manifest.get("inputs", [])]:
                return ["the customers' own rows: the table is not as large as it was"]
            self._compare(plan, columns)
        except BadInput as error:
            return [f"the customers' own rows: {error.format_message()}"]
        return []

    def _compare(self, plan: Plan, columns: list[str]) -> None:
        found, checksum = self._read(plan, columns)
        stored = f"{checksum:016x}"
        self.findings.expect("data", "manifest.json: data_hash", self.manifest.get("data_hash"), stored)
        run = (
            pd.concat(self.parts)
            .groupby("id")
            .agg({"kind": "max", "least": "min", "origin": "max", "score": "first"})
        )
        keys = pd.concat(self.keys).set_index("id")["row"] if self.keys else pd.Series(dtype=np.uint64)
        missing, extra = found.index.difference(run.index), run.index.difference(found.index)
        self._note(plan, "a customer of the table is not in the run", missing)
        if len(extra):
            self.findings.counts["customers"] += len(extra)
            self.findings.shown("customers").append(f"{len(extra)} customers of the run are not in the table")
        both = found.index.intersection(run.index)
        found, run = found.loc[both], run.loc[both]
        row = keys.reindex(both)
        self._note(plan, "keys/ holds the digest of another row", both[(row != found["row"]).to_numpy()])
        unlike = (run["kind"] != run["least"]).to_numpy()
        self._note(plan, "its methods disagree on whether it was turned down", both[unlike])
        tied = (found["lead"].abs() < TIE).to_numpy()
        for kind, words in enumerate(_KINDS):
            wrong = (found["kind"] == kind) & (run["kind"] != kind)
            near = tied & (run["kind"] != INVALID).to_numpy()
            self._note(plan, f"should be {words}, by the customer's own row", both[wrong.to_numpy() & ~near])
        moved = (run["origin"] != 0) & (run["origin"] != found["origin"]) & (found["kind"] != INVALID)
        self._note(plan, "starts from another row than the customer's own", both[moved.to_numpy()])
        rounding = 1e-12 * (len(self.trees) + 1)
        off = (run["score"] - found["score"]).abs() > rounding
        self._note(plan, "score_before is not that of the customer's own row", both[off.to_numpy()])

    def _read(self, plan: Plan, columns: list[str]) -> tuple[pd.DataFrame, int]:
        """What every customer of the table should be, and the checksum over all of them."""
        parts, checksum = [], 0
        for chunk in plan.chunks:
            before = 0
            for table in read_chunk(chunk, columns):
                ids = hash_ids(self._ids(table, chunk, before).to_numpy(dtype=object))
                part, row_hash = self._facts(table, ids)
                with np.errstate(over="ignore"):
                    checksum = (checksum + int(mixed(row_hash ^ mixed(ids)).sum())) % 2**64
                parts.append(part)
                before += len(table)
        return pd.concat(parts).set_index("id"), checksum

    def _facts(self, table: pa.Table, ids: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
        frame = table.select(list(self.schema.names)).to_pandas()
        read = read_rows(self.schema, frame, missing=self.trees.accepts_missing)
        usable = np.array([reason is None for reason in read.reasons], dtype=bool)
        encoded = encode_rows(self.schema.features, read.numbers[usable])
        verdict = self.trees.ask(encoded, np.full(len(encoded), self.target), self.voting)
        favoured = ~verdict.denied(self.voting)
        facts = pd.DataFrame(
            {"id": ids, "row": [digest(row) for row in clean(read.numbers)], "kind": INVALID}
        )
        facts["row"] = facts["row"].astype(np.uint64)
        for name, values in (
            ("kind", np.where(favoured, FAVOURED, DENIED)),
            ("score", verdict.score),
            ("lead", verdict.lead),
        ):
            facts.loc[usable, name] = values
        origin = np.zeros(len(ids), dtype=np.uint64)
        origin[usable] = hash_rows(encoded)
        return facts.assign(origin=origin), np.where(usable, hash_rows(read.numbers), ids)

    def _ids(self, table: pa.Table, chunk: Chunk, before: int) -> pd.Series:
        name = self.customers.get("id")
        if name is not None:
            text: pd.Series = pc.cast(table[name].combine_chunks(), pa.string()).to_pandas()
            return text
        prefix, first = f"{chunk.name}:" if chunk.name else "", chunk.first_row + before
        return pd.Series([f"{prefix}{first + i}" for i in range(len(table))], dtype=object)

    def _note(self, plan: Plan, what: str, hashes: Any) -> None:
        """Name the customers with these hashes: a second look, at the ids alone."""
        if not len(hashes):
            return
        name = self.customers.get("id")
        wanted, names = np.asarray(hashes, dtype=np.uint64)[:MOST_SHOWN], []
        columns = [name] if name is not None else [self.schema.names[0]]
        for chunk in plan.chunks:
            before = 0
            for table in read_chunk(chunk, columns):
                ids = self._ids(table, chunk, before).to_numpy(dtype=object)
                names += [ids[i] for i in np.flatnonzero(np.isin(hash_ids(ids), wanted))]
                before += len(table)
        for customer in names:
            self.findings.add("customers", f"{short(customer)}: {what}")
        self.findings.counts["customers"] += max(len(hashes) - len(names), 0)


class DataSets:
    """A sweep's data sets: which rows each simulation explains, and what they hold."""

    def __init__(
        self, config: Mapping[str, Any], hashes: Mapping[str, str], seed: int, findings: Findings
    ) -> None:
        self.seed, self.rows, self.findings = seed, config["sweep"]["rows"], findings
        self.notes: list[str] = []
        self.data: dict[str, tuple[Schema, np.ndarray]] = {}
        for name in config["sweep"]["datasets"]:
            try:
                data = read_typed_csv(name) if _is_file(name) else load(name)
            except (DatasetError, OSError) as error:
                self.notes.append(f"the rows of data set {short(name)}: {short(str(error))}")
                continue
            read = read_rows(data.schema, data.X).numbers
            encoded = encode_rows(data.schema.features, read)
            content = hashlib.sha256(encoded.tobytes() + data.y.tobytes()).hexdigest()
            both = hashlib.sha256(json.dumps([data.schema.fingerprint, content], sort_keys=True).encode())
            if hashes.get(data.name) == both.hexdigest():
                self.data[data.name] = data.schema, encoded
            else:
                self.notes.append(f"the rows of data set {short(data.name)}: it is another one here")

    def add(self, dataset: str, simulation: int, frame: pd.DataFrame, checked: Checked) -> None:
        if dataset not in self.data:
            return
        encoded = self.data[dataset][1]
        rng = np.random.default_rng(derived_seed(self.seed, "rows", dataset, simulation))
        chosen = np.sort(rng.choice(len(encoded), self.rows, replace=False))
        ids = sorted(frame["instance_id"].astype(str).unique(), key=lambda i: (len(i), i))
        where = f"{dataset}, simulation {simulation}"
        if not self.findings.expect("data", f"{where}: rows explained", ids, [str(i) for i in chosen]):
            return
        own = frame["instance_id"].iloc[checked.instance].astype(str).astype(np.int64).to_numpy()
        rows = encoded[own]
        moved = ~((rows == checked.origin) | (np.isnan(rows) & np.isnan(checked.origin))).all(axis=1)
        self.findings.where(
            "data", moved, lambda k: f"{where}: row {own[k]}: starts from another row than the data set's"
        )

    def add_keys(self, keys: pa.Table) -> None:
        pass

    def finish(self) -> list[str]:
        return self.notes


def _is_file(name: str) -> bool:
    return name.lower().endswith(".csv") or Path(name).is_file()


def hash_ids(ids: np.ndarray) -> np.ndarray:
    return pd.util.hash_array(np.asarray(ids, dtype=object))


def clean(rows: np.ndarray) -> np.ndarray:
    """One NaN, no -0.0: equal rows have equal bytes."""
    return np.ascontiguousarray(np.where(np.isnan(rows), np.nan, rows + 0.0))


def digest(row: np.ndarray) -> int:
    """The first half of the digest in `keys/`."""
    return int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=16).digest()[:8], "little")


def hash_rows(rows: np.ndarray) -> np.ndarray:
    """64 bits of each row: splitmix64 over its columns."""
    state = np.full(len(rows), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in clean(rows).view(np.uint64).T:
        state = mixed(state ^ column)
    return state


def mixed(values: np.ndarray) -> np.ndarray:
    """splitmix64's finisher."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))
