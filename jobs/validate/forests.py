"""Retrain forests in parallel, and score every point with all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from robustcf import Forest, Schema
from robustcf.methods.answer_key import training_digest
from robustcf.schema.encode import encode, read_rows
from robustcf.validate import (
    Scenario,
    build_estimator,
    check_scenario,
    derive_seed,
    retrain,
    training_rows,
    validity,
)

from ..cluster.tasks import Tasks
from ..inputs.config import Training, Validation
from ..inputs.errors import BadInput
from ..inputs.tables import read_table
from ..run.columns import KEYS, VALIDATION
from ..run.folder import Published, RunFolder
from ..run.reader import read_blocks
from ..run.rows import label_of

BLOCK = 8192  # rows scored at a time
MOST_TRAINING_ROWS_WRONG = 0


@dataclass(frozen=True)
class TrainingRows:
    """Encoded rows and labels.

    `first` holds the positions of the explained forest's training rows.
    """

    X: np.ndarray
    y: np.ndarray
    first: np.ndarray


def digests(rows: TrainingRows) -> dict[str, str]:
    """Return digests of the explained forest's training rows and of all rows."""
    return {
        "first": training_digest(rows.X[rows.first], rows.y[rows.first]),
        "all": training_digest(rows.X, rows.y),
    }


@dataclass(frozen=True)
class Scenarios:
    """The scenarios and the seeds of their forests."""

    names: tuple[str, ...]
    seeds: tuple[tuple[int, ...], ...]


def check_trainable(forest: Forest, scenarios: Sequence[str]) -> None:
    """Raise a `ForestError` if the forest lacks what is needed to retrain it."""
    for name in scenarios:
        build_estimator(forest.estimator, 0, Scenario.parse(name).n_trees)
        check_scenario(forest, name)


def load_training(training: Training, schema: Schema, forest: Forest) -> TrainingRows:
    """Read and encode the training table.

    It runs in a task, so that the driver never holds the rows.
    """
    X, y = _encoded(training.data, training.label, schema, forest)
    first = np.arange(len(y))
    if training.later is not None:
        more, labels = _encoded(training.later, training.label, schema, forest)
        X, y = np.vstack([X, more]), np.concatenate([y, labels])
    return TrainingRows(X, y, first)


def _encoded(address: str, label: str, schema: Schema, forest: Forest) -> tuple[np.ndarray, np.ndarray]:
    table = read_table(address, [label, *(n for n in schema.names if n != label)])
    if label in schema.names:
        raise BadInput(f"training: the label {label!r} is a feature of the schema")
    read = read_rows(schema, table.select(list(schema.names)).to_pandas(), missing=forest.accepts_missing)
    for i, reason in enumerate(read.reasons):
        if reason is not None:
            raise BadInput(f"{address}: training row {i}: {reason}")
    return encode(schema, read.numbers), _labels(table[label].to_pandas(), forest, address)


def _labels(column: pd.Series, forest: Forest, address: str) -> np.ndarray:
    """Return the labels as the forest's class labels, compared by value or by text."""
    by_text = {str(label): label for label in forest.classes}
    by_value: dict[Any, Any] = {label: label for label in forest.classes}
    found = []
    for i, value in enumerate(column):
        label = by_value.get(value, by_text.get(str(value)))
        if label is None:
            raise BadInput(
                f"{address}: training row {i}: label {value!r} is not one of {list(forest.classes)}"
            )
        found.append(label)
    return np.array(found)


def seeds_for(
    run_seed: int, validation: Validation, *unit: str | int, purpose: str = "validation"
) -> Scenarios:
    """Derive the seeds of all retrained forests from the run's seed; each purpose has its own."""
    count = range(validation.forests)
    seeds = tuple(
        tuple(derive_seed(run_seed, purpose, *unit, name, k) for k in count) for name in validation.scenarios
    )
    return Scenarios(validation.scenarios, seeds)


def train_again(forest: Forest, rows: TrainingRows, scenario: str, seed: int, threads: int) -> Forest:
    """Train one validation forest."""
    chosen = Scenario.parse(scenario)
    picked = training_rows(chosen, rows.first, rows.y, seed)
    return retrain(forest, rows.X[picked], rows.y[picked], seed, chosen.n_trees, threads)


def all_forests(tasks: Tasks, forest: Any, rows: Any, scenarios: Scenarios) -> Iterator[Any]:
    """Start training the forests of all scenarios; yield (scenario, k, reference)."""
    for s, name in enumerate(scenarios.names):
        for k, seed in enumerate(scenarios.seeds[s]):
            yield s, k, tasks.start(train_again, forest, rows, name, seed, tasks.solver.threads)


def gather(*forests: Forest) -> list[Forest]:
    """Return the forests as one list, so that a scoring task takes a single argument."""
    return list(forests)


def score_shard(
    run: RunFolder, forests: Sequence[Forest], scenarios: Scenarios, shard: str, fingerprint: str
) -> tuple[Published, int]:
    """Score every point of a shard with all forests and publish the table."""
    parts = [VALIDATION.empty_table()]
    for block in read_blocks(
        run, "counterfactuals", shard, [*KEYS, "target", "point"], BLOCK, alternatives=True
    ):
        table = block.filter(block["point"].is_valid())
        if len(table):
            parts += score_table(table, forests, scenarios)
    result = pa.concat_tables(parts)
    note = {"rows": len(result), "run": fingerprint}
    return run.publish_table(f"validation/{shard}", result, note), len(result)


def score_table(table: pa.Table, forests: Sequence[Forest], scenarios: Scenarios) -> list[pa.Table]:
    """Return one `validation` table per scenario for rows that have a point."""
    points = np.array(table["point"].to_pylist(), dtype=np.float64)
    targets = [label_of(forests[0], text) for text in table["target"].to_pylist()]
    votings = np.array(table["voting"].to_pylist())
    found = []
    start = 0
    for name, seeds in zip(scenarios.names, scenarios.seeds, strict=True):
        own = forests[start : start + len(seeds)]
        start += len(seeds)
        valid = np.zeros((len(points), len(seeds)), dtype=bool)
        for voting in np.unique(votings):
            rows = np.flatnonzero(votings == voting)
            valid[rows] = validity(own, points[rows], [targets[i] for i in rows], voting)
        columns = {key: table[key] for key in KEYS} | {
            "scenario": pa.array([name] * len(table), pa.string()),
            "seeds": pa.array([list(seeds)] * len(table), VALIDATION.field("seeds").type),
            "valid": pa.array(list(valid), VALIDATION.field("valid").type),
        }
        found.append(pa.table(columns, schema=VALIDATION))
    return found
