"""The stages of a run: begin or resume, plan, explain, validate, summarise, judge, report, finish.

`audit` and `sweep` share this sequence. Each supplies a `Work`: its inputs, its plan, and its tasks for one
shard. To add a stage, write one function here and call it in `_run_stages`.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .cluster.metrics import count_rows
from .cluster.session import refuse_unshared_output, session
from .cluster.signals import stop_if_asked, work_is_kept
from .cluster.tasks import Tasks
from .inputs.config import AuditConfig, SweepConfig, config_as_json, config_hash
from .inputs.errors import BadInput
from .reduce.alarms import compare_with_limits
from .reduce.reduce import reduce_run
from .report.report import report_run
from .run.claim import claimed
from .run.folder import RunFolder
from .run.manifest import (
    Journal,
    ShardDone,
    check_versions,
    exit_code,
    finished_shards,
    new_manifest,
    noted_counts,
)
from .run.planned import planned_shards, refuse_strays
from .terminal.progress import outer_stage, stage


@dataclass(frozen=True)
class Run:
    """A run in progress: what every stage needs."""

    config: AuditConfig | SweepConfig
    folder: RunFolder
    tasks: Tasks
    journal: Journal
    resumed: bool

    @property
    def manifest(self) -> dict[str, Any]:
        return self.journal.manifest

    def refuse_change(self, key: str, value: Any, subject: str) -> None:
        """Store a value in the manifest; refuse to resume if another value is there.

        `subject` begins the error, for example "the training rows have".
        """
        if self.manifest.setdefault(key, value) != value:
            raise _changed(subject)


class Work(ABC):
    """What a command supplies to the driver. The methods are listed in the order of their calls.

    A command may leave out the methods that are not abstract.
    """

    kind: str  # "audit" or "sweep"
    methods: int  # rows per customer
    title: str = ""  # precedes the names of stages; tells apart sweeps that run in parallel
    second_files: tuple[str, ...] = ()  # folders that also hold a file of each complete shard
    validates: bool = True
    previous: str | None = None  # the run that the report compares this one with

    @property
    @abstractmethod
    def inputs(self) -> Mapping[str, tuple[Any, str]]:
        """What the manifest stores about the inputs, as (value, beginning of the error if it changed)."""

    @abstractmethod
    def plan(self, run: Run) -> int:
        """Share the inputs with the tasks, plan the shards, and return the number of customers."""

    def check_rows(self, run: Run) -> None:  # noqa: B027
        """Refuse changed rows before the missing shards of a resumed run are made."""

    def store_inputs(self, run: Run) -> None:  # noqa: B027
        """Store in the run folder what its readers need besides the tables."""

    @abstractmethod
    def explain(self, run: Run, shards: Sequence[str]) -> Iterator[ShardDone]:
        """Make shards of counterfactuals in tasks; yield each when it is published."""

    @abstractmethod
    def about_validation(self, run: Run) -> dict[str, Any]:
        """Return what the manifest says about the validation."""

    def retrain(self, run: Run) -> None:  # noqa: B027
        """Train the forests that all shards share."""

    @abstractmethod
    def validate(self, run: Run, shard: str) -> Any:
        """Start the task that validates one shard; it returns the file and its number of rows."""


def drive(
    config: AuditConfig | SweepConfig,
    kind: str,
    read_inputs: Callable[[], Work],
    address: str | None = None,
    cpus: int | None = None,
) -> int:
    """Start or resume a run; return the exit code."""
    folder = RunFolder(config.output)
    folder.begun(kind, config_hash(config))  # refuse another run's folder before any work
    with outer_stage("reading the inputs"):
        work = read_inputs()
    stop_if_asked()
    with claimed(folder):
        manifest = folder.begun(kind, config_hash(config))
        resumed = manifest is not None
        if manifest is None:
            manifest = new_manifest(kind, config) | {key: value for key, (value, _) in work.inputs.items()}
        else:
            _check_resumable(folder, manifest, work)
            work_is_kept()
        with session(address, config.solver.threads, cpus) as ray:
            tasks = Tasks(ray, config.solver, refuse_unshared_output(ray, folder, config.shared))
            with outer_stage(kind):
                return _run_stages(Run(config, folder, tasks, Journal(folder, manifest), resumed), work)


def _check_resumable(folder: RunFolder, manifest: dict[str, Any], work: Work) -> None:
    """Refuse to resume a run with other inputs or another version of robustcf."""
    if changed := check_versions(folder, manifest):
        manifest["resumed_with"] = changed
    for key, (value, subject) in work.inputs.items():
        if manifest.get(key) != value:
            raise _changed(subject)


def _changed(subject: str) -> BadInput:
    return BadInput(f"{subject} changed since this run began; choose another output")


def _run_stages(run: Run, work: Work) -> int:
    customers = work.plan(run)
    refuse_strays(run.folder, run.manifest)
    to_explain, to_validate = _missing(run, work)
    if to_explain and run.resumed:
        work.check_rows(run)
    if to_explain or to_validate or run.manifest["state"] != "complete":
        run.journal.reopen()
    run.folder.sweep_up()
    work.store_inputs(run)
    _explain(run, work, to_explain, customers)
    _validate(run, work, to_validate)
    counts = run.journal.count(customers * work.methods)
    reduce_run(run.folder, run.manifest, run.tasks)
    alarm = _compare_with_limits(run)
    complete = run.manifest | {"state": "complete"}
    run.manifest["report"] = report_run(run.folder, complete, run.tasks, work.previous)
    run.folder.remove("_work")
    run.journal.finish()
    return exit_code(counts, alarm)


def _compare_with_limits(run: Run) -> str:
    """Return "fail" if a limit of the run is broken; a resumed run has the limits of its config now."""
    run.journal.stop_time()
    if isinstance(run.config, AuditConfig):
        run.manifest["config"]["limits"] = config_as_json(run.config)["limits"]
    return compare_with_limits(run.folder, run.manifest)


def _missing(run: Run, work: Work) -> tuple[list[str], list[str]]:
    """Return the shards to explain and those to validate.

    A shard that is explained again is also validated again.
    """
    wanted = planned_shards(run.manifest)
    done = finished_shards(run.folder, run.journal, "counterfactuals", wanted, run.tasks)
    for name in work.second_files:
        done &= {path.removeprefix(f"{name}/") for path in run.folder.names(name)}
    to_explain = _shuffled(name for name in wanted if name not in done)
    if not work.validates:
        return to_explain, []
    validated = finished_shards(run.folder, run.journal, "validation", wanted, run.tasks) & done
    return to_explain, _shuffled(name for name in wanted if name not in validated)


def _shuffled(names: Iterable[str]) -> list[str]:
    """Return the shards in random order, so that not all last shards are hard."""
    mixed = list(names)
    random.Random(0).shuffle(mixed)
    return mixed


def _explain(run: Run, work: Work, missing: Sequence[str], customers: int) -> None:
    made = {f"counterfactuals/{name}" for name in missing}
    shards = run.manifest["shards"].items()
    finished = sum(noted.get("customers", 0) for name, noted in shards if name not in made)
    with stage(f"{work.title}explaining", customers - finished, "customers") as progress:
        for done in work.explain(run, missing):
            run.journal.note(done.file, **noted_counts(done))
            progress.advance(done.customers, done.counts)
            count_rows(done.counts)


def _validate(run: Run, work: Work, missing: Sequence[str]) -> None:
    run.manifest.update(work.about_validation(run))
    if not missing:
        return
    work.retrain(run)
    with stage(f"{work.title}validating", len(missing), "shards") as progress:
        for _, (file, rows) in run.tasks.each(lambda shard: work.validate(run, shard), missing):
            run.journal.note(file, rows=rows)
            progress.advance(1)
