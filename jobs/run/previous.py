"""Answers of an earlier run: which are copied, kept, or still valid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robustcf import Forest, Schema, SchemaError

from ..inputs.errors import BadInput
from .folder import RunFolder, require_run
from .raw import encoded_again, incomparable, unlike_rows
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
    schema: Schema | None = None  # the earlier one, if it differs from ours
    unlike: str | None = None  # why digests of rows cannot be compared; then nothing is copied or kept


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


def open_previous(
    address: str, schema: Schema, labels: Sequence[str], time_limit: float, keep_valid: bool
) -> Previous | str:
    """Open the earlier run; return a text that says why nothing of it can be compared.

    `labels` are the texts of the model's classes.
    """
    run, manifest = require_run(address)
    if manifest["kind"] != "audit" or "plan" not in manifest:
        raise BadInput(f"{run.shown} is not an audit with answers that can be reused")
    favourable = str(manifest["config"].get("model", {}).get("favourable"))
    if favourable not in labels:
        return f"its favourable label {favourable} is not a class of this model"
    earlier = None
    if manifest["schema_hash"] != schema.fingerprint:
        try:
            earlier = Schema.from_toml(run.read("schema.toml"), name=run.showing("schema.toml"))
        except (OSError, SchemaError) as error:
            return f"its schema differs and cannot be read: {error}"
        if (problem := incomparable(earlier, schema)) is not None:
            return f"its schema differs: {problem}"
    solver = manifest["config"].get("solver")
    same_limit = isinstance(solver, dict) and solver.get("time_limit") == time_limit
    unlike = None if earlier is None else unlike_rows(earlier, schema)
    return Previous(
        run, manifest["plan"]["bits"], _answer_keys(manifest), same_limit, keep_valid, earlier, unlike
    )


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


def still_valid(forest: Forest, table: pa.Table, earlier: Schema | None, schema: Schema) -> np.ndarray:
    """Return whether the forest still predicts the target class at each row's point.

    `earlier` is the schema of the points, if it is not the forest's own.
    """
    valid = np.zeros(len(table), dtype=bool)
    there = np.flatnonzero(~np.isnan(table["distance"].to_numpy().astype(float)))
    if not len(there):
        return valid
    rows = table.take(there)
    if earlier is None:
        points = np.array(rows["point"].to_pylist(), dtype=np.float64)
    else:
        points, known = encoded_again(rows, earlier, schema)
        there, points, rows = there[known], points[known], rows.filter(pa.array(known))
    targets, votings = rows["target"].to_pylist(), rows["voting"].to_pylist()
    for voting in set(votings):
        predicted = forest.predict(points, voting)
        for k, (target, own) in enumerate(zip(targets, votings, strict=True)):
            if own == voting:
                valid[there[k]] = forest.classes[predicted[k]] == label_of(forest, target)
    return valid


def tested_again(
    previous: Previous, forest: Forest, schema: Schema, table: pa.Table
) -> Iterator[tuple[int, Key, bool]]:
    """Yield the row and method of each earlier recourse, and whether this forest still accepts it."""
    given = _mask(pc.is_in(table["status"], value_set=pa.array(GIVEN)))
    valid = still_valid(forest, table, previous.schema, schema)
    columns = (table[c].to_pylist() for c in ("method", "alpha", "beta", "parameter"))
    for i, key in enumerate(zip(*columns, strict=True)):
        if given[i]:
            yield i, key, bool(valid[i])


def survivors(previous: Previous, forest: Forest, schema: Schema, shard: str) -> Counter[tuple[Key, str]]:
    """Count an earlier shard's recourses, and those that this forest still accepts."""
    counts: Counter[tuple[Key, str]] = Counter()
    for table in read_blocks(previous.run, "counterfactuals", shard):
        for _, key, works in tested_again(previous, forest, schema, table):
            counts[key, "given"] += 1
            counts[key, "survived"] += int(works)
    return counts
