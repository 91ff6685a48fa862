"""The tasks of a sweep. A unit is one simulation on one data set with one forest size."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

from robustcf import Counterfactual, Explainer, Forest, FreshForests, train_fresh
from robustcf.datasets import Dataset
from robustcf.methods.base import Method
from robustcf.validate import derive_seed, first_rows

from ..cluster.guard import Stopped, Tick, advance, guarded
from ..cluster.metrics import observe_solving
from ..inputs.config import Grid
from ..run.columns import COUNTERFACTUALS, as_table
from ..run.detectors import store_detectors
from ..run.folder import RunFolder
from ..run.forests import store_forest, stored_forest
from ..run.fresh import designs_of
from ..run.manifest import ShardDone, shard_log
from ..run.planned import unit_name
from ..run.question import Question, allowance, explainer_for, stopped_answers
from ..run.rows import as_row
from ..validate.forests import Scenarios, TrainingRows, score_shard, train_again
from .cut import Part

MOST_TOGETHER = 12  # thresholds solved together; twice as many in two parts take about a tenth more CPU time


@dataclass(frozen=True)
class Unit:
    """One simulation on one data set with one forest size; its rows are one shard."""

    dataset: str
    simulation: int
    n_trees: int

    @property
    def shard(self) -> str:
        return f"{unit_name(self.dataset, self.n_trees, self.simulation)}.parquet"

    @property
    def forest(self) -> str:
        return f"forest/{unit_name(self.dataset, self.n_trees, self.simulation)}"


@dataclass(frozen=True)
class SweepJob:
    """The values that every task of a sweep needs."""

    run: RunFolder
    grid: Grid
    question: Question
    seed: int
    lenders: tuple[RunFolder, ...] = ()
    fingerprint: str = ""  # of the run, see `run_fingerprint`


def forest_seed(seed: int, unit: Unit) -> int:
    return derive_seed(seed, "forest", unit.dataset, unit.simulation, unit.n_trees)


def explained_rows(seed: int, data: Dataset, rows: int, simulation: int) -> np.ndarray:
    """Return the held-out rows to explain, equal for all methods and forest sizes."""
    rng = np.random.default_rng(derive_seed(seed, "rows", data.name, simulation))
    return np.sort(rng.choice(len(data), rows, replace=False))


def split(job: SweepJob, data: Dataset, simulation: int) -> TrainingRows:
    """Return the training rows and those of the first forest.

    They are all rows but the explained ones.
    """
    others = np.setdiff1d(np.arange(len(data)), explained_rows(job.seed, data, job.grid.rows, simulation))
    seed = derive_seed(job.seed, "first", data.name, simulation)
    first = first_rows(len(others), job.grid.first_share, seed)
    return TrainingRows(data.encoded[others], data.y[others], first)


def first_forest(job: SweepJob, data: Dataset, unit: Unit) -> Forest:
    """Load or train the explained forest, and store it in the run folder."""
    stored = stored_forest(job.run, unit.forest)
    if stored is not None:
        return stored
    for lender in job.lenders:
        lent = stored_forest(lender, unit.forest)
        if lent is not None:
            store_forest(job.run, unit.forest, lent)
            return lent
    rows = split(job, data, unit.simulation)
    model = RandomForestClassifier(
        unit.n_trees, max_depth=job.grid.depth, random_state=forest_seed(job.seed, unit)
    )
    forest = Forest.from_sklearn(model.fit(rows.X[rows.first], rows.y[rows.first]))
    store_forest(job.run, unit.forest, forest)
    return forest


def bundles_of(methods: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return the positions of the methods that are solved together for a row.

    They are the methods of one family, because these share bounds. A family of many thresholds is divided
    into parts of similar thresholds, so that no row takes too long in one task. The config alone decides
    this.

    >>> from robustcf.methods import DirectSAA, Naive, RobX
    >>> bundles_of([Naive(), RobX(), DirectSAA(0.1)])
    [(0, 2), (1,)]
    """
    families: dict[Any, list[int]] = {}
    for position, method in enumerate(methods):
        families.setdefault(method.family_key(), []).append(position)
    bundles = []
    for members in families.values():
        parts = 1
        if type(methods[members[0]]).family_key is Method.family_key:  # a family of thresholds alone
            members = sorted(members, key=lambda j: (methods[j].threshold(100), j))
            parts = -(-len(members) // MOST_TOGETHER)
        bundles += [tuple(sorted(int(j) for j in part)) for part in np.array_split(members, parts)]
    return bundles


def fresh_of(job: SweepJob, data: Dataset, forest: Forest, unit: Unit) -> list[FreshForests]:
    """Train the fresh forests of a simulation's certificates."""
    rows = split(job, data, unit.simulation)
    seed = derive_seed(job.seed, "fresh", unit.dataset, unit.simulation, unit.n_trees)
    return [
        train_fresh(forest, rows.X, rows.y, design, first=rows.first, seed=seed, threads=job.question.threads)
        for design in designs_of(job.question)
    ]


@dataclass(frozen=True)
class PartDone:
    """The answers of a part: the rows of the table by (row, method), and the seconds of each bundle."""

    rows: dict[tuple[int, int], dict[str, Any]]
    seconds: list[float]


def explain_part(
    job: SweepJob, data: Dataset, forest: Forest, fresh: Sequence[FreshForests], part: Part
) -> PartDone:
    """Explain some rows of a simulation with some bundles of methods."""
    unit: Unit = part.unit
    training = split(job, data, unit.simulation)
    first = training.X[training.first], training.y[training.first]
    chosen = explained_rows(job.seed, data, job.grid.rows, unit.simulation)
    found: dict[tuple[int, int], dict[str, Any]] = {}
    seconds = []
    bundles = bundles_of(job.question.methods)
    for members in (bundles[b] for b in part.bundles):
        begin = time.perf_counter()
        methods = [job.question.methods[j] for j in members]
        explainer = explainer_for(job.question, forest, data.schema, first, methods, fresh=fresh)
        for row, answers in _solved(job, explainer, data.X.iloc[chosen], part.rows):
            for j, cf in zip(members, answers, strict=True):
                found[row, j] = as_row(
                    cf,
                    data.schema,
                    dataset=data.name,
                    simulation=unit.simulation,
                    instance_id=str(chosen[row]),
                    cohort={},
                    voting=job.question.voting,
                    n_trees=len(forest),
                )
        seconds.append(time.perf_counter() - begin)
    observe_solving([row["seconds"] for row in found.values() if row["seconds"]])
    return PartDone(found, seconds)


def _solved(
    job: SweepJob, explainer: Explainer, frame: pd.DataFrame, rows: Sequence[int]
) -> Iterator[tuple[int, list[Counterfactual]]]:
    """Yield each row with its answers, one per method."""

    def solve(batch: list[int], tick: Tick) -> list[Counterfactual]:
        return explainer.explain_many(frame.iloc[batch], partial(advance, tick, range(len(batch))))

    methods = len(explainer.methods)
    for some, found in guarded(solve, [rows], allowance(job.question, explainer.methods)):
        if isinstance(found, Stopped):
            found = stopped_answers(explainer, frame.iloc[some], found)
        for at, row in enumerate(some):
            yield row, found[at * methods : (at + 1) * methods]


def publish_unit(
    job: SweepJob, data: Dataset, forest: Forest, fresh: Sequence[FreshForests], unit: Unit, *parts: PartDone
) -> ShardDone:
    """Publish the shard of a simulation, in the order of its rows and methods, however it was cut."""
    begin = time.time() - sum(sum(part.seconds) for part in parts)
    found = {at: row for part in parts for at, row in part.rows.items()}
    made = [found[at] for at in sorted(found)]
    counts = dict(sorted(Counter(row["status"] for row in made).items()))
    customers = job.grid.rows
    noted: dict[str, Any] = {"rows": len(made), "customers": customers, "solved": customers, "copied": 0}
    rows = split(job, data, unit.simulation)
    first = rows.X[rows.first], rows.y[rows.first]
    kept = store_detectors(job.run, job.question, forest, *first, unit.shard.removesuffix(".parquet"))
    noted |= {"detectors": kept, "fresh": "-".join(one.fingerprint for one in fresh)}
    spent = np.zeros(customers)
    for (row, _), values in found.items():
        spent[row] += values["seconds"] or 0.0
    ids = [str(i) for i in explained_rows(job.seed, data, customers, unit.simulation)]
    noted["log"] = shard_log(begin, [f"{unit.shard.removesuffix('.parquet')}:{i}" for i in ids], spent)
    note = noted | {"counts": counts, "run": job.fingerprint}
    file = job.run.publish_table(f"counterfactuals/{unit.shard}", as_table(made, COUNTERFACTUALS), note)
    return ShardDone(file, counts=counts, **noted)


def train_unit(job: SweepJob, data: Dataset, forest: Forest, unit: Unit, scenario: str, seed: int) -> Forest:
    """Train one validation forest of a simulation."""
    rows = split(job, data, unit.simulation)
    return train_again(forest, rows, scenario, seed, job.question.threads)


def score_unit(job: SweepJob, unit: Unit, scenarios: Scenarios, *forests: Forest) -> tuple[Any, int]:
    """Score the points of a simulation with its validation forests."""
    return score_shard(job.run, forests, scenarios, unit.shard, job.fingerprint)
