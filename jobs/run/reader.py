"""Reads a run's tables.

Without `alternatives`, a table of answers has only the nearest answer of each customer and method, or what
belongs to it. `verify` has its own reader, which trusts no file and compares every digest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .columns import COUNTERFACTUALS, VALIDATION, completed
from .folder import RunFolder

Folder = Literal["counterfactuals", "validation", "keys", "summary"]
BLOCK = 16_384  # rows at a time
ANSWERS = {"counterfactuals": COUNTERFACTUALS, "validation": VALIDATION}
READ_AT_ONCE = 16_000_000  # bytes
IN_PARALLEL = 8
T = TypeVar("T")


def _opened(run: RunFolder, name: str) -> pq.ParquetFile:
    """Open a Parquet file. A small one is read from an object store with one request, not one per column."""
    file = run.filesystem.open_input_file(run.path(name))
    if not run.local and file.size() <= READ_AT_ONCE:
        with file:
            return pq.ParquetFile(pa.BufferReader(file.read()))
    return pq.ParquetFile(file, pre_buffer=True)


def at_once(run: RunFolder, function: Callable[[str], T], names: Sequence[str]) -> Iterator[T]:
    """Yield a function's value for each name; requests to an object store run in parallel."""
    if run.local:
        yield from map(function, names)
        return
    with ThreadPoolExecutor(IN_PARALLEL) as pool:
        yield from pool.map(function, names)


def open_shard(run: RunFolder, folder: Folder, name: str) -> pq.ParquetFile | None:
    """Open a file of one of the run's tables; return None if it does not exist."""
    try:
        return _opened(run, f"{folder}/{name}")
    except FileNotFoundError:
        return None


def read_shard(
    run: RunFolder,
    folder: Folder,
    name: str,
    columns: Sequence[str] | None = None,
    *,
    alternatives: bool = False,
) -> pa.Table:
    """Return a whole file of one of the run's tables."""
    with _opened(run, f"{folder}/{name}") as file:
        return _completed(file.read(columns=_needed(folder, columns)), folder, columns, alternatives)


def _needed(folder: Folder, columns: Sequence[str] | None) -> list[str] | None:
    """Return the columns to read; the alternatives are told apart by a column of their own."""
    if columns is None:
        return None
    more = ["alternative"] if folder in ANSWERS and "alternative" not in columns else []
    return [*columns, *more]


def _completed(
    table: pa.Table, folder: Folder, columns: Sequence[str] | None, alternatives: bool
) -> pa.Table:
    """Add what was asked for and an older run lacks; drop alternatives that were not asked for."""
    if folder not in ANSWERS:
        return table
    if not alternatives and "alternative" in table.schema.names:
        nearest = pc.fill_null(pc.equal(table["alternative"], 0), True)
        if not pc.all(nearest).as_py():
            table = table.filter(nearest)
    if columns is None:
        return completed(table, ANSWERS[folder].names)
    extra = "alternative" in table.schema.names and "alternative" not in columns
    return completed(table.drop_columns("alternative") if extra else table, columns)


def read_both(
    run: RunFolder, names: Sequence[str], columns: Sequence[str], validation: Sequence[str]
) -> Iterator[tuple[pa.Table, pa.Table | None]]:
    """Yield the counterfactuals of each shard, and the columns of their validations, if there are any."""

    def read(name: str) -> tuple[pa.Table, pa.Table | None]:
        table = read_shard(run, "counterfactuals", name, columns)
        if not len(table) or (file := open_shard(run, "validation", name)) is None:
            return table, None
        with file:
            found = file.read(columns=_needed("validation", validation))
            return table, _completed(found, "validation", validation, alternatives=False)

    return at_once(run, read, names)


def read_blocks(
    run: RunFolder,
    folder: Folder,
    name: str,
    columns: Sequence[str] | None = None,
    block: int = BLOCK,
    *,
    alternatives: bool = False,
) -> Iterator[pa.Table]:
    """Yield a file block by block, so that memory does not grow with its size."""
    yield from blocks_of(_opened(run, f"{folder}/{name}"), folder, columns, block, alternatives=alternatives)


def blocks_of(
    file: pq.ParquetFile,
    folder: Folder,
    columns: Sequence[str] | None = None,
    block: int = BLOCK,
    *,
    alternatives: bool = False,
) -> Iterator[pa.Table]:
    """Yield an open file block by block, and close it."""
    with file:
        for batch in file.iter_batches(block, columns=_needed(folder, columns)):
            yield _completed(pa.Table.from_batches([batch]), folder, columns, alternatives)


def row_digests(run: RunFolder, name: str) -> dict[str, bytes]:
    """Return the digest of each customer's row in a shard, by the customer's id."""
    table = read_shard(run, "keys", name)
    return dict(zip(table["instance_id"].to_pylist(), table["row"].to_pylist(), strict=True))


def read_row_groups(
    file: pq.ParquetFile, folder: Folder, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yield an open file row group by row group, and close it.

    A row group holds all rows of its customers.
    """
    with file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=_needed(folder, columns))
            yield _completed(table, folder, columns, alternatives=False)
