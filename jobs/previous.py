"""Answers of an earlier run: which can be copied, and which recourses survive a changed forest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.badinput import BadInput
from jobs.rows import Key, Question, label_of
from jobs.store import RunFolder, require_run
from robustcf import Forest, Schema

PROVED = ("optimal", "no_recourse")
KEPT = "kept from the previous run: still valid on this forest, not solved again"


@dataclass(frozen=True)
class Previous:
    """An earlier audit; its shards are ranges of the same hashes as ours."""

    run: RunFolder
    bits: int
    same_forest: bool
    keep_valid: bool


def open_previous(address: str, schema: Schema, forest: Forest, keep_valid: bool) -> Previous | None:
    """The earlier run, if its answers mean anything here: another schema asks other questions."""
    run, manifest = require_run(address)
    if manifest["kind"] != "audit" or "plan" not in manifest:
        raise BadInput(f"{run.shown} is not an audit whose answers could be used again")
    if manifest["schema_hash"] != schema.fingerprint:
        return None
    return Previous(run, manifest["plan"]["bits"], manifest["forest_hash"] == forest.fingerprint, keep_valid)


def overlapping(previous: Previous, shard: int, bits: int) -> range:
    """The earlier shards that cover the hashes of one of ours."""
    if previous.bits <= bits:
        first = shard >> (bits - previous.bits)
        return range(first, first + 1)
    width = previous.bits - bits
    return range(shard << width, (shard + 1) << width)


def earlier_answers(
    previous: Previous, question: Question, forest: Forest, shard: int, bits: int, wanted: set[bytes]
) -> tuple[pa.Table | None, dict[tuple[bytes, Key], int]]:
    """Rows that can be copied, and where each (customer's row, method) is among them."""
    tables: list[pa.Table] = []
    found: dict[tuple[bytes, Key], int] = {}
    count = 0
    for number in overlapping(previous, shard, bits):
        name = f"shard-{number:05d}.parquet"
        if not previous.run.exists(f"keys/{name}") or not previous.run.exists(f"counterfactuals/{name}"):
            continue
        with previous.run.open_parquet(f"keys/{name}") as file:
            keys = file.read()
        row_of = dict(zip(keys["instance_id"].to_pylist(), keys["row"].to_pylist(), strict=True))
        with previous.run.open_parquet(f"counterfactuals/{name}") as file:
            table = file.read()
        row = [row_of.get(i) for i in table["instance_id"].to_pylist()]
        usable = _usable(previous, question, forest, table)
        methods = list(
            zip(*(table[c].to_pylist() for c in ("method", "alpha", "beta", "parameter")), strict=True)
        )
        take: list[int] = []
        for i in np.flatnonzero(usable):
            key = row[i]
            if key in wanted and (key, methods[i]) not in found:
                found[key, methods[i]] = count + len(take)
                take.append(int(i))
        if take:
            tables.append(_as_ours(previous, forest, question, table.take(take)))
            count += len(take)
    return (pa.concat_tables(tables) if tables else None), found


def _usable(previous: Previous, question: Question, forest: Forest, table: pa.Table) -> np.ndarray:
    """Proved on this very forest, or (if wanted) still valid on it."""
    same = pc.and_(pc.equal(table["target"], str(question.target)), table["verified"])
    voting = {method.name: getattr(method, "voting", question.voting) for method in question.methods}
    asked = [
        voting.get(m) == v
        for m, v in zip(table["method"].to_pylist(), table["voting"].to_pylist(), strict=True)
    ]
    fits = _mask(same) & np.array(asked, dtype=bool)
    proved = _mask(pc.is_in(table["status"], value_set=pa.array(PROVED)))
    usable = fits & proved if previous.same_forest else np.zeros(len(table), dtype=bool)
    if previous.keep_valid:
        usable |= fits & still_valid(forest, table)
    return usable


def _mask(array: Any) -> np.ndarray:
    mask: np.ndarray = (
        pc.fill_null(array, False).to_numpy(zero_copy_only=False)
        if isinstance(array, pa.Array)
        else pc.fill_null(array, False).to_numpy()
    )
    return mask.astype(bool)


def still_valid(forest: Forest, table: pa.Table) -> np.ndarray:
    """Whether the forest decides for each row's point as the row promised."""
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


def _as_ours(previous: Previous, forest: Forest, question: Question, table: pa.Table) -> pa.Table:
    """Copied rows cost nothing tonight; kept ones are judged by tonight's forest and prove nothing."""
    n = len(table)
    changes: dict[str, Any] = {"seconds": pa.array([0.0] * n), "nodes": pa.array([0] * n, pa.int64())}
    if not previous.same_forest:
        points = np.array(table["point"].to_pylist(), dtype=np.float64)
        votings = np.array(table["voting"].to_pylist(), dtype=object)
        score = np.zeros(n)
        for voting in set(votings):
            own = votings == voting
            score[own] = forest.judged_score(points[own], question.target, voting)[0]  # type: ignore[arg-type]
        asked = dict(zip(question.keys, question.methods, strict=True))
        keys = zip(*(table[c].to_pylist() for c in ("method", "alpha", "beta", "parameter")), strict=True)
        changes |= {
            "threshold": pa.array([_threshold(asked.get(key), forest) for key in keys], pa.float64()),
            "status": pa.array(["feasible"] * n),
            "reason": pa.array([KEPT] * n),
            "score_after": pa.array(score),
            "lower_bound": pa.array([0.0] * n),
            "gap": pa.array([1.0] * n),
            "best_score": pa.nulls(n, pa.float64()),
            "best_score_gap": pa.nulls(n, pa.float64()),
            "predicted_validity": pa.nulls(n, pa.float64()),
            "n_trees": pa.array([len(forest)] * n, pa.int32()),
        }
    for name, column in changes.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), column)
    return table


def _threshold(method: Any, forest: Forest) -> float | None:
    """What tonight asks; None of a method that tonight does not ask for, whose rows are not copied."""
    return None if method is None else float(method.threshold(len(forest)))


def survivors(previous: Previous, forest: Forest, name: str) -> Counter[tuple[Key, str]]:
    """Of one earlier shard: recourses given, and how many of them this forest still grants."""
    counts: Counter[tuple[Key, str]] = Counter()
    with previous.run.open_parquet(name) as file:
        for batch in file.iter_batches(16_384):
            table = pa.Table.from_batches([batch])
            given = _mask(
                pc.is_in(table["status"], value_set=pa.array(["optimal", "feasible", "relaxed", "heuristic"]))
            )
            valid = still_valid(forest, table)
            columns = (table[c].to_pylist() for c in ("method", "alpha", "beta", "parameter"))
            for i, key in enumerate(zip(*columns, strict=True)):
                if given[i]:
                    counts[key, "given"] += 1
                    counts[key, "survived"] += int(valid[i])
    return counts
