"""Reads a run's tables.

`verify` has its own reader, which trusts no file and compares every digest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from .columns import completed
from .folder import RunFolder

Folder = Literal["counterfactuals", "validation", "keys", "summary"]
BLOCK = 16_384  # rows at a time


def _opened(run: RunFolder, name: str) -> pq.ParquetFile:
    return pq.ParquetFile(run.filesystem.open_input_file(run.path(name)), pre_buffer=True)  # few requests


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
    with _opened(run, f"{folder}/{name}") as file:
        for batch in file.iter_batches(block, columns=None if columns is None else list(columns)):
            yield _completed(pa.Table.from_batches([batch]), folder, columns)


def row_digests(run: RunFolder, name: str) -> dict[str, bytes]:
    """Return the digest of each customer's row in a shard, by the customer's id."""
    table = read_shard(run, "keys", name)
    return dict(zip(table["instance_id"].to_pylist(), table["row"].to_pylist(), strict=True))


def read_row_groups(
    run: RunFolder, folder: Folder, name: str, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yield a file row group by row group.

    A row group holds all rows of its customers.
    """
    with _opened(run, f"{folder}/{name}") as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=None if columns is None else list(columns))
            yield _completed(table, folder, columns)
