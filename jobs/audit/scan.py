"""First pass over a customer table: sort the rows by a hash of their values.

Each piece of the input becomes one file in the run's `_work` folder. The file is sorted by hash and divided
into small record batches. A shard of the second pass is a range of hashes. It reads only its own batches of
every piece, so a worker's memory does not grow with the table. Equal rows are in the same shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from robustcf import Forest, Schema
from robustcf.schema.encode import encode, read_rows

from ..inputs.config import Customers
from ..inputs.errors import BadInput
from ..inputs.tables import Chunk, read_chunk
from ..run.folder import RunFolder
from ..run.question import Question

BATCH = 1024
ID, HASH, FEATURE, COHORT = "id", "hash", "f:", "c:"


@dataclass
class Scanned:
    """The result of one chunk; `ids` holds hashes of the ids, 8 bytes per row."""

    pieces: list[str] = field(default_factory=list)
    rows: int = 0
    denied: int = 0
    invalid: int = 0
    checksum: int = 0
    other_checksum: int = 0
    ids: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))


def columns_of(customers: Customers, schema: Schema) -> list[str]:
    """Return the columns of the table that the audit reads."""
    first = [] if customers.id is None else [customers.id]
    return [*first, *customers.cohort, *schema.names]


def scan_chunk(
    run: RunFolder, customers: Customers, question: Question, schema: Schema, forest: Forest, chunk: Chunk
) -> Scanned:
    """Hash, sort and store one chunk."""
    found = Scanned()
    hashes = []
    for number, table in enumerate(read_chunk(chunk, columns_of(customers, schema))):
        ids = _ids(table, customers, chunk, found.rows)
        frame = table.select(list(schema.names)).to_pandas()
        read = read_rows(schema, frame, missing=forest.accepts_missing)
        usable = np.array([reason is None for reason in read.reasons], dtype=bool)
        id_hash = pd.util.hash_array(np.asarray(ids.to_pylist(), dtype=object))
        row_hash = np.where(usable, hash_rows(read.numbers), id_hash)
        predicted = forest.predict(encode(schema, read.numbers[usable]), question.voting)  # type: ignore[arg-type]
        favourable = -1 if question.target is None else forest.class_index(question.target)
        name = f"_work/rows-{chunk.number:05d}-{number:04d}.arrow"
        _store(run, name, _prepared(table, ids, row_hash, customers, schema))
        found.pieces.append(name)
        found.rows += len(table)
        found.denied += int((predicted != favourable).sum())
        found.invalid += int((~usable).sum())
        other_hash = _hash_others(table, usable, customers, schema)
        found.checksum = _add(found.checksum, row_hash ^ _mix(id_hash))
        found.other_checksum = _add(found.other_checksum, other_hash ^ _mix(id_hash))
        hashes.append(id_hash)
    found.ids = np.concatenate(hashes) if hashes else found.ids
    return found


def checksums(scanned: Sequence[Scanned]) -> dict[str, str]:
    """Return checksums of all rows; they do not depend on the order of the rows.

    `data_hash` covers ids and features. `other_hash` covers everything else that the run stores.
    """
    return {
        "data_hash": f"{sum(s.checksum for s in scanned) % 2**64:016x}",
        "other_hash": f"{sum(s.other_checksum for s in scanned) % 2**64:016x}",
    }


def _add(checksum: int, hashes: np.ndarray) -> int:
    with np.errstate(over="ignore"):
        return (checksum + int(_mix(hashes).sum())) % 2**64


def _hash_others(table: pa.Table, usable: np.ndarray, customers: Customers, schema: Schema) -> np.ndarray:
    """Return a 64-bit hash of each row's cohorts.

    For an unusable row, the hash also covers the text of its features.
    """
    state = np.zeros(len(table), dtype=np.uint64)
    for name in customers.cohort:
        state = _mix(state ^ _hash_text(_as_text(table[name])))
    if not usable.all():
        bad = pa.array(np.flatnonzero(~usable))
        for name in schema.names:
            state[~usable] = _mix(state[~usable] ^ _hash_text(_as_text(table[name].take(bad))))
    return state


def _hash_text(column: pa.ChunkedArray) -> np.ndarray:
    text = ["\0" if value is None else value for value in column.to_pylist()]
    hashed: np.ndarray = pd.util.hash_array(np.asarray(text, dtype=object), categorize=False)
    return hashed


def _ids(table: pa.Table, customers: Customers, chunk: Chunk, before: int) -> pa.Array:
    """Return the ids as text; without an id column, the row numbers."""
    if customers.id is None:
        first, prefix = chunk.first_row + before, f"{chunk.name}:" if chunk.name else ""
        return pa.array([f"{prefix}{first + i}" for i in range(len(table))], pa.string())
    column = table[customers.id].combine_chunks()
    if column.null_count:
        where = chunk.first_row + before + int(pc.index(pc.is_null(column), True).as_py())
        raise BadInput(f"{chunk.path}: row {where} has no {customers.id!r}")
    if pa.types.is_floating(column.type):
        _refuse_inexact(column, customers.id, chunk, before)
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowException:
        raise BadInput(
            f"{chunk.path}: column {customers.id!r} holds {column.type}; store the ids as integers or text"
        ) from None


def _refuse_inexact(column: pa.Array, name: str, chunk: Chunk, before: int) -> None:
    """Refuse floats as ids if they are NaN or too large to be exact integers.

    The limit is 2^53 for 64-bit floats.
    """
    values = column.to_numpy(zero_copy_only=False)
    digits = np.finfo(values.dtype).nmant + 1
    wrong = ~(np.abs(values.astype(np.float64)) < 2.0**digits)
    if wrong.any():
        at = int(np.argmax(wrong))
        reason = "is not a number" if np.isnan(values[at]) else f"is a float above 2^{digits}, not exact"
        raise BadInput(
            f"{chunk.path}: row {chunk.first_row + before + at}: {name!r} is {values[at]}, which {reason};"
            " store the ids as integers or text"
        )


def _prepared(
    table: pa.Table, ids: pa.Array, row_hash: np.ndarray, customers: Customers, schema: Schema
) -> pa.Table:
    columns = {ID: ids, HASH: pa.array(row_hash)}
    for name in customers.cohort:
        columns[COHORT + name] = _as_text(table[name])
    for name in schema.names:
        columns[FEATURE + name] = table[name]
    return pa.table(columns).take(pa.array(np.argsort(row_hash, kind="stable")))


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowException:
        return pa.chunked_array(
            [pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())]
        )


def _store(run: RunFolder, name: str, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    firsts = table[HASH].to_numpy()[::BATCH]
    noted = table.replace_schema_metadata({b"firsts": firsts.astype("<u8").tobytes()})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, noted.schema, options=options) as writer:
        writer.write_table(noted.combine_chunks(), max_chunksize=BATCH)
    run.publish(name, memoryview(sink.getvalue()))


def read_range(run: RunFolder, pieces: Sequence[str], low: int, high: int) -> list[pa.Table]:
    """Return the rows with hashes in [low, high), one table per piece."""
    found = []
    for name in pieces:
        with run.filesystem.open_input_file(run.path(name)) as file, pa.ipc.open_file(file) as reader:
            firsts = np.frombuffer(reader.schema.metadata[b"firsts"], dtype="<u8")
            begin = max(int(np.searchsorted(firsts, np.uint64(low), side="left")) - 1, 0)
            end = len(firsts) if high >= 2**64 else int(np.searchsorted(firsts, np.uint64(high), side="left"))
            batches = [reader.get_batch(b) for b in range(begin, end)]
        if batches:
            table = pa.Table.from_batches(batches)
            hashes = table[HASH].to_numpy()
            inside = hashes >= np.uint64(low)
            if high < 2**64:
                inside &= hashes < np.uint64(high)
            if inside.any():
                found.append(table.filter(pa.array(inside)))
    return found


def hash_rows(numbers: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each row.

    Equal rows have equal hashes. Unequal rows may have equal hashes too.
    """
    clean = np.where(np.isnan(numbers), np.nan, numbers + 0.0)  # one NaN, no -0.0
    bits = np.ascontiguousarray(clean).view(np.uint64)
    state = np.full(len(bits), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in bits.T:
        state = _mix(state ^ column)
    return state


def _mix(values: np.ndarray) -> np.ndarray:
    """Apply the last step of splitmix64 to each value."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed


def twice(ids: np.ndarray) -> np.ndarray:
    """Return the hashes that occur more than once."""
    ordered = np.sort(ids)
    again: np.ndarray = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    return again


def find_duplicate(customers: Customers, chunk: Chunk, hashes: np.ndarray) -> list[str]:
    """Return the ids of a chunk that have one of these hashes.

    Different ids may have equal hashes, so the caller compares the ids themselves.
    """
    assert customers.id is not None
    found: list[str] = []
    before = 0
    for table in read_chunk(chunk, [customers.id]):
        ids: list[Any] = _ids(table, customers, chunk, before).to_pylist()
        known = np.isin(pd.util.hash_array(np.asarray(ids, dtype=object)), hashes)
        found += [ids[i] for i in np.flatnonzero(known)]
        before += len(table)
    return found
