"""Read Parquet or CSV tables in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from .errors import BadInput
from .secrets import without_secrets
from .uri import base_of, find_files, open_filesystem

PIECE = 65_536  # rows in memory at a time
ENDINGS = (".parquet", ".pq", ".csv")


@dataclass(frozen=True)
class Chunk:
    """Part of one file: some row groups of a Parquet file, or a whole CSV file."""

    number: int
    address: str
    path: str
    name: str
    groups: tuple[int, ...] | None
    first_row: int


@dataclass(frozen=True)
class Plan:
    """All chunks of a table; `files` (path, size, time) shows whether a file changed."""

    chunks: list[Chunk]
    rows: int | None
    files: list[tuple[str, int, str]]


def plan_table(address: str, columns: Sequence[str]) -> Plan:
    """Find the files and read their headers.

    Refuse unreadable files and missing columns.
    """
    filesystem, files = find_files(address, ENDINGS)
    chunks: list[Chunk] = []
    rows: int | None = 0
    several = len(files) > 1
    for path in files:
        name = path.rsplit("/", 1)[-1] if several else ""
        if path.lower().endswith(".csv"):
            _require(columns, _csv_columns(filesystem, path), path)
            chunks.append(Chunk(len(chunks), base_of(address), path, name, None, 0))
            rows = None
            continue
        try:
            with pq.ParquetFile(filesystem.open_input_file(path)) as file:
                head, present = file.metadata, file.schema_arrow.names
                sizes = [head.row_group(g).num_rows for g in range(head.num_row_groups)]
        except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
            raise BadInput(f"{path}: not a readable Parquet file: {_first_line(error)}") from None
        _require(columns, present, path)
        first = 0
        for groups in _grouped(sizes):
            chunks.append(Chunk(len(chunks), base_of(address), path, name, tuple(groups), first))
            first += sum(sizes[g] for g in groups)
        rows = None if rows is None else rows + first
    infos = filesystem.get_file_info(files)
    return Plan(chunks, rows, [(i.path, i.size, str(i.mtime_ns)) for i in infos])


def _grouped(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield consecutive row groups that together have about `PIECE` rows."""
    run: list[int] = []
    for g, size in enumerate(sizes):
        if run and sum(sizes[r] for r in run) + size > PIECE:
            yield run
            run = []
        run.append(g)
    if run:
        yield run


def read_chunk(chunk: Chunk, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the chunk's rows in pieces, with the given columns only."""
    filesystem = open_filesystem(chunk.address)[0]
    wanted = list(dict.fromkeys(columns))
    try:
        if chunk.groups is None:
            yield from _csv_pieces(filesystem, chunk.path, wanted)
            return
        with pq.ParquetFile(filesystem.open_input_file(chunk.path), pre_buffer=True) as file:
            for batch in file.iter_batches(PIECE, row_groups=list(chunk.groups), columns=wanted):
                # the metadata that pandas left in the file is ignored: it may be broken
                table = pa.Table.from_batches([batch]).select(wanted).replace_schema_metadata(None)
                table.validate(full=True)
                yield table
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise BadInput(f"{chunk.path}: cannot be read: {_first_line(error)}") from None


def read_table(address: str, columns: Sequence[str]) -> pa.Table:
    """Read a whole table (training rows, points)."""
    parts = [piece for chunk in plan_table(address, columns).chunks for piece in read_chunk(chunk, columns)]
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        shown = without_secrets(address)
        raise BadInput(f"{shown}: the files have different columns: {_first_line(error)}") from None


def column_names(address: str) -> list[str]:
    """Return the column names in a table's first file."""
    filesystem, files = find_files(address, ENDINGS)
    if files[0].lower().endswith(".csv"):
        return _csv_columns(filesystem, files[0])
    plan_table(address, [])  # raises a clear error for an unreadable file
    with pq.ParquetFile(filesystem.open_input_file(files[0])) as file:
        return [str(name) for name in file.schema_arrow.names]


def _csv_options(columns: Sequence[str] | None, include: Sequence[str]) -> Any:
    # Read everything as text, so that a bad number spoils one row and not the whole file.
    types = None if columns is None else {name: pa.string() for name in columns}
    return pyarrow.csv.ConvertOptions(
        column_types=types, include_columns=list(include), strings_can_be_null=True, null_values=[""]
    )


def _csv_columns(filesystem: Any, path: str) -> list[str]:
    try:
        with pyarrow.csv.open_csv(filesystem.open_input_stream(path)) as reader:
            names: list[str] = reader.schema.names
            return names
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise BadInput(f"{path}: not a readable CSV file: {_first_line(error)}") from None


def _csv_pieces(filesystem: Any, path: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size = 0
    with pyarrow.csv.open_csv(
        filesystem.open_input_stream(path),
        read_options=pyarrow.csv.ReadOptions(block_size=1 << 22, use_threads=False),
        convert_options=_csv_options(columns, columns),
    ) as reader:
        for batch in reader:
            held.append(batch)
            size += len(batch)
            if size >= PIECE:
                yield pa.Table.from_batches(held)
                held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _require(columns: Sequence[str], present: Sequence[str], path: str) -> None:
    for name in columns:
        if name not in present:
            raise BadInput(f"{path}: column {name!r} is missing")
        if list(present).count(name) > 1:
            raise BadInput(f"{path}: column {name!r} appears twice")


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
