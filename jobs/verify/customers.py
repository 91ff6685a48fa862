"""Read an audit's customers again and compare them with the run's rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from robustcf.schema.encode import read_rows
from robustcf.schema.schema import Schema
from robustcf.support.tolerances import TIE_MARGIN
from robustcf.verify import Findings, Trees
from robustcf.verify.findings import MOST_SHOWN, short
from robustcf.verify.reading import encode_rows
from robustcf.verify.rows import Checked

from ..inputs.errors import BadInput
from ..inputs.secrets import is_uri
from ..inputs.tables import Chunk, Plan, plan_table, read_chunk
from .hashing import clean, digest, hash_ids, hash_rows, hash_texts, mixed

FAVOURED, DENIED, INVALID = 0, 1, 2
_KINDS = ("already_favourable", "turned down", "invalid_input")
_AGREE: dict[str, Any] = {
    "kind": "max",
    "least": "min",
    "origin": "max",
    "score": "first",
    "cohort": "max",
    "cohort_least": "min",
}


@dataclass(frozen=True)
class CustomerSource:
    """A customer table.

    The auditor's own table is `trusted`: it is compared even if its size changed.
    """

    address: str
    id: str | None
    cohort: tuple[str, ...]
    trusted: bool = False


class CustomerTable:
    """Compares the customer table with the run.

    Keeps hashes, score and decision (50 bytes each).
    """

    def __init__(
        self,
        where: CustomerSource,
        manifest: Mapping[str, Any],
        schema: Schema,
        trees: Trees,
        target: str | None,
        voting: str,
        findings: Findings,
    ) -> None:
        self.where, self.manifest = where, manifest
        self.schema, self.trees, self.voting = schema, trees, voting
        self.target = trees.position(str(target))
        self.findings = findings
        self.parts: list[pd.DataFrame] = []
        self.keys: list[pd.DataFrame] = []
        self.unread: str | None = None

    def add(
        self,
        dataset: str,
        simulation: int,
        frame: pd.DataFrame,
        cohorts: Mapping[str, np.ndarray],
        checked: Checked,
    ) -> None:
        status = frame["status"].to_numpy(dtype=object)
        kind = np.where(
            status == "already_favourable", FAVOURED, np.where(status == "invalid_input", INVALID, DENIED)
        ).astype(np.int8)
        origin = np.zeros(len(frame), dtype=np.uint64)
        origin[checked.instance] = hash_rows(checked.origin)
        own = frame["voting"].to_numpy(dtype=object) == self.voting
        score = frame["score_before"].to_numpy(dtype=np.float64, na_value=np.nan)
        cohort = hash_texts([cohorts[name] for name in self.where.cohort if name in cohorts], len(frame))
        rows = pd.DataFrame(
            {
                "id": hash_ids(frame["instance_id"].to_numpy(dtype=object)),
                "kind": kind,
                "least": kind,
                "origin": origin,
                "score": np.where(own, score, np.nan),
                "cohort": cohort,
                "cohort_least": cohort,
            }
        )
        self.parts.append(rows.groupby("id", sort=False).agg(_AGREE).reset_index())

    def add_keys(self, keys: pa.Table) -> None:
        ids = keys["instance_id"].to_pandas().to_numpy(dtype=object)
        digests = b"".join(keys["row"].to_pylist())
        row = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)[:, 0]
        self.keys.append(pd.DataFrame({"id": hash_ids(ids), "row": row}))

    @property
    def columns(self) -> list[str]:
        first = [] if self.where.id is None else [self.where.id]
        return list(dict.fromkeys([*first, *self.where.cohort, *self.schema.names]))

    def finish(self) -> list[str]:
        try:
            plan = self._plan()
            if plan is not None:
                self._compare(plan)
        except BadInput as error:
            if self.where.trusted:
                raise
            self.unread = f"the customers' own rows: {error.format_message()}"
        return [] if self.unread is None else [self.unread]

    def _plan(self) -> Plan | None:
        """Return the table's plan.

        The result is None if the manifest's table is remote or changed its size.
        """
        if is_uri(self.where.address) and not self.where.trusted:
            self.unread = "the customers' own rows: the table is remote; give it with --customers"
            return None
        plan = plan_table(self.where.address, self.columns)
        sizes = [size for _, size, _ in plan.files]
        if not self.where.trusted and sizes != [f[1] for f in self.manifest.get("inputs", [])]:
            self.unread = "the customers' own rows: the table's size has changed since the run"
            return None
        return plan

    def rows_of(self, dataset: str, ids: Sequence[str]) -> np.ndarray:
        """Return the customers' own rows as numbers; NaN where a row is not available."""
        numbers = np.full((len(ids), len(self.schema)), np.nan)
        try:
            plan = self._plan()
        except BadInput:
            return numbers
        if plan is None:
            return numbers
        positions: dict[str, list[int]] = {}
        for k, customer in enumerate(ids):
            positions.setdefault(customer, []).append(k)
        for names, table in self._pieces(plan, self.columns):
            hits = [i for i, name in enumerate(names) if name in positions]
            if hits:
                frame = table.select(list(self.schema.names)).take(hits).to_pandas()
                read = read_rows(self.schema, frame, missing=self.trees.accepts_missing)
                for i, reason in enumerate(read.reasons):
                    if reason is None:
                        numbers[positions[str(names[hits[i]])]] = read.numbers[i]
        return numbers

    def _compare(self, plan: Plan) -> None:
        found, checksum = self._read(plan)
        stored = f"{checksum:016x}"
        self.findings.expect("data", "manifest.json: data_hash", self.manifest.get("data_hash"), stored)
        run = pd.concat(self.parts).groupby("id").agg(_AGREE)
        keys = pd.concat(self.keys).set_index("id")["row"] if self.keys else pd.Series(dtype=np.uint64)
        again = found.index[found.index.duplicated()].unique()
        self._note(plan, "the id occurs more than once in the customer table", again)
        found = found[~found.index.duplicated()]
        missing, extra = found.index.difference(run.index), run.index.difference(found.index)
        self._note(plan, "the customer is in the table but not in the run", missing)
        if len(extra):
            self.findings.counts["customers"] += len(extra)
            self.findings.shown("customers").append(f"{len(extra)} customers of the run are not in the table")
        both = found.index.intersection(run.index)
        found, run = found.loc[both], run.loc[both]
        row = keys[~keys.index.duplicated()].reindex(both)
        self._note(plan, "keys/ has the digest of a different row", both[(row != found["row"]).to_numpy()])
        unlike = (run["kind"] != run["least"]).to_numpy()
        self._note(plan, "the methods disagree on whether the customer was turned down", both[unlike])
        tied = (found["lead"].abs() < max(TIE_MARGIN, self.trees.rounding)).to_numpy()
        for kind, words in enumerate(_KINDS):
            wrong = (found["kind"] == kind) & (run["kind"] != kind)
            near = tied & (run["kind"] != INVALID).to_numpy()
            misfits = both[wrong.to_numpy() & ~near]
            self._note(plan, f"should be {words} according to the customer's row", misfits)
        moved = (run["origin"] != 0) & (run["origin"] != found["origin"]) & (found["kind"] != INVALID)
        self._note(plan, "the changes do not start from the customer's row", both[moved.to_numpy()])
        rounding = self.trees.rounding
        off = (run["score"] - found["score"]).abs() > rounding
        self._note(plan, "score_before is not the score of the customer's row", both[off.to_numpy()])
        other = (run["cohort"] != found["cohort"]) | (run["cohort_least"] != found["cohort"])
        self._note(plan, "cohort is not the cohort of the customer's row", both[other.to_numpy()])

    def _read(self, plan: Plan) -> tuple[pd.DataFrame, int]:
        """Return the expected values of all customers, and the table's checksum."""
        parts, checksum = [], 0
        for names, table in self._pieces(plan, self.columns):
            ids = hash_ids(names)
            part, row_hash = self._expected(table, ids)
            with np.errstate(over="ignore"):
                checksum = (checksum + int(mixed(row_hash ^ mixed(ids)).sum())) % 2**64
            parts.append(part)
        return pd.concat(parts).set_index("id"), checksum

    def _expected(self, table: pa.Table, ids: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
        frame = table.select(list(self.schema.names)).to_pandas()
        read = read_rows(self.schema, frame, missing=self.trees.accepts_missing)
        usable = np.array([reason is None for reason in read.reasons], dtype=bool)
        encoded = encode_rows(self.schema.features, read.numbers[usable])
        verdict = self.trees.judge(encoded, np.full(len(encoded), self.target), self.voting)
        favoured = ~verdict.denied(self.voting)
        expected = pd.DataFrame(
            {"id": ids, "row": [digest(row) for row in clean(read.numbers)], "kind": INVALID}
        )
        expected["row"] = expected["row"].astype(np.uint64)
        for name, values in (
            ("kind", np.where(favoured, FAVOURED, DENIED)),
            ("score", verdict.score),
            ("lead", verdict.lead),
        ):
            expected.loc[usable, name] = values
        origin = np.zeros(len(ids), dtype=np.uint64)
        origin[usable] = hash_rows(encoded)
        cohort = hash_texts([_texts(table[name]) for name in self.where.cohort], len(ids))
        return expected.assign(origin=origin, cohort=cohort), np.where(usable, hash_rows(read.numbers), ids)

    def _pieces(self, plan: Plan, columns: Sequence[str]) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """Yield the table in pieces, each with its customers' ids."""
        for chunk in plan.chunks:
            before = 0
            for table in read_chunk(chunk, columns):
                yield self._ids(table, chunk, before), table
                before += len(table)

    def _ids(self, table: pa.Table, chunk: Chunk, before: int) -> np.ndarray:
        if self.where.id is not None:
            return _texts(table[self.where.id])
        prefix, first = f"{chunk.name}:" if chunk.name else "", chunk.first_row + before
        return np.array([f"{prefix}{first + i}" for i in range(len(table))], dtype=object)

    def _note(self, plan: Plan, what: str, hashes: Any) -> None:
        """Add a finding for each customer with one of these hashes.

        Read the ids again for names.
        """
        if not len(hashes):
            return
        wanted = np.asarray(hashes, dtype=np.uint64)[:MOST_SHOWN]
        columns = [self.schema.names[0] if self.where.id is None else self.where.id]
        names: dict[str, None] = {}
        for ids, _ in self._pieces(plan, columns):
            names.update(dict.fromkeys(ids[np.isin(hash_ids(ids), wanted)]))
        for customer in names:
            self.findings.add("customers", f"{short(customer)}: {what}")
        self.findings.counts["customers"] += max(len(hashes) - len(names), 0)


def _texts(column: pa.ChunkedArray) -> np.ndarray:
    """Return values as the run's tables write them; None for missing values."""
    try:
        texts = pc.cast(column, pa.string()).to_pylist()
    except pa.ArrowException:
        texts = [None if v is None else str(v) for v in column.to_pylist()]
    return np.array(texts, dtype=object)
