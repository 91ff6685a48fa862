"""`robustcf sweep`: explain and validate a grid of experiments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from robustcf import Counterfactual, Forest
from robustcf.datasets import Dataset
from robustcf.validate import derive_seed, first_rows

from ..audit.shard import ShardDone
from ..cluster.guard import Stopped, Tick, advance, guarded
from ..cluster.session import refuse_unshared_output, session
from ..cluster.signals import stop_if_asked
from ..cluster.tasks import Tasks, fan_out, shuffled
from ..inputs.config import Grid, SweepConfig, config_hash, methods_of
from ..inputs.datasets import read_dataset
from ..inputs.errors import BadInput, reporting_bad_input
from ..reduce.reduce import reduce_run
from ..report.report import report_run
from ..run.claim import claimed
from ..run.columns import COUNTERFACTUALS, as_table
from ..run.detectors import store_detectors
from ..run.folder import RunFolder
from ..run.forests import store_forest, stored_forest
from ..run.manifest import Journal, check_versions, exit_code, facts_of, finished_shards, new_manifest
from ..run.planned import digest_of, refuse_strays, run_fingerprint, unit_name
from ..run.question import Question, allowance, explainer_for, stopped_answers
from ..run.rows import as_row
from ..terminal.progress import stage
from ..validate.forests import Scenarios, TrainingRows, score_shard, seeds_for, train_again


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


def sweep(
    config: SweepConfig,
    address: str | None = None,
    cpus: int | None = None,
    lenders: Sequence[RunFolder] = (),
    read: Callable[[str], Dataset] | None = None,
    title: str = "",
) -> int:
    """Run or resume a sweep; return the exit code.

    `lenders` are runs of the same design: their first forests are reused. `read` loads a data set.
    `title` names the sweep in progress texts, for sweeps that run in parallel.
    """
    run = RunFolder(config.output)
    run.begun("sweep", config_hash(config))  # refuse another run's folder before any work
    with reporting_bad_input(ValueError):
        data = {d.name: d for d in map(read or read_dataset, config.sweep.datasets)}
    if len(data) < len(config.sweep.datasets):
        raise BadInput("sweep: two data sets have the same name")
    for d in data.values():
        if len(d) < config.sweep.rows + 2 or len(d.classes) != 2:
            raise BadInput(
                f"data set {d.name} has {len(d)} rows and {len(d.classes)} classes; "
                f"a sweep needs at least {config.sweep.rows + 2} rows and exactly 2 classes"
            )
    question = Question(
        tuple(methods_of(config)),
        None,
        config.sweep.voting,
        config.solver.name,
        config.solver.time_limit,
        config.solver.threads,
        config.seed,
        config.solver.memory_limit,
    )
    hashes = {d.name: digest_of([d.schema.fingerprint, _content(d)]) for d in data.values()}
    lenders = tuple(r for r in lenders if (r.manifest() or {}).get("data_hash") == hashes)
    stop_if_asked()
    with claimed(run):
        manifest = run.begun("sweep", config_hash(config))
        if manifest is None:
            manifest = new_manifest("sweep", config) | {"data_hash": hashes}
        else:
            _check_unchanged(run, manifest, hashes)
        with session(address, config.solver.threads, cpus) as ray:
            tasks = Tasks(ray, config.solver, refuse_unshared_output(ray, run, config.shared))
            fingerprint = run_fingerprint(manifest)
            job = SweepJob(run, config.sweep, question, config.seed, lenders, fingerprint)
            return _go(config, run, tasks, job, data, manifest, f"{title}: " if title else "")


def _check_unchanged(run: RunFolder, manifest: dict[str, Any], hashes: dict[str, str]) -> None:
    """Refuse to resume a run with changed inputs or versions."""
    if changed := check_versions(run, manifest):
        manifest["resumed_with"] = changed
    if manifest["data_hash"] != hashes:
        raise BadInput("a data set has changed since this run began; choose another output")


def _content(data: Dataset) -> str:
    import hashlib

    return hashlib.sha256(data.encoded.tobytes() + data.y.tobytes()).hexdigest()


def _go(
    config: SweepConfig,
    run: RunFolder,
    tasks: Tasks,
    job: SweepJob,
    data: dict[str, Dataset],
    manifest: dict[str, Any],
    title: str,
) -> int:
    refuse_strays(run, manifest)
    journal = Journal(run, manifest)
    run.sweep_up()
    units = [
        Unit(name, simulation, n_trees)
        for name in data
        for n_trees in config.sweep.trees
        for simulation in range(config.sweep.simulations)
    ]
    by_shard = {unit.shard: unit for unit in units}
    done = finished_shards(run, journal, "counterfactuals", list(by_shard), tasks)
    scored = finished_shards(run, journal, "validation", list(by_shard), tasks) & done
    if len(scored) < len(units) or manifest["state"] != "complete":
        journal.reopen()
    for d in data.values():
        if not run.exists(f"schema/{d.name}.toml"):
            run.publish(f"schema/{d.name}.toml", d.schema.to_toml().encode())
    refs = {name: tasks.put(d) for name, d in data.items()}
    shared = tasks.put(job)
    forests: dict[Unit, Any] = {}

    def forest_of(unit: Unit) -> Any:
        if unit not in forests:
            forests[unit] = tasks.start(first_forest, shared, refs[unit.dataset], unit)
        return forests[unit]

    missing = shuffled(unit for unit in units if unit.shard not in done)
    with stage(f"{title}explaining", len(missing) * config.sweep.rows) as progress:
        for _, result in fan_out(
            tasks.ray,
            lambda u: tasks.start(explain_unit, shared, refs[u.dataset], forest_of(u), u, solves=True),
            missing,
            tasks.window,
        ):
            journal.note(result.file, **facts_of(result))
            progress.advance(result.customers, result.counts)
    manifest["seeds"] = _seeds(config, units)
    manifest["validation"] = f"measured on {config.validation.forests} forests per scenario"
    left = shuffled(unit for unit in units if unit.shard not in scored)
    with stage(f"{title}validating", len(left)) as progress:
        for unit, (file, rows) in fan_out(
            tasks.ray,
            lambda u: tasks.start(
                validate_unit,
                shared,
                refs[u.dataset],
                forest_of(u),
                u,
                seeds_for(config.seed, config.validation, u.dataset, u.simulation, u.n_trees),
            ),
            left,
            tasks.window,
        ):
            journal.note(file, rows=rows)
            forests.pop(unit, None)
            progress.advance(1)
    counts = journal.count(len(units) * config.sweep.rows * len(job.question.methods))
    reduce_run(run, manifest, tasks)
    manifest["report"] = report_run(run, manifest | {"state": "complete"}, tasks)
    journal.finish()
    return exit_code(counts)


def _seeds(config: SweepConfig, units: Sequence[Unit]) -> dict[str, Any]:
    """Return the seed of each explained forest; the validation seeds are in the rows."""
    return {unit.shard.removesuffix(".parquet"): _forest_seed(config.seed, unit) for unit in units}


def _forest_seed(seed: int, unit: Unit) -> int:
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
        unit.n_trees, max_depth=job.grid.depth, random_state=_forest_seed(job.seed, unit)
    )
    forest = Forest.from_sklearn(model.fit(rows.X[rows.first], rows.y[rows.first]))
    store_forest(job.run, unit.forest, forest)
    return forest


def explain_unit(job: SweepJob, data: Dataset, forest: Forest, unit: Unit) -> ShardDone:
    """Explain the simulation's rows with every method and publish the shard."""
    rows = split(job, data, unit.simulation)
    explainer = explainer_for(job.question, forest, data.schema, (rows.X[rows.first], rows.y[rows.first]))
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
    facts: dict[str, Any] = {"rows": len(made), "customers": len(chosen), "solved": len(chosen), "copied": 0}
    first = rows.X[rows.first], rows.y[rows.first]
    kept = store_detectors(job.run, job.question, forest, *first, unit.shard.removesuffix(".parquet"))
    facts["detectors"] = kept
    note = facts | {"counts": counts, "run": job.fingerprint}
    file = job.run.publish_table(f"counterfactuals/{unit.shard}", as_table(made, COUNTERFACTUALS), note)
    return ShardDone(file, counts=counts, **facts)


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
