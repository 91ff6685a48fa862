"""Validation on the cluster: forests trained again in parallel, then every point scored by all of them."""

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
from robustcf.validate import Scenario, build_estimator, derive_seed, retrain, training_rows, validity

from ..cluster.tasks import Tasks
from ..inputs.config import Training, Validation
from ..inputs.errors import BadInput
from ..inputs.tables import read_table
from ..run.folder import KEYS, VALIDATION, Published, RunFolder
from ..run.rows import label_of

BLOCK = 8192  # rows scored at a time
MOST_TRAINING_ROWS_WRONG = 0


@dataclass(frozen=True)
class TrainingRows:
    """Encoded rows and labels; `first` are the positions of those that the explained forest has seen."""

    X: np.ndarray
    y: np.ndarray
    first: np.ndarray


def digests(rows: TrainingRows) -> dict[str, str]:
    """Digests of the rows that the explained forest has seen, and of all rows."""
    return {
        "first": training_digest(rows.X[rows.first], rows.y[rows.first]),
        "all": training_digest(rows.X, rows.y),
    }


@dataclass(frozen=True)
class Scenarios:
    """The forests of each scenario, with their seeds."""

    names: tuple[str, ...]
    seeds: tuple[tuple[int, ...], ...]


def check_trainable(forest: Forest, scenarios: Sequence[str]) -> None:
    """Whether the forest folder says enough to train it again; a `ForestError` if not."""
    for name in scenarios:
        build_estimator(forest.estimator, 0, Scenario.parse(name).n_trees)


def load_training(training: Training, schema: Schema, forest: Forest) -> TrainingRows:
    """The training table as the model takes it (in a task: the rows never pass the driver)."""
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
    """Labels in the forest's own terms, however the table spells them."""
    by_text = {str(label): label for label in forest.classes}
    by_value: dict[Any, Any] = {label: label for label in forest.classes}
    found = []
    for i, value in enumerate(column):
        label = by_value.get(value, by_text.get(str(value)))
        if label is None:
            raise BadInput(f"{address}: training row {i}: label {value!r} is none of {list(forest.classes)}")
        found.append(label)
    return np.array(found)


def seeds_for(run_seed: int, validation: Validation, *unit: str | int) -> Scenarios:
    """Every seed, from the run's one seed."""
    count = range(validation.forests)
    seeds = tuple(
        tuple(derive_seed(run_seed, "validation", *unit, name, k) for k in count)
        for name in validation.scenarios
    )
    return Scenarios(validation.scenarios, seeds)


def train_again(forest: Forest, rows: TrainingRows, scenario: str, seed: int, threads: int) -> Forest:
    """One validation forest."""
    chosen = Scenario.parse(scenario)
    picked = training_rows(chosen, rows.first, rows.y, seed)
    return retrain(forest, rows.X[picked], rows.y[picked], seed, chosen.n_trees, threads)


def all_forests(tasks: Tasks, forest: Any, rows: Any, scenarios: Scenarios) -> Iterator[Any]:
    """References to the forests of every scenario, trained in parallel; (scenario, k, reference)."""
    for s, name in enumerate(scenarios.names):
        for k, seed in enumerate(scenarios.seeds[s]):
            yield s, k, tasks.start(train_again, forest, rows, name, seed, tasks.solver.threads)


def gather(*forests: Forest) -> list[Forest]:
    """Many objects as one, so that a scoring task takes a single argument."""
    return list(forests)


def score_shard(
    run: RunFolder, forests: Sequence[Forest], scenarios: Scenarios, shard: str, fingerprint: str
) -> tuple[Published, int]:
    """Score every point of a shard by all forests, and publish the table."""
    parts = [VALIDATION.empty_table()]
    with run.open_parquet(f"counterfactuals/{shard}") as file:
        for batch in file.iter_batches(BLOCK, columns=[*KEYS, "target", "point"]):
            table = pa.Table.from_batches([batch])
            table = table.filter(table["point"].is_valid())
            if len(table):
                parts += score_table(table, forests, scenarios)
    result = pa.concat_tables(parts)
    note = {"rows": len(result), "run": fingerprint}
    return run.publish_table(f"validation/{shard}", result, note), len(result)


def score_table(table: pa.Table, forests: Sequence[Forest], scenarios: Scenarios) -> list[pa.Table]:
    """The rows of `validation` for rows of `counterfactuals` that have a point, scenario by scenario."""
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
