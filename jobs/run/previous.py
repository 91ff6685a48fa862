"""Answers of an earlier run: which are copied, kept, or still valid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robustcf import Forest, Schema

from ..inputs.errors import BadInput
from .folder import RunFolder, require_run
from .reader import read_blocks, read_shard, row_digests
from .rows import Key, answer_starts, label_of

GIVEN = ("optimal", "feasible", "relaxed", "heuristic")  # the customer was given a change to make
KEPT = "kept from the previous run: still valid on this forest, not solved again"


@dataclass(frozen=True)
class Previous:
    """An earlier audit; its shards are ranges of the same row hashes as ours."""

    run: RunFolder
    bits: int
    answer_keys: dict[Key, str]
    same_limit: bool
    keep_valid: bool


@dataclass
class Earlier:
    """What an earlier run offers for the customers of one shard.

    `copies` are table rows that can be copied unchanged. `at` gives the position in `copies` of the answer
    for a customer's row and a method; its alternatives follow it. `changes` gives feature and new value of
    the earlier recourses whose answers cannot be copied.
    """

    copies: pa.Table | None = None
    at: dict[tuple[bytes, Key], int] = field(default_factory=dict)
    changes: dict[tuple[bytes, Key], dict[str, str]] = field(default_factory=dict)


def open_previous(address: str, schema: Schema, time_limit: float, keep_valid: bool) -> Previous | None:
    """Open the earlier run; return None if its schema differs."""
    run, manifest = require_run(address)
    if manifest["kind"] != "audit" or "plan" not in manifest:
        raise BadInput(f"{run.shown} is not an audit with answers that can be reused")
    if manifest["schema_hash"] != schema.fingerprint:
        return None
    solver = manifest["config"].get("solver")
    same_limit = isinstance(solver, dict) and solver.get("time_limit") == time_limit
    return Previous(run, manifest["plan"]["bits"], _answer_keys(manifest), same_limit, keep_valid)


def _answer_keys(manifest: Mapping[str, Any]) -> dict[Key, str]:
    """Return the answer key of each method of an earlier run.

    Nothing is copied from a run that stored no keys.
    """
    stored = manifest.get("answer_keys")
    found: dict[Key, str] = {}
    for entry in stored if isinstance(stored, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("key"), str):
            found[str(entry.get("method")), entry.get("alpha"), entry.get("beta"), entry.get("parameter")] = (
                entry["key"]
            )
    return found


def overlapping(previous: Previous, shard: int, bits: int) -> range:
    """Return the numbers of the earlier shards that cover one of our shards."""
    if previous.bits <= bits:
        first = shard >> (bits - previous.bits)
        return range(first, first + 1)
    width = previous.bits - bits
    return range(shard << width, (shard + 1) << width)


def earlier_answers(
    previous: Previous, answer_keys: Mapping[Key, str], shard: int, bits: int, wanted: set[bytes]
) -> Earlier:
    """Return the earlier answers for the customers with the `wanted` row digests.

    `answer_keys` gives this run's answer key of each method.
    """
    same = {key for key, digest in answer_keys.items() if previous.answer_keys.get(key) == digest}
    found = Earlier()
    tables: list[pa.Table] = []
    for table, rows in _shards(previous, shard, bits):
        starts = answer_starts(table)
        ends = [*starts[1:].tolist(), len(table)]
        usable = np.logical_and.reduceat(_copyable(previous, table), starts) if len(starts) else starts
        given = pc.is_in(table["status"], value_set=pa.array(GIVEN)).to_pylist()
        columns = (table[c].to_pylist() for c in ("method", "alpha", "beta", "parameter"))
        methods = list(zip(*columns, strict=True))
        take: list[int] = []
        for n, i in enumerate(starts.tolist()):
            method, row = methods[i], rows[i]
            if row is None or row not in wanted or method not in answer_keys or (row, method) in found.at:
                continue
            if usable[n] and method in same:
                found.at[row, method] = sum(len(t) for t in tables) + len(take)
                take += range(i, ends[n])
            elif previous.keep_valid and given[i]:
                found.changes[row, method] = {c["feature"]: c["after"] for c in table["changes"][i].as_py()}
        if take:
            tables.append(_copied(table.take(take)))
    found.copies = pa.concat_tables(tables) if tables else None
    return found


def _shards(previous: Previous, shard: int, bits: int) -> Iterator[tuple[pa.Table, list[bytes | None]]]:
    """Yield the earlier shards that cover one of ours, with each row's digest.

    The digest is that of the customer's input row.
    """
    for number in overlapping(previous, shard, bits):
        name = f"shard-{number:05d}.parquet"
        if not previous.run.exists(f"keys/{name}") or not previous.run.exists(f"counterfactuals/{name}"):
            continue
        row_of = row_digests(previous.run, name)
        table = read_shard(previous.run, "counterfactuals", name, alternatives=True)
        yield table, [row_of.get(i) for i in table["instance_id"].to_pylist()]


def _copyable(previous: Previous, table: pa.Table) -> np.ndarray:
    """Return which answers can be copied: verified and proved final.

    A `no_recourse` answer without a proved best score can be copied if the time limit is the same.
    """
    verified = _mask(table["verified"])
    optimal = _mask(pc.equal(table["status"], "optimal"))
    stuck = _mask(pc.equal(table["status"], "no_recourse"))
    final = _mask(pc.and_(pc.equal(table["best_score_gap"], 0.0), pc.equal(table["gap"], 0.0)))
    copyable: np.ndarray = verified & (optimal | (stuck & (final | previous.same_limit)))
    return copyable


def _copied(table: pa.Table) -> pa.Table:
    """Return copied rows with 0 seconds and 0 nodes, their cost in this run."""
    n = len(table)
    for name, column in (("seconds", pa.array([0.0] * n)), ("nodes", pa.array([0] * n, pa.int64()))):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), column)
    return table


def _mask(array: Any) -> np.ndarray:
    mask: np.ndarray = (
        pc.fill_null(array, False).to_numpy(zero_copy_only=False)
        if isinstance(array, pa.Array)
        else pc.fill_null(array, False).to_numpy()
    )
    return mask.astype(bool)


def still_valid(forest: Forest, table: pa.Table) -> np.ndarray:
    """Return whether the forest still predicts the target class at each row's point."""
    valid = np.zeros(len(table), dtype=bool)
    there = np.flatnonzero(~np.isnan(table["distance"].to_numpy().astype(float)))
    if not len(there):
        return valid
    points = np.array(table["point"].take(there).to_pylist(), dtype=np.float64)
    targets, votings = table["target"].take(there).to_pylist(), table["voting"].take(there).to_pylist()
    for voting in set(votings):
        predicted = forest.predict(points, voting)
        for k, (target, own) in enumerate(zip(targets, votings, strict=True)):
            if own == voting:
                valid[there[k]] = forest.classes[predicted[k]] == label_of(forest, target)
    return valid


def survivors(previous: Previous, forest: Forest, shard: str) -> Counter[tuple[Key, str]]:
    """Count an earlier shard's recourses, and those that this forest still accepts."""
    counts: Counter[tuple[Key, str]] = Counter()
    for table in read_blocks(previous.run, "counterfactuals", shard):
        given = _mask(pc.is_in(table["status"], value_set=pa.array(GIVEN)))
        valid = still_valid(forest, table)
        columns = (table[c].to_pylist() for c in ("method", "alpha", "beta", "parameter"))
        for i, key in enumerate(zip(*columns, strict=True)):
            if given[i]:
                counts[key, "given"] += 1
                counts[key, "survived"] += int(valid[i])
    return counts
