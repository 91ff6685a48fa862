"""`robustcf validate`: check points made by any tool on retrained forests."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from robustcf import Forest
from robustcf.assess import assess_encoded
from robustcf.forest.decision import rule_of
from robustcf.forest.forest import Label, Voting
from robustcf.methods.thresholds import DirectSAA
from robustcf.schema.encode import encode, read_rows
from robustcf.stats import wilson
from robustcf.thresholds import miss_probability
from robustcf.validate import validity

from ..cluster.session import session
from ..cluster.tasks import Tasks
from ..inputs.config import SolverChoice, Training, Validation
from ..inputs.errors import BadInput, reporting_bad_input
from ..inputs.model_file import read_schema
from ..inputs.tables import read_table
from ..inputs.uri import parent_of
from ..run.folder import RunFolder
from ..run.forests import open_forest
from ..run.fresh import check_training_rows
from ..run.rows import label_of
from ..run.spreadsheet import csv_bytes
from ..terminal.progress import stage
from .certify import CERTIFICATE_COLUMNS, Certifying, fingerprints_of, refuse_equal
from .forests import Scenarios, all_forests, check_trainable, gather, load_training, seeds_for

POINTS = pa.schema(
    [
        ("point", pa.string()),
        ("reason", pa.string()),
        ("target", pa.string()),
        ("flips", pa.bool_()),
        ("score", pa.float64()),
        ("alpha", pa.float64()),
        ("cutoff", pa.float64()),
        ("threshold", pa.float64()),
        ("reaches", pa.bool_()),
        pa.field(
            "least_alpha", pa.float64(), metadata={"meaning": "least α whose Direct-SAA threshold is met"}
        ),
        pa.field("predicted_validity", pa.float64(), metadata={"kind": "optimistic in-sample estimate"}),
        ("scenario", pa.string()),
        ("validity", pa.float64()),
        ("validity_low", pa.float64()),
        ("validity_high", pa.float64()),
        ("seeds", pa.list_(pa.int64())),
        ("valid", pa.list_(pa.bool_())),
    ]
)


@dataclass(frozen=True)
class PointsRequest:
    """The options of `robustcf validate`."""

    points: str
    forest: str
    schema: str
    target: str
    output: str
    id: str | None
    alpha: float
    voting: Voting
    training: Training | None
    validation: Validation
    seed: int
    threads: int
    certifying: Certifying | None = None
    cutoff: float | None = None
    score_of: str | None = None
    decision: str | None = None

    @property
    def scenarios(self) -> Scenarios:
        """The seeds of the forests to train: certification forests, or validation forests."""
        purpose = "validation" if self.certifying is None else "certify"
        return seeds_for(self.seed, self.validation, purpose=purpose)


def validate_points(request: PointsRequest, address: str | None = None) -> tuple[pa.Table, list[str]]:
    """Compute each point's threshold test, predicted and measured validity, and certificate.

    Write the table. Return it, and what its certificates claim.
    """
    if not parent_of(request.output)[1].lower().endswith((".parquet", ".csv")):
        raise BadInput(f"{request.output}: the output name must end in .parquet or .csv")
    with reporting_bad_input(ValueError):
        forest, schema = open_forest(request.forest), read_schema(request.schema)
        target = label_of(forest, request.target)
        named = None if request.score_of is None else label_of(forest, request.score_of)
        forest = forest.deciding(target, request.cutoff, named, rule_of(request.decision))
        method = DirectSAA(request.alpha)
        if request.training is not None:
            check_trainable(forest, request.validation.scenarios)
        if request.certifying is not None:
            request.certifying.check(request.validation)
    names = list(schema.names) if request.id is None else [request.id, *schema.names]
    table = read_table(request.points, names)
    ids = [str(v) for v in (range(len(table)) if request.id is None else table[request.id].to_pylist())]
    read = read_rows(schema, table.select(list(schema.names)).to_pandas(), missing=forest.accepts_missing)
    usable = np.flatnonzero([reason is None for reason in read.reasons])
    points = encode(schema, read.numbers[usable])
    certifying = request.certifying
    if certifying is not None:
        certifying = certifying.settled(len(points), request.validation)
    measured: list[tuple[str | None, Sequence[int], np.ndarray]] = [(None, (), np.zeros((len(points), 0)))]
    if request.training is not None:
        with session(address, request.threads) as ray:
            tasks = Tasks(ray, SolverChoice(threads=request.threads))
            measured = _measured(tasks, request, request.training, schema, forest, points, target)
    scores = _scored(forest, points, target, request.voting, method)
    rows: list[dict[str, Any]] = []
    position = {int(i): k for k, i in enumerate(usable)}
    for i, reason in enumerate(read.reasons):
        head = {"point": ids[i], "reason": reason, "target": str(target)}
        if reason is not None:
            rows.append(head)
            continue
        for name, seeds, valid in measured:
            row = head | scores[position[i]] | _measure(name, seeds, valid[position[i]])
            if certifying is not None:
                row |= certifying.columns(valid[position[i]])
            rows.append(row)
    columns = POINTS if certifying is None else pa.schema([*POINTS, *CERTIFICATE_COLUMNS])
    result = pa.Table.from_pylist(rows, columns)
    _write(request.output, result)
    claims = [] if certifying is None else certifying.claims(result, len(forest))
    return result, claims


def _measured(
    tasks: Tasks,
    request: PointsRequest,
    training: Training,
    schema: Any,
    forest: Forest,
    points: np.ndarray,
    target: Label,
) -> list[tuple[str | None, Sequence[int], np.ndarray]]:
    scenarios = request.scenarios
    shared = tasks.put(forest)
    rows = tasks.start(load_training, training, schema, shared)
    if request.certifying is not None:
        check = tasks.start(check_training_rows, shared, rows, request.threads, True)
        if warning := tasks.result(check):
            print(f"robustcf: {warning}", file=sys.stderr, flush=True)
    with stage("retraining", sum(map(len, scenarios.seeds))) as progress:
        refs = [ref for _, _, ref in all_forests(tasks, shared, rows, scenarios)]
        for _ in tasks.wait(refs):
            progress.advance(1)
    forests = tasks.start(gather, *refs)
    if request.certifying is not None:
        refuse_equal(scenarios, tasks.result(tasks.start(fingerprints_of, forests)))
    blocks = [(start, points[start : start + 65_536]) for start in range(0, len(points), 65_536)]
    valid = np.zeros((len(points), sum(map(len, scenarios.seeds))), dtype=bool)
    calls = ((forests, block, target, request.voting, start) for start, block in blocks)
    for call, part in tasks.run(_score, calls):
        valid[call[-1] : call[-1] + len(part)] = part
    return _by_scenario(scenarios, valid)


def _score(forests: list[Forest], points: np.ndarray, target: Label, voting: Voting, _: int) -> np.ndarray:
    return validity(forests, points, [target] * len(points), voting)


def _by_scenario(
    scenarios: Scenarios, valid: np.ndarray
) -> list[tuple[str | None, Sequence[int], np.ndarray]]:
    found: list[tuple[str | None, Sequence[int], np.ndarray]] = []
    start = 0
    for name, seeds in zip(scenarios.names, scenarios.seeds, strict=True):
        found.append((name, seeds, valid[:, start : start + len(seeds)]))
        start += len(seeds)
    return found


def _scored(
    forest: Forest, points: np.ndarray, target: Label, voting: Voting, method: DirectSAA
) -> list[dict[str, Any]]:
    """Return each point's columns that need only the explained forest."""
    found = assess_encoded(forest, points, [target] * len(points), [method], voting)
    (passes,) = (values for name, values in found.items() if name.startswith("passes "))
    cutoff = forest.cutoff(target)
    least = miss_probability(len(forest), np.clip(found["score"], 0.0, 1.0), cutoff)
    return [
        {
            "flips": bool(found["valid_now"][k]),
            "score": float(found["score"][k]),
            "alpha": method.alpha,
            "cutoff": None if forest.by_plurality else cutoff.score,
            "threshold": method.threshold(len(forest), cutoff),
            "reaches": bool(passes[k]),
            "least_alpha": float(least[k]),
            "predicted_validity": float(found["predicted"][k]),
        }
        for k in range(len(points))
    ]


def _measure(name: str | None, seeds: Sequence[int], valid: np.ndarray) -> dict[str, Any]:
    if name is None:
        return {}
    low, high = wilson(int(valid.sum()), len(valid))
    return {
        "scenario": name,
        "validity": float(valid.mean()),
        "validity_low": low,
        "validity_high": high,
        "seeds": list(seeds),
        "valid": [bool(v) for v in valid],
    }


def _write(output: str, table: pa.Table) -> None:
    folder, name = parent_of(output)
    run = RunFolder(folder)
    if name.lower().endswith(".csv"):
        run.publish(name, csv_bytes(table.drop_columns(["seeds", "valid"])))
    else:
        run.publish_table(name, table)
