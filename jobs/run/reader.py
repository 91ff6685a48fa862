"""Reads a run's tables.

Without `alternatives`, a table of answers has only the nearest answer of each customer and method, or what
belongs to it. `verify` has its own reader, which trusts no file and compares every digest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .columns import COUNTERFACTUALS, VALIDATION, completed
from .folder import RunFolder

Folder = Literal["counterfactuals", "validation", "keys", "summary"]
BLOCK = 16_384  # rows at a time
ANSWERS = {"counterfactuals": COUNTERFACTUALS, "validation": VALIDATION}


def _opened(run: RunFolder, name: str) -> pq.ParquetFile:
    return pq.ParquetFile(run.filesystem.open_input_file(run.path(name)), pre_buffer=True)  # few requests


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
    with _opened(run, f"{folder}/{name}") as file:
        for batch in file.iter_batches(block, columns=_needed(folder, columns)):
            yield _completed(pa.Table.from_batches([batch]), folder, columns, alternatives)


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
            table = file.read_row_group(group, columns=_needed(folder, columns))
            yield _completed(table, folder, columns, alternatives=False)
