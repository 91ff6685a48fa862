"""Reads a run's tables.

`verify` has its own reader, which trusts no file and compares every digest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from .columns import completed
from .folder import RunFolder

Folder = Literal["counterfactuals", "validation", "keys", "summary"]
BLOCK = 16_384  # rows at a time
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


def read_shard(run: RunFolder, folder: Folder, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a whole file of one of the run's tables."""
    with _opened(run, f"{folder}/{name}") as file:
        return _completed(file.read(columns=None if columns is None else list(columns)), folder, columns)


def _completed(table: pa.Table, folder: Folder, columns: Sequence[str] | None) -> pa.Table:
    """Add what was asked for and an older run lacks."""
    if folder != "counterfactuals":
        return table
    return completed(table) if columns is None else completed(table, columns)


def read_blocks(
    run: RunFolder, folder: Folder, name: str, columns: Sequence[str] | None = None, block: int = BLOCK
) -> Iterator[pa.Table]:
    """Yield a file block by block, so that memory does not grow with its size."""
    yield from blocks_of(_opened(run, f"{folder}/{name}"), folder, columns, block)


def blocks_of(
    file: pq.ParquetFile, folder: Folder, columns: Sequence[str] | None = None, block: int = BLOCK
) -> Iterator[pa.Table]:
    """Yield an open file block by block, and close it."""
    with file:
        for batch in file.iter_batches(block, columns=None if columns is None else list(columns)):
            yield _completed(pa.Table.from_batches([batch]), folder, columns)


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
            table = file.read_row_group(group, columns=None if columns is None else list(columns))
            yield _completed(table, folder, columns)
