"""Files of customers sorted by hash, from which a range of hashes is read in one piece.

The first pass writes one file per part of the customer table. A merge then makes the files that the shards
read: each has a range of hashes of the whole table, and a shard is one segment of it. So a shard reads one
file, however large the table is. Only the merge reads every file of the first pass, for each of its ranges.
There are few of both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from robustcf.support.documents import parse_json

from ..run.folder import RunFolder

HASH = "hash"
RANGE_BYTES = 128_000_000  # uncompressed, of the rows that one merge holds
SEGMENT_ROWS = 1024  # of the first pass' files, about
ID_BITS = 8  # the ids of a file can be read in 2^8 ranges
IDS_AT_ONCE = 2**23  # in one task that looks for repeated ids
IN_PARALLEL = 16  # requests of one task
MOST_REPEATED = 100_000  # ids that an error is about


@dataclass(frozen=True)
class RangeFile:
    """A file of consecutive segments; segment k has the rows whose hash begins with the bits of first + k.

    A segment is a series of Arrow streams, one for each different set of column types. `ends` are the
    positions between the segments. After them, a file of the first pass has the hashes of its ids, sorted;
    `ids` are the positions between those that begin with different bits.
    """

    name: str
    bits: int
    first: int
    ends: tuple[int, ...]
    ids: tuple[int, ...] = ()


def bounds(number: int, bits: int) -> tuple[int, int]:
    """Return the range of hashes that begin with these bits: the first, and the one after the last."""
    return number << (64 - bits), (number + 1) << (64 - bits)


def bits_for(parts: float) -> int:
    """Return log2 of a number of parts, rounded up to a whole number."""
    return max(0, int(np.ceil(np.log2(max(parts, 1.0)))))


def store(
    run: RunFolder, name: str, tables: Sequence[pa.Table], bits: int, first: int, count: int, ids: np.ndarray
) -> RangeFile:
    """Publish tables of rows as a file of `count` segments; each table has column types of its own."""
    edges = np.array([k << (64 - bits) for k in range(first + 1, first + count)], dtype=np.uint64)
    parts = []
    for table in tables:
        ordered = table.take(pa.array(np.argsort(table[HASH].to_numpy(), kind="stable"))).combine_chunks()
        cuts = np.searchsorted(ordered[HASH].to_numpy(), edges, side="left")
        parts.append((ordered, [0, *cuts.tolist(), len(ordered)]))
    sink = pa.BufferOutputStream()
    ends = [0]
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    for k in range(count):
        for ordered, cut in parts:
            if cut[k] < cut[k + 1]:
                with pa.ipc.new_stream(sink, ordered.schema, options=options) as writer:
                    writer.write_table(ordered.slice(cut[k], cut[k + 1] - cut[k]))
        ends.append(sink.tell())
    places: list[int] = []
    if len(ids):
        ids = np.sort(ids)
        starts = np.array([bounds(k, ID_BITS)[0] for k in range(2**ID_BITS)], dtype=np.uint64)
        found = [*np.searchsorted(ids, starts, side="left").tolist(), len(ids)]
        places = [ends[-1] + 8 * place for place in found]
        sink.write(ids.astype("<u8").tobytes())
    run.publish(name, memoryview(sink.getvalue()))
    return RangeFile(name, bits, first, tuple(ends), tuple(places))


def _bytes(run: RunFolder, name: str, begin: int, end: int) -> bytes:
    if begin == end:
        return b""
    with run.filesystem.open_input_file(run.path(name)) as file:
        content: bytes = file.read_at(end - begin, begin)
    return content


def read_range(run: RunFolder, file: RangeFile, low: int, high: int) -> list[pa.Table]:
    """Return the rows with hashes in [low, high), one table per set of column types and segment."""
    shift, last = 64 - file.bits, len(file.ends) - 2
    begin = min(max((low >> shift) - file.first, 0), last + 1)
    end = min(max(((high - 1) >> shift) - file.first, -1), last) + 1
    content = pa.py_buffer(_bytes(run, file.name, file.ends[begin], file.ends[max(begin, end)]))
    found, source = [], pa.BufferReader(content)
    exact = (file.first + begin) << shift == low and (file.first + end) << shift == high
    while source.tell() < content.size:
        with pa.ipc.open_stream(source) as reader:
            table = reader.read_all()
        if not exact:
            hashes = table[HASH].to_numpy()
            inside = hashes >= np.uint64(low)
            if high < 2**64:
                inside &= hashes < np.uint64(high)
            table = table.filter(pa.array(inside))
        if len(table):
            found.append(table)
    return found


def merge_range(
    run: RunFolder, files: Sequence[RangeFile], number: int, range_bits: int, bits: int
) -> RangeFile:
    """Write one range of all files as a file with a segment for each shard."""
    low, high = bounds(number, range_bits)
    with ThreadPoolExecutor(IN_PARALLEL) as pool:
        found = [t for tables in pool.map(lambda f: read_range(run, f, low, high), files) for t in tables]
    alike: dict[pa.Schema, list[pa.Table]] = {}
    for table in found:
        alike.setdefault(table.schema, []).append(table)
    count = 2 ** (bits - range_bits)
    tables = [pa.concat_tables(group) for group in alike.values()]
    name = f"_work/range-{number:05d}.arrow"
    return store(run, name, tables, bits, number * count, count, np.zeros(0, dtype=np.uint64))


def repeated_ids(
    run: RunFolder, files: Sequence[RangeFile], number: int, bits: int
) -> tuple[int, np.ndarray]:
    """Return how many hashes of ids in a range occur more than once, and some of them."""
    width = 2 ** (ID_BITS - bits)
    places = [(f.name, f.ids[number * width], f.ids[(number + 1) * width]) for f in files if f.ids]
    with ThreadPoolExecutor(IN_PARALLEL) as pool:
        parts = pool.map(lambda place: np.frombuffer(_bytes(run, *place), dtype="<u8"), places)
        ids = np.concatenate([np.zeros(0, dtype="<u8"), *parts])
    ids.sort()
    again = np.unique(ids[1:][ids[1:] == ids[:-1]])
    return len(again), again[:MOST_REPEATED].astype(np.uint64)


def as_json(files: Sequence[RangeFile]) -> bytes:
    """Return the places of all segments, so that a resumed run can read them."""
    return json.dumps([asdict(file) for file in files]).encode()


def from_json(content: bytes) -> tuple[RangeFile, ...] | None:
    """Return what `as_json` was given; None if the content is damaged."""
    try:
        return tuple(
            RangeFile(f["name"], f["bits"], f["first"], tuple(f["ends"]), tuple(f["ids"]))
            for f in parse_json(content)
        )
    except (ValueError, KeyError, TypeError):
        return None
