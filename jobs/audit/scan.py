"""First pass over a customer table: sort the rows by a hash of their values.

Each task reads a few chunks of the table and writes files of rows, sorted by hash (see `ranges`). A shard of
the second pass is a range of hashes, so equal rows are in the same shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from .favourable import is_favourable
from .ranges import HASH, SEGMENT_ROWS, RangeFile, bits_for, store

FILE_BYTES = 64_000_000  # uncompressed, of the rows in a file of the first pass, about
SAMPLE = 48  # rejected customers for the pilot: three for each of its tasks
ID, FEATURE, COHORT = "id", "f:", "c:"


@dataclass
class Scanned:
    """The result of some chunks; `sample` holds their rejected rows with the smallest hashes."""

    files: list[RangeFile] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    denied: int = 0
    invalid: int = 0
    checksum: int = 0
    other_checksum: int = 0
    sample: list[pa.Table] = field(default_factory=list)


def columns_of(customers: Customers, schema: Schema) -> list[str]:
    """Return the columns of the table that the audit reads."""
    first = [] if customers.id is None else [customers.id]
    return [*first, *customers.cohort, *schema.names]


def scan_chunks(
    run: RunFolder,
    customers: Customers,
    question: Question,
    schema: Schema,
    forest: Forest,
    chunks: Sequence[Chunk],
) -> Scanned:
    """Hash, sort and store some chunks."""
    found = Scanned()
    held: list[
        tuple[pa.Table, np.ndarray]
    ] = []  # rows with the same column types, and the hashes of their ids
    for table, ids in _tables(customers, schema, chunks):
        frame = table.select(list(schema.names)).to_pandas()
        read = read_rows(schema, frame, missing=forest.accepts_missing)
        usable = np.array([reason is None for reason in read.reasons], dtype=bool)
        id_hash = pd.util.hash_array(np.asarray(ids.to_pylist(), dtype=object))
        row_hash = np.where(usable, hash_rows(read.numbers), id_hash)
        rejected = usable.copy()
        rejected[usable] = ~is_favourable(forest, question, encode(schema, read.numbers[usable]))
        found.rows += len(table)
        found.denied += int(rejected.sum())
        found.invalid += int((~usable).sum())
        other_hash = _hash_others(table, usable, customers, schema)
        found.checksum = _add(found.checksum, row_hash ^ _mix(id_hash))
        found.other_checksum = _add(found.other_checksum, other_hash ^ _mix(id_hash))
        rows = _prepared(table, ids, row_hash, customers, schema)
        found.sample = first_rows([*found.sample, rows.filter(pa.array(rejected))])
        found.size += rows.nbytes
        if held and (held[0][0].schema != rows.schema or sum(t.nbytes for t, _ in held) > FILE_BYTES):
            found.files.append(_store(run, customers, chunks[0], len(found.files), held))
            held = []
        held.append((rows, id_hash))
    if held:
        found.files.append(_store(run, customers, chunks[0], len(found.files), held))
    return found


def _tables(
    customers: Customers, schema: Schema, chunks: Sequence[Chunk]
) -> Iterator[tuple[pa.Table, pa.Array]]:
    """Yield the rows of some chunks in pieces of bounded size, with their ids."""
    for chunk in chunks:
        before = 0
        for table in read_chunk(chunk, columns_of(customers, schema)):
            yield table, _ids(table, customers, chunk, before)
            before += len(table)


def _store(
    run: RunFolder, customers: Customers, first: Chunk, number: int, held: list[tuple[pa.Table, np.ndarray]]
) -> RangeFile:
    rows = pa.concat_tables([table for table, _ in held])
    ids = np.zeros(0, dtype=np.uint64) if customers.id is None else np.concatenate([ids for _, ids in held])
    bits = bits_for(len(rows) / SEGMENT_ROWS)
    return store(run, f"_work/rows-{first.number:05d}-{number:04d}.arrow", [rows], bits, 0, 2**bits, ids)


def first_rows(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Return the rows with the `SAMPLE` smallest hashes; of equal rows not all, if there are many."""
    hashes = np.sort(np.concatenate([table[HASH].to_numpy() for table in tables]))
    last = hashes[SAMPLE - 1] if len(hashes) > SAMPLE else np.uint64(2**64 - 1)
    kept = [table.filter(pa.array(table[HASH].to_numpy() <= last))[:SAMPLE] for table in tables]
    return [table for table in kept if len(table)]


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
    return pa.table(columns)


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowException:
        return pa.chunked_array(
            [pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())]
        )


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
