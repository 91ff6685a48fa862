"""Publish a shard of answers; equal customers get the same answers under their own ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..run.columns import COUNTERFACTUALS, ROW_KEYS
from ..run.manifest import ShardDone, shard_log
from ..run.planned import shard_name
from ..run.rows import answer_starts

if TYPE_CHECKING:
    from .shard import AuditJob

BLOCK = 50_000  # answers written at a time


@dataclass(frozen=True)
class Lines:
    """All lines of a shard's distinct customers.

    `at` has the first line of each customer and method. The lines of the alternatives follow it.
    """

    table: pa.Table
    at: np.ndarray
    solved: int
    copied: int

    @cached_property
    def length(self) -> np.ndarray:
        """The number of lines of the answer that starts at each line."""
        starts = answer_starts(self.table)
        length = np.zeros(len(self.table), dtype=np.int64)
        length[starts] = np.diff(starts, append=len(self.table))
        return length

    def seconds(self) -> np.ndarray:
        """Return the time that each customer took."""
        spent = np.cumsum(np.append(0.0, self.table["seconds"].fill_null(0.0).to_numpy()))
        seconds: np.ndarray = (spent[self.at + self.length[self.at]] - spent[self.at]).sum(axis=1)
        return seconds

    def of(self, customers: Sequence[int]) -> tuple[pa.Table, np.ndarray]:
        """Return the lines of some customers, and the number of each one's lines."""
        first = self.at[customers]
        n = self.length[first.ravel()]
        before = np.repeat(np.cumsum(n) - n, n)
        places = np.repeat(first.ravel(), n) + np.arange(len(before)) - before
        return self.table.take(pa.array(places)), self.length[first].sum(axis=1)


def publish(
    job: AuditJob,
    number: int,
    lines: Lines,
    ids: list[str],
    cohorts: list[list[Any]],
    keys: list[bytes],
    begin: float,
) -> ShardDone:
    """Write the customers' lines and row digests, sorted by id; statuses count the nearest answers."""
    order = sorted(range(len(ids)), key=ids.__getitem__)  # a shard's bytes do not depend on the input's order
    rows = int(lines.length[lines.at].sum())
    statuses = lines.table["status"].take(pa.array(lines.at.ravel())).value_counts().to_pylist()
    counts = {entry["values"]: entry["counts"] for entry in statuses}
    note: dict[str, Any] = {
        "shard": number,
        "bits": job.bits,
        "run": job.fingerprint,
        "rows": rows,
        "customers": len(order),
        "counts": dict(sorted(counts.items())),
        "solved": lines.solved,
        "copied": lines.copied,
        "log": shard_log(begin, ids, lines.seconds()),
    }
    sink = pa.BufferOutputStream()
    schema = COUNTERFACTUALS.with_metadata({b"robustcf": json.dumps(note).encode()})
    block = max(1, BLOCK // len(job.question.methods))
    with pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True) as writer:
        for start in range(0, len(order), block):
            part = order[start : start + block]
            table, each = lines.of(part)
            columns = {
                "instance_id": pa.array(np.repeat(np.array([ids[i] for i in part], dtype=object), each)),
                "cohort": pa.array(
                    [
                        [(name, column[i]) for name, column in zip(job.cohort, cohorts, strict=True)]
                        for i, n in zip(part, each.tolist(), strict=True)
                        for _ in range(n)
                    ],
                    COUNTERFACTUALS.field("cohort").type,
                ),
            }
            for name, column in columns.items():
                at = COUNTERFACTUALS.get_field_index(name)
                table = table.set_column(at, COUNTERFACTUALS.field(name), column)
            writer.write_table(table.replace_schema_metadata(schema.metadata))
    row_table = pa.table(
        {"instance_id": [ids[i] for i in order], "row": [keys[i] for i in order]}, schema=ROW_KEYS
    )
    job.run.publish_table(f"keys/{shard_name(number)}", row_table)
    file = job.run.publish(f"counterfactuals/{shard_name(number)}", memoryview(sink.getvalue()))
    return ShardDone(file, rows, len(order), counts, lines.solved, lines.copied, log=note["log"])
