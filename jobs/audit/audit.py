"""`robustcf audit`: explain every customer of a table with one forest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from robustcf import Explainer, Forest, Schema
from robustcf.methods.alternatives import Levers
from robustcf.methods.base import refuse_dependent_trees
from robustcf.methods.joint import joint_tests

from ..cluster.session import cpus_of
from ..driver import Run, Work, drive
from ..inputs.config import AuditConfig
from ..inputs.errors import BadInput, reporting_bad_input
from ..inputs.method_tables import (
    check_certificates,
    check_forest,
    check_tests,
    methods_of,
    settled_methods,
)
from ..inputs.model_file import ModelFile, model_and_schema
from ..inputs.secrets import without_secrets
from ..inputs.tables import Plan, plan_table
from ..run.detectors import store_from, uses_isolation
from ..run.forests import store_forest
from ..run.fresh import designs_of
from ..run.manifest import ShardDone
from ..run.planned import run_fingerprint, shard_name
from ..run.previous import Previous, open_previous
from ..run.question import Question
from ..terminal.progress import stage, warn
from ..validate.forests import (
    all_forests,
    check_trainable,
    digests,
    gather,
    load_training,
    score_shard,
    seeds_for,
)
from .certify import train_fresh_forests
from .pilot import MOST, pilot
from .plan import FirstPass
from .ranges import RangeFile
from .scan import columns_of
from .shard import AuditJob, explain_shard, load_solver
from .survival import not_copied, survival

NOTHING_COMPARED = "nothing was copied and no earlier recourse was tested"


def audit(config: AuditConfig, address: str | None = None, cpus: int | None = None) -> int:
    """Start or resume an audit; return the exit code."""
    return drive(config, "audit", partial(_read_inputs, config), address, cpus)


def _read_inputs(config: AuditConfig) -> AuditWork:
    """Read the model, its schema and the head of the customer table, and check them."""
    with reporting_bad_input(ValueError):
        forest, schema, file = model_and_schema(config.model, config.training)
        question = Question(
            tuple(methods_of(config)),
            forest.classes[forest.class_index(config.model.favourable)],
            config.model.voting,
            config.solver.name,
            config.solver.time_limit,
            config.solver.threads,
            config.seed,
            config.solver.memory_limit,
            config.alternatives,
            tuple(config.levers.items()),
        )
        Levers.of(schema, config.levers)
        _check(config, question, forest, schema)
        previous = config.previous and open_previous(
            config.previous,
            schema,
            [str(label) for label in forest.classes],
            config.solver.time_limit,
            config.keep_valid,
        )
    if isinstance(previous, str) and previous:
        warn(f"{without_secrets(str(config.previous))}: {previous}; {NOTHING_COMPARED}")
    table = plan_table(config.customers.data, columns_of(config.customers, schema))
    if table.rows == 0:
        raise BadInput(f"{config.customers.data}: the table has no rows")
    return AuditWork(config, question, forest, schema, file, previous or None, table)


def _check(config: AuditConfig, question: Question, forest: Forest, schema: Schema) -> None:
    """Raise errors that would affect every row before anything is written."""
    check_forest(question.methods, question.voting, len(forest.classes))
    refuse_dependent_trees(question.methods, forest, config.model.voting)
    without_training = [method for method in question.methods if not method.needs_training]
    if len(without_training) < len(question.methods) and config.training is None:
        raise BadInput("a method needs training rows; name them under [training]")
    if config.training is not None:
        plan_table(config.training.data, [config.training.label, *schema.names])
        if config.training.later is not None:
            plan_table(config.training.later, [config.training.label, *schema.names])
        certified = [design.scenario for design in designs_of(question)]
        check_trainable(forest, [*config.validation.scenarios, *certified])
        later = config.training.later is not None
        check_certificates(question.methods, "config", training=True, later=later)
    if without_training:
        Explainer(forest, schema, without_training, target=question.target, solver=question.solver)
    for name in (*config.customers.cohort, config.customers.id):
        if name is not None and config.customers.cohort.count(name) > 1:
            raise BadInput(f"customers: cohort column {name!r} is listed twice")


class AuditWork(Work):
    """One audit. Attributes that end in `_ref` are references to values on the cluster."""

    kind = "audit"
    second_files = ("keys",)

    def __init__(
        self,
        config: AuditConfig,
        question: Question,
        forest: Forest,
        schema: Schema,
        file: ModelFile | None,
        earlier: Previous | str | None,
        table: Plan,
    ) -> None:
        self.config, self.question, self.forest, self.schema = config, question, forest, schema
        self.file, self.table = file, table
        self.earlier = earlier if isinstance(earlier, Previous) else None
        self.apart = earlier if isinstance(earlier, str) else None  # why nothing can be compared
        self.methods = len(question.methods)
        self.validates = config.training is not None
        self.previous = config.previous
        self.scenarios = seeds_for(config.seed, config.validation)
        self.training_ref: Any = None
        self.fresh_ref: Any = None
        self.files: tuple[RangeFile, ...] = ()  # of the rows, as the shards read them
        self.pilots: pa.Table | None = None

    @property
    def inputs(self) -> Mapping[str, tuple[Any, str]]:
        return {
            "forest_hash": (self.forest.fingerprint, "the forest has"),
            "schema_hash": (self.schema.fingerprint, "the schema has"),
            "inputs": ([list(file) for file in self.table.files], "the customer table has"),
        }

    def plan(self, run: Run) -> int:
        manifest = run.manifest
        if manifest["state"] != "complete":
            run.tasks.warm_up(load_solver, self.config.solver.name)
        self.forest_ref = run.tasks.put(self.forest)
        digest_ref = self._load_training(run)  # while the first pass reads the customers
        settle = partial(self._settle, run, digest_ref)
        self.first_pass = FirstPass(
            run.folder,
            run.tasks,
            self.table,
            self.config.customers,
            self.question,
            self.schema,
            self.forest_ref,
        )
        if "plan" not in manifest:
            pilot = partial(self._pilot, run)
            planned, self.files = self.first_pass.plan(self.config.shard, pilot, settle)
            manifest |= planned
        else:
            settle(manifest["plan"].get("denied", 0))
        self.numbers = {shard_name(k): k for k in range(2 ** manifest["plan"]["bits"])}
        rows: int = manifest["plan"]["rows"]
        return rows

    def _load_training(self, run: Run) -> Any:
        """Start to load the training rows; return a reference to their digests, or None without such rows."""
        if self.config.training is None:
            return None
        self.training_ref = run.tasks.start(load_training, self.config.training, self.schema, self.forest_ref)
        return run.tasks.start(digests, self.training_ref)

    def _settle(self, run: Run, digest_ref: Any, denied: int) -> None:
        """Settle what determines the answers, once the number of rejected customers is known.

        Refuse to make more certificates than share δ, and to resume a run that would give other answers than
        it has given so far.
        """
        training = None if digest_ref is None else run.tasks.result(digest_ref)
        run.refuse_change("training_hash", training, "the training rows have")
        asked = self.question.methods
        check_tests(asked, denied, "rejected customers")
        classes = len(self.forest.classes)
        settled = settled_methods(asked, denied, "rejected customers", self.question.voting, classes)
        if (tests := joint_tests(asked, denied)) is not None:
            run.refuse_change("joint_tests", tests, "the number of joint certificates has")
        self.question = replace(self.question, methods=settled)
        self.answer_keys = tuple(
            self.question.answer_keys(
                self.forest.fingerprint,
                self.schema.fingerprint,
                training,
                run.manifest["versions"],
            )
        )
        names = ("method", "alpha", "beta", "parameter")
        noted = [
            dict(zip(names, method, strict=True)) | {"key": key}
            for method, key in zip(self.question.keys, self.answer_keys, strict=True)
        ]
        run.refuse_change("answer_keys", noted, "what determines the answers has")

    def _pilot(self, run: Run, rejected: list[pa.Table]) -> float:
        """Return the measured seconds per rejected customer."""
        job_ref, sample_ref = run.tasks.put(self._job(run, 0)), run.tasks.put(rejected)
        arguments = (job_ref, self.forest_ref, self.training_ref, self._fresh(run), sample_ref)
        count = max(1, min(MOST, cpus_of(run.tasks.ray) // self.config.solver.threads))
        spent, answers = list[float](), []
        with stage("timing the first customers", count, "tasks") as progress:
            calls = [(*arguments, number, count) for number in range(count)]
            for _, (seconds, table) in run.tasks.run(pilot, calls, solves=True):
                spent += seconds
                answers += [] if table is None else [table]
                progress.advance(1)
        self.pilots = pa.concat_tables(answers) if answers else None
        return float(np.mean(spent)) if spent else 0.0

    def _fresh(self, run: Run) -> Any:
        """Return a reference to the fresh forests for certificates; train them on the first call."""
        if self.fresh_ref is None:
            pipeline = self.file is not None
            self.fresh_ref = train_fresh_forests(
                run, self.question, self.forest, self.forest_ref, self.training_ref, pipeline
            )
        return self.fresh_ref

    def _job(self, run: Run, bits: int, fingerprint: str = "") -> AuditJob:
        return AuditJob(
            run.folder,
            "customers",
            self.question,
            self.schema,
            self.config.customers.cohort,
            self.files,
            bits,
            self.answer_keys,
            None if self.earlier is None or self.earlier.unlike else self.earlier,
            fingerprint,
            self.file,
            self.pilots,
        )

    def check_rows(self, run: Run) -> None:
        self.files = self.first_pass.repeat(run.manifest)

    def store_inputs(self, run: Run) -> None:
        """Store the schema, the forest and the isolation forests, and compare with the previous run.

        A run that was killed early may lack some of them.
        """
        manifest = run.manifest
        if not (run.resumed and run.folder.exists("schema.toml")):
            run.folder.publish("schema.toml", self.schema.to_toml().encode())
        if not (run.resumed and run.folder.exists("forest/forest.json")):
            store_forest(run.folder, "forest", self.forest)
        if self.previous is not None:
            reason: str | None = f"{self.apart}; {NOTHING_COMPARED}"
            if self.earlier is not None:
                reason = not_copied(self.earlier, self.question, self.answer_keys)
            manifest |= {} if reason is None else {"previous": reason}
        if self.earlier is not None and "survival" not in manifest:
            manifest["survival"] = survival(run.folder, run.tasks, self.earlier, self.forest_ref, self.schema)
            run.journal.write()
        if "detectors" not in manifest:
            manifest["detectors"] = self._store_detectors(run)
        if manifest["state"] != "complete":
            self._fresh(run)
        self.job_ref = run.tasks.put(self._job(run, manifest["plan"]["bits"], run_fingerprint(manifest)))

    def _store_detectors(self, run: Run) -> dict[str, str]:
        """Store the isolation forests in the run folder; return their digests."""
        if not uses_isolation(self.question):
            return {}
        task = run.tasks.start(store_from, run.folder, self.question, self.forest_ref, self.training_ref)
        stored: dict[str, str] = run.tasks.result(task)
        return stored

    def explain(self, run: Run, shards: Sequence[str]) -> Iterator[ShardDone]:
        shared = (self.job_ref, self.forest_ref, self.training_ref, self.fresh_ref)
        calls = ((*shared, self.numbers[shard]) for shard in shards)
        for _, done in run.tasks.run(explain_shard, calls, solves=True):
            yield done

    def about_validation(self, run: Run) -> dict[str, Any]:
        if not self.validates:
            return {
                "validation": "not measured: the config names no [training] data; predicted validity only"
            }
        seeds = zip(self.scenarios.names, self.scenarios.seeds, strict=True)
        return {
            "seeds": {name: list(own) for name, own in seeds},
            "validation": f"measured on {self.config.validation.forests} forests per scenario",
        }

    def retrain(self, run: Run) -> None:
        tasks = run.tasks
        with stage("retraining", sum(map(len, self.scenarios.seeds)), "forests") as progress:
            trained = all_forests(tasks, self.forest_ref, self.training_ref, self.scenarios)
            refs = [ref for _, _, ref in trained]
            for _ in tasks.wait(refs):
                progress.advance(1)
            self.forests_ref = tasks.start(gather, *refs)
            list(tasks.wait([self.forests_ref]))

    def validate(self, run: Run, shard: str) -> Any:
        fingerprint = run_fingerprint(run.manifest)
        return run.tasks.start(score_shard, run.folder, self.forests_ref, self.scenarios, shard, fingerprint)
