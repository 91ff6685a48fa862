"""Read the tables of a run as arrays, for the checks of `robustcf.verify`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from robustcf.verify import Block, Changes, Findings
from robustcf.verify.findings import short

from ..run.columns import CERTIFICATE, COUNTERFACTUALS, KEYS, completed
from ..run.folder import BROKEN, RunFolder

BLOCK = 32_768  # rows checked at a time
NESTED = ("cohort", "changes", "point", *(field.name for field in CERTIFICATE.values()))
FLAT = [name for name in COUNTERFACTUALS.names if name not in NESTED]


def read_whole(
    run: RunFolder, name: str, schema: pa.Schema, facts: Mapping[str, Any] | None, findings: Findings
) -> pa.Table | None:
    """Read a Parquet file and check its digest and columns.

    The result is None if it cannot be used.
    """
    try:
        content = run.read(name)
    except OSError as error:
        findings.add("files", f"{name}: cannot be read: {first_line(error)}")
        return None
    if facts is not None:
        stored, digest = facts.get("sha256"), hashlib.sha256(content).hexdigest()
        if digest != stored or len(content) != facts.get("size"):
            findings.add("digest", f"{name}: sha256: stored {short(stored)}, recomputed {digest}")
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            table = completed(file.read(use_threads=False), schema.names)
            if not table.schema.equals(schema):
                findings.add("columns", f"{name}: {_difference(table.schema, schema)}")
                return None
            return table
    except BROKEN as error:
        findings.add("files", f"{name}: not a readable Parquet file: {first_line(error)}")
        return None


def _difference(found: pa.Schema, wanted: pa.Schema) -> str:
    for field in wanted:
        if field.name not in found.names:
            return f"column {field.name!r} is missing"
        if found.names.count(field.name) == 1 and not found.field(field.name).equals(field):
            return f"column {field.name!r} is {found.field(field.name).type}, not {field.type}"
    return f"the columns are not {', '.join(wanted.names)}"


def blocks(file: str, table: pa.Table, width: int, findings: Findings) -> Iterator[tuple[pa.Table, Block]]:
    """Yield a shard in blocks; points with a wrong number of columns become findings."""
    for start in range(0, len(table), BLOCK):
        part = table.slice(start, BLOCK).combine_chunks()
        yield part, block_of(file, part, width, findings)


def block_of(file: str, table: pa.Table, width: int, findings: Findings) -> Block:
    frame = table.select(FLAT).to_pandas(strings_to_categorical=True)
    points, changes = (table[name].combine_chunks() for name in ("point", "changes"))
    there, changed = (a.is_valid().to_numpy(zero_copy_only=False) for a in (points, changes))
    long = pc.fill_null(pc.list_value_length(points), -1).to_numpy(zero_copy_only=False)

    def note(kind: str, wrong: np.ndarray, what: str) -> None:
        findings.where(kind, wrong, lambda i: f"{file}: {short(frame['instance_id'].iloc[i])}: {what}")

    note("columns", there != changed, "the row has a point without changes, or changes without a point")
    note("point", there & (long != width), f"point does not have the forest's {width} columns")
    at = np.flatnonzero(there & changed & (long == width))
    flat = points.take(pa.array(at)).flatten()
    matrix = flat.to_numpy(zero_copy_only=False).astype(np.float64).reshape(len(at), width)
    lists = changes.take(pa.array(at))
    row = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    feature, before, after, delta = lists.flatten().flatten()
    name, old, new = (a.to_pandas().to_numpy(dtype=object) for a in (feature, before, after))
    made = Changes(row, name, old, new, delta.to_numpy(zero_copy_only=False))
    return Block(file, frame, at, matrix, made, certificates_of(table))


def certificates_of(table: pa.Table) -> dict[str, np.ndarray] | None:
    """Return the columns of the certificates and their rows; None without certificates.

    Numbers and flags are float64, and NaN if they are missing.
    """
    there = np.zeros(len(table), dtype=bool)
    for field in CERTIFICATE.values():  # any value stands for a certificate, so that no part goes unchecked
        given = table[field.name].to_numpy() if field.name == "certified" else table[field.name].is_valid()
        there |= np.asarray(given).astype(bool)
    if not there.any():
        return None
    kept = table.filter(pa.array(there))
    found = {"row": np.flatnonzero(there)}
    for field in CERTIFICATE.values():
        values = kept[field.name]
        if pa.types.is_string(field.type):
            found[field.name] = values.to_pandas().to_numpy(dtype=object)
        else:
            found[field.name] = pc.cast(values, pa.float64()).to_numpy()
    return found


def cohorts_of(table: pa.Table, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the values of each cohort column, one per row."""
    column = table["cohort"].combine_chunks()
    found = {name: pc.map_lookup(column, name, "first").to_pylist() for name in names}
    return {name: np.array(values, dtype=object) for name, values in found.items()}  # None where it is null


def check_validation(
    name: str,
    validation: pa.Table,
    rows: pa.Table,
    seeds: Mapping[str, Sequence[int]],
    findings: Findings,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Check that each scenario has every counterfactual once, with the run's seeds.

    Returns the number of valid and of all forests per scenario and row.
    """
    point = rows["point"].is_valid().to_numpy()
    wanted = rows.filter(pa.array(point)).select(list(KEYS)).combine_chunks()
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for odd in set(validation["scenario"].unique().to_pylist()) - seeds.keys():
        findings.add("validation", f"{name}: scenario {short(odd)} is not one of the run's")
    for scenario, expected in seeds.items():
        own = validation.filter(pc.equal(validation["scenario"], scenario)).combine_chunks()
        keys = own.select(list(KEYS))
        if not keys.equals(wanted):
            findings.add("validation", f"{name}: {scenario}: {_first_difference(keys, wanted)}")
            continue
        ids = own["instance_id"]
        hits, lengths = _hits(own["valid"].combine_chunks())
        lists = own["seeds"].combine_chunks()
        wrong = np.array([s != list(expected) for s in lists.to_pylist()], dtype=bool)
        _note(findings, f"{name}: {scenario}", ids, wrong, "seeds are not those of the run")
        short_ = lengths != len(expected)
        _note(findings, f"{name}: {scenario}", ids, short_, f"valid does not have {len(expected)} entries")
        good, all_ = np.zeros(len(rows)), np.zeros(len(rows))
        good[point], all_[point] = hits, len(expected)
        found[scenario] = good, all_
    return found


def _hits(lists: pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many entries are true in each list, and how many are not null."""
    row = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    flat = lists.flatten()
    good = pc.fill_null(flat, False).to_numpy(zero_copy_only=False)
    there = flat.is_valid().to_numpy(zero_copy_only=False)
    n = len(lists)
    return np.bincount(row, weights=good, minlength=n), np.bincount(row, weights=there, minlength=n)


def _note(findings: Findings, where: str, ids: Any, wrong: np.ndarray, what: str) -> None:
    findings.where("validation", wrong, lambda i: f"{where}: {short(ids[i].as_py())}: {what}")


def _first_difference(found: pa.Table, wanted: pa.Table) -> str:
    """Name the first counterfactual that is missing, repeated or unknown."""
    a, b = (Counter(zip(*(t[k].to_pylist() for k in KEYS), strict=True)) for t in (found, wanted))
    for more, what in ((b - a, "is missing"), (a - b, "is repeated or unknown")):
        for key in more:
            return f"{short(' '.join(str(v) for v in key if v is not None))} {what}"
    return "the rows are not in the order of the counterfactuals"


def first_line(error: BaseException) -> str:
    """Return an error as one line."""
    return short(str(error).strip().split("\n")[0])
