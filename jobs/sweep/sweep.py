"""`robustcf sweep`: explain and validate a grid of experiments."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from robustcf.datasets import Dataset
from robustcf.methods.joint import joint_tests

from ..driver import Run, Work, drive
from ..inputs.config import SweepConfig
from ..inputs.datasets import read_dataset
from ..inputs.errors import BadInput, reporting_bad_input
from ..inputs.method_tables import check_forest, check_tests, methods_of, settled_methods
from ..run.folder import RunFolder
from ..run.manifest import ShardDone
from ..run.planned import digest_of, run_fingerprint
from ..run.question import Question
from ..validate.forests import seeds_for
from .cut import Cut
from .simulations import Simulations
from .unit import SweepJob, Unit, bundles_of, first_forest, forest_seed, score_unit, train_unit


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
    read_inputs = partial(_read_inputs, config, tuple(lenders), read or read_dataset, title)
    return drive(config, "sweep", read_inputs, address, cpus)


def _read_inputs(
    config: SweepConfig, lenders: tuple[RunFolder, ...], read: Callable[[str], Dataset], title: str
) -> SweepWork:
    """Read the data sets and check them."""
    with reporting_bad_input(ValueError):
        data = {d.name: d for d in map(read, config.sweep.datasets)}
    if len(data) < len(config.sweep.datasets):
        raise BadInput("sweep: two data sets have the same name")
    for d in data.values():
        if len(d) < config.sweep.rows + 2 or len(d.classes) != 2:
            raise BadInput(
                f"data set {d.name} has {len(d)} rows and {len(d.classes)} classes; "
                f"a sweep needs at least {config.sweep.rows + 2} rows and exactly 2 classes"
            )
    work = SweepWork(config, data, lenders, title)
    check_forest(work.question.methods, config.sweep.voting, n_classes=2)
    asked, rows = work.question.methods, len(work.units) * config.sweep.rows
    check_tests(asked, rows, "explained rows")
    work.joint_tests = joint_tests(asked, rows)
    settled = settled_methods(asked, rows, "explained rows", config.sweep.voting, n_classes=2)
    work.question = replace(work.question, methods=settled)
    return work


class SweepWork(Work):
    """One sweep. Attributes that end in `_ref` or `_refs` are references to values on the cluster."""

    kind = "sweep"

    def __init__(
        self, config: SweepConfig, data: dict[str, Dataset], lenders: tuple[RunFolder, ...], title: str
    ) -> None:
        self.config, self.data = config, data
        self.title = f"{title}: " if title else ""
        self.question = Question(
            tuple(methods_of(config)),
            None,
            config.sweep.voting,
            config.solver.name,
            config.solver.time_limit,
            config.solver.threads,
            config.seed,
            config.solver.memory_limit,
        )
        self.methods = len(self.question.methods)
        self.hashes = {d.name: digest_of([d.schema.fingerprint, _content(d)]) for d in data.values()}
        self.lenders = tuple(r for r in lenders if (r.manifest() or {}).get("data_hash") == self.hashes)
        self.units = {
            unit.shard: unit
            for name in data
            for n_trees in config.sweep.trees
            for simulation in range(config.sweep.simulations)
            for unit in [Unit(name, simulation, n_trees)]
        }
        self.joint_tests: int | None = None

    @property
    def inputs(self) -> Mapping[str, tuple[Any, str]]:
        return {"data_hash": (self.hashes, "a data set has")}

    def plan(self, run: Run) -> int:
        self.data_refs = {name: run.tasks.put(d) for name, d in self.data.items()}
        if self.joint_tests is not None:
            run.refuse_change("joint_tests", self.joint_tests, "the number of joint certificates has")
        fingerprint = run_fingerprint(run.manifest)
        job = SweepJob(
            run.folder, self.config.sweep, self.question, self.config.seed, self.lenders, fingerprint
        )
        self.job_ref = run.tasks.put(job)
        return len(self.units) * self.config.sweep.rows

    def store_inputs(self, run: Run) -> None:
        for d in self.data.values():
            if not run.folder.exists(f"schema/{d.name}.toml"):
                run.folder.publish(f"schema/{d.name}.toml", d.schema.to_toml().encode())

    def explain(self, run: Run, shards: Sequence[str]) -> Iterator[ShardDone]:
        """Solve the parts of the simulations as tasks; publish a simulation when all its parts are solved."""
        groups = {
            self.units[shard]: (self.units[shard].dataset, self.units[shard].n_trees) for shard in shards
        }
        bundles = len(bundles_of(self.question.methods))
        cut = Cut(groups, self.config.sweep.rows, bundles, lambda: run.tasks.capacity.at_once)
        yield from Simulations(run.tasks, cut, self.job_ref, self.data_refs, self.question).run()

    def about_validation(self, run: Run) -> dict[str, Any]:
        """Name the seed of each explained forest; the validation seeds are in the rows."""
        return {
            "seeds": {
                shard.removesuffix(".parquet"): forest_seed(self.config.seed, unit)
                for shard, unit in self.units.items()
            },
            "validation": f"measured on {self.config.validation.forests} forests per scenario",
        }

    def validate(self, run: Run, shard: str) -> Any:
        """Train each validation forest in its own task, and score the points when all are there."""
        unit, start = self.units[shard], run.tasks.start
        forest = start(first_forest, *self._shared(unit), unit)
        own = (unit.dataset, unit.simulation, unit.n_trees)
        scenarios = seeds_for(self.config.seed, self.config.validation, *own)
        trained = [
            start(train_unit, *self._shared(unit), forest, unit, name, seed)
            for name, seeds in zip(scenarios.names, scenarios.seeds, strict=True)
            for seed in seeds
        ]
        return start(score_unit, self.job_ref, unit, scenarios, *trained)

    def _shared(self, unit: Unit) -> tuple[Any, Any]:
        return self.job_ref, self.data_refs[unit.dataset]


def _content(data: Dataset) -> str:
    return hashlib.sha256(data.encoded.tobytes() + data.y.tobytes()).hexdigest()
