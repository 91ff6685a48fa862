"""The tasks of a sweep: one simulation on one data set with one forest size."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from robustcf import Counterfactual, Forest, FreshForests, train_fresh
from robustcf.datasets import Dataset
from robustcf.validate import derive_seed, first_rows

from ..cluster.guard import Stopped, Tick, advance, guarded
from ..inputs.config import Grid
from ..run.columns import COUNTERFACTUALS, as_table
from ..run.detectors import store_detectors
from ..run.folder import RunFolder
from ..run.forests import store_forest, stored_forest
from ..run.fresh import designs_of
from ..run.manifest import ShardDone
from ..run.planned import unit_name
from ..run.question import Question, allowance, explainer_for, stopped_answers
from ..run.rows import as_row
from ..validate.forests import Scenarios, TrainingRows, score_shard, train_again


@dataclass(frozen=True)
class Unit:
    """One simulation on one data set with one forest size: one piece of work."""

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


def fresh_of(job: SweepJob, forest: Forest, rows: TrainingRows, unit: Unit) -> list[FreshForests]:
    """Train the fresh forests of a simulation's certificates."""
    seed = derive_seed(job.seed, "fresh", unit.dataset, unit.simulation, unit.n_trees)
    return [
        train_fresh(forest, rows.X, rows.y, design, first=rows.first, seed=seed, threads=job.question.threads)
        for design in designs_of(job.question)
    ]


def explain_unit(job: SweepJob, data: Dataset, forest: Forest, unit: Unit) -> ShardDone:
    """Explain the simulation's rows with every method and publish the shard."""
    rows = split(job, data, unit.simulation)
    fresh = fresh_of(job, forest, rows, unit)
    first = rows.X[rows.first], rows.y[rows.first]
    explainer = explainer_for(job.question, forest, data.schema, first, fresh=fresh)
    chosen = explained_rows(job.seed, data, job.grid.rows, unit.simulation)

    def solve(batch: list[int], tick: Tick) -> list[Counterfactual]:
        return explainer.explain_many(data.X.iloc[chosen[batch]], partial(advance, tick, range(len(batch))))

    limits = allowance(job.question, len(explainer.methods))
    made = [
        as_row(
            cf,
            data.schema,
            dataset=data.name,
            simulation=unit.simulation,
            instance_id=str(chosen[part[cf.row]]),
            cohort={},
            voting=job.question.voting,
            n_trees=len(forest),
        )
        for part, found in guarded(solve, [range(len(chosen))], limits)
        for cf in (
            stopped_answers(explainer, data.X.iloc[chosen[part]], found)
            if isinstance(found, Stopped)
            else found
        )
    ]
    counts = dict(sorted(Counter(row["status"] for row in made).items()))
    noted: dict[str, Any] = {"rows": len(made), "customers": len(chosen), "solved": len(chosen), "copied": 0}
    kept = store_detectors(job.run, job.question, forest, *first, unit.shard.removesuffix(".parquet"))
    noted |= {"detectors": kept, "fresh": "-".join(one.fingerprint for one in fresh)}
    note = noted | {"counts": counts, "run": job.fingerprint}
    file = job.run.publish_table(f"counterfactuals/{unit.shard}", as_table(made, COUNTERFACTUALS), note)
    return ShardDone(file, counts=counts, **noted)


def validate_unit(
    job: SweepJob, data: Dataset, forest: Forest, unit: Unit, scenarios: Scenarios
) -> tuple[Any, int]:
    """Train the simulation's validation forests and score its points."""
    rows = split(job, data, unit.simulation)
    forests = [
        train_again(forest, rows, name, seed, job.question.threads)
        for name, seeds in zip(scenarios.names, scenarios.seeds, strict=True)
        for seed in seeds
    ]
    return score_shard(job.run, forests, scenarios, unit.shard, job.fingerprint)
