"""`robustcf audit`: explain every customer of a table with one forest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from robustcf import Explainer, Forest, Schema

from ..cluster.session import cpus_of, refuse_unshared_output, session
from ..cluster.signals import stop_if_asked
from ..cluster.tasks import Tasks, fan_out, shuffled
from ..inputs.config import AuditConfig, config_hash, methods_of
from ..inputs.errors import BadInput, reporting_bad_input
from ..inputs.model_file import ModelFile, model_and_schema
from ..inputs.tables import Plan, plan_table
from ..reduce.reduce import reduce_run, write_summary_table
from ..report.report import report_run
from ..run.claim import claimed
from ..run.detectors import asks_isolation, store_from
from ..run.folder import RunFolder
from ..run.forests import store_forest
from ..run.manifest import Journal, check_versions, exit_code, facts_of, finished_shards, new_manifest
from ..run.planned import planned_shards, readable_shards, refuse_strays, run_fingerprint, shard_name
from ..run.question import Question
from ..terminal.progress import stage
from ..validate.forests import (
    all_forests,
    check_trainable,
    digests,
    gather,
    load_training,
    score_shard,
    seeds_for,
)
from .previous import Previous, open_previous, survivors
from .scan import Scanned, checksums, columns_of, find_duplicate, scan_chunk, twice
from .shard import AuditJob, explain_shard, pilot

MOST_CUSTOMERS = 8192  # in a shard, even if they are solved quickly
MOST_BITS = 20


def audit(config: AuditConfig, address: str | None = None, cpus: int | None = None) -> int:
    """Start or resume an audit; return the exit code."""
    run = RunFolder(config.output)
    run.begun("audit", config_hash(config))  # refuse another run's folder before any work
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
        )
        _check(config, question, forest, schema)
        previous = config.previous and open_previous(
            config.previous, schema, config.solver.time_limit, config.keep_valid
        )
    plan = plan_table(config.customers.data, columns_of(config.customers, schema))
    if plan.rows == 0:
        raise BadInput(f"{config.customers.data}: the table has no rows")
    stop_if_asked()
    with claimed(run):
        manifest = run.begun("audit", config_hash(config))
        if manifest is not None:
            _check_unchanged(run, manifest, plan, forest, schema)
        with session(address, config.solver.threads, cpus) as ray:
            tasks = Tasks(ray, config.solver, refuse_unshared_output(ray, run, config.shared))
            return _Audit(config, run, tasks, question, forest, schema, previous or None, plan, file).go(
                manifest
            )


def _check(config: AuditConfig, question: Question, forest: Forest, schema: Schema) -> None:
    """Raise errors that would affect every row before anything is written."""
    plain = [method for method in question.methods if not method.needs_training]
    if len(plain) < len(question.methods) and config.training is None:
        raise BadInput("a method needs training rows; name them under [training]")
    if config.training is not None:
        plan_table(config.training.data, [config.training.label, *schema.names])
        if config.training.later is not None:
            plan_table(config.training.later, [config.training.label, *schema.names])
        check_trainable(forest, config.validation.scenarios)
    if plain:
        Explainer(forest, schema, plain, target=question.target, solver=question.solver)
    for name in (*config.customers.cohort, config.customers.id):
        if name is not None and config.customers.cohort.count(name) > 1:
            raise BadInput(f"customers: cohort column {name!r} is listed twice")


def _check_unchanged(
    run: RunFolder, manifest: dict[str, Any], plan: Plan, forest: Forest, schema: Schema
) -> None:
    """Refuse to resume a run if its inputs or the version of robustcf changed."""
    if changed := check_versions(run, manifest):
        manifest["resumed_with"] = changed
    now = {"forest_hash": forest.fingerprint, "schema_hash": schema.fingerprint}
    for key, value in now.items():
        if manifest.get(key) != value:
            raise BadInput(
                f"the {key.removesuffix('_hash')} has changed since this run began; choose another output"
            )
    if manifest.get("inputs") != [list(file) for file in plan.files]:
        raise BadInput("the customer table has changed since this run began; choose another output")


def _note_unchanged(manifest: dict[str, Any], key: str, value: Any, what: str) -> None:
    """Store a value in the manifest; refuse to resume if another value is there."""
    if manifest.setdefault(key, value) != value:
        raise BadInput(f"{what} changed since this run began; choose another output")


class _Audit:
    """One audit on a cluster, stage by stage."""

    def __init__(
        self,
        config: AuditConfig,
        run: RunFolder,
        tasks: Tasks,
        question: Question,
        forest: Forest,
        schema: Schema,
        previous: Previous | None,
        plan: Plan,
        file: ModelFile | None = None,
    ) -> None:
        self.file = file
        self.config, self.run, self.tasks, self.question = config, run, tasks, question
        self.forest, self.schema, self.previous, self.plan = forest, schema, previous, plan
        self.forest_ref = tasks.put(forest)

    def go(self, manifest: dict[str, Any] | None) -> int:
        if manifest is None or "plan" not in manifest:
            manifest = new_manifest("audit", self.config) | {
                "forest_hash": self.forest.fingerprint,
                "schema_hash": self.schema.fingerprint,
                "inputs": [list(file) for file in self.plan.files],
            }
        training = self._training(manifest)
        if "plan" not in manifest:
            self._begin(manifest, training)
        refuse_strays(self.run, manifest)
        journal = Journal(self.run, manifest)
        missing = self._missing(journal)
        if missing and not self._has_pieces(manifest):
            self._read_again(manifest)
        if missing or manifest["state"] != "complete":
            journal.reopen()
        self.run.sweep_up()
        self._keep_inputs()
        if self.config.previous is not None:
            self._note_previous(manifest)
        if self.previous is not None and "survival" not in manifest:
            manifest["survival"] = self._survival()
            journal.write()
        if "detectors" not in manifest:
            manifest["detectors"] = self._store_detectors(training)
        self._explain(journal, training, missing)
        if self.config.training is not None:
            self._validate(journal, training)
        manifest["validation"] = self._about_validation()
        counts = journal.count(manifest["plan"]["rows"] * len(self.question.methods))
        reduce_run(self.run, manifest, self.tasks)
        complete = manifest | {"state": "complete"}
        manifest["report"] = report_run(self.run, complete, self.tasks, self.config.previous)
        self.run.remove("_work")
        journal.finish()
        return exit_code(counts)

    def _begin(self, manifest: dict[str, Any], training: Any) -> None:
        """Make the first pass over the customers and plan the shards."""
        try:
            manifest |= self._plan(training)
        except BadInput:
            self.run.remove("_work")  # this run has written nothing else
            raise
        self._mark_pieces(manifest)

    def _keep_inputs(self) -> None:
        """Store the schema and the forest in the run folder, if they are missing.

        A run that was killed early may lack them.
        """
        if not self.run.exists("schema.toml"):
            self.run.publish("schema.toml", self.schema.to_toml().encode())
        if not self.run.exists("forest/forest.json"):
            store_forest(self.run, "forest", self.forest)

    def _note_previous(self, manifest: dict[str, Any]) -> None:
        """Write to the manifest which methods' answers cannot be copied, and why."""
        if self.previous is None:
            manifest["previous"] = "its schema differs: nothing was copied"
            return
        asked = zip(self.question.methods, self.question.keys, self.answer_keys, strict=True)
        stale = [m.name for m, name, key in asked if self.previous.answer_keys.get(name) != key]
        if stale:
            methods = ", ".join(dict.fromkeys(stale))
            manifest["previous"] = (
                f"forest, method, seed, training rows or version differ: {methods} solved again"
            )

    def _training(self, manifest: dict[str, Any]) -> Any:
        """Return a reference to the training rows, or None.

        Writes to the manifest what the answers depend on.

        Raises
        ------
        BadInput
            If a resumed run would give other answers than it has given so far.
        """
        ref, digest = None, None
        if self.config.training is not None:
            ref = self.tasks.start(load_training, self.config.training, self.schema, self.forest_ref)
            digest = self._result(self.tasks.start(digests, ref))
        _note_unchanged(manifest, "training_hash", digest, "the training rows have")
        versions = manifest["versions"]
        first = None if digest is None else digest["first"]
        self.answer_keys = tuple(
            self.question.answer_keys(self.forest.fingerprint, self.schema.fingerprint, first, versions)
        )
        names = ("method", "alpha", "beta", "parameter")
        noted = [
            dict(zip(names, method, strict=True)) | {"key": key}
            for method, key in zip(self.question.keys, self.answer_keys, strict=True)
        ]
        _note_unchanged(manifest, "answer_keys", noted, "what determines the answers has")
        return ref

    def _store_detectors(self, training: Any) -> dict[str, str]:
        """Store the isolation forests in the run folder; return their digests."""
        if not asks_isolation(self.question):
            return {}
        stored: dict[str, str] = self._result(
            self.tasks.start(store_from, self.run, self.question, self.forest_ref, training)
        )
        return stored

    def _result(self, ref: Any) -> Any:
        """Wait for a task and return its result; raise its error if it fails."""
        return next(fan_out(self.tasks.ray, lambda _: ref, [0], 1))[1]

    def _wait(self, ref: Any) -> None:
        """Wait for a task without fetching its result."""
        self._result(self.tasks.start(_nothing, ref))

    def _scan(self) -> list[Scanned]:
        """Make the first pass: write the pieces to the `_work` folder."""
        found: dict[int, Scanned] = {}
        with stage("reading", self.plan.rows or 0) as progress:
            calls = [
                (self.run, self.config.customers, self.question, self.schema, self.forest_ref, chunk)
                for chunk in self.plan.chunks
            ]
            for call, scanned in self.tasks.run(scan_chunk, calls):
                found[call[-1].number] = scanned
                progress.advance(scanned.rows)
        return [found[number] for number in sorted(found)]

    def _plan(self, training: Any) -> dict[str, Any]:
        """Return the plan of the shards, and checksums of the rows.

        The checksums do not depend on the order of the rows.
        """
        self.run.remove("_work")
        found = self._scan()
        rows = sum(s.rows for s in found)
        if not rows:
            raise BadInput(f"{self.config.customers.data}: the table has no rows")
        if self.config.customers.id is not None:
            self._refuse_duplicates([s.ids for s in found])
        plan: dict[str, Any] = {
            "rows": rows,
            "denied": sum(s.denied for s in found),
            "invalid": sum(s.invalid for s in found),
            "pieces": [name for s in found for name in s.pieces],
        }
        plan["bits"] = self._bits(plan, training)
        return {"plan": plan} | checksums(found)

    def _read_again(self, manifest: dict[str, Any]) -> None:
        """Repeat the first pass of a resumed run whose pieces are gone.

        The rows must be the same as when the run began.
        """
        self.run.remove("_work")
        found = self._scan()
        now = checksums(found) | {"rows": sum(s.rows for s in found)}
        then = manifest | {"rows": manifest["plan"]["rows"]}
        if any(then[key] != value for key, value in now.items() if key in then):
            self.run.remove("_work")
            raise BadInput(
                f"{self.config.customers.data}: the rows have changed since this run began, though the"
                " file's size and time have not; choose another output"
            )
        manifest["plan"]["pieces"] = [name for s in found for name in s.pieces]
        self._mark_pieces(manifest)

    def _mark_pieces(self, manifest: dict[str, Any]) -> None:
        """Mark the pieces as complete; they hold the rows of the manifest."""
        self.run.publish(_mark(manifest), b"")

    def _has_pieces(self, manifest: dict[str, Any]) -> bool:
        return self.run.names("_work").keys() >= {_mark(manifest), *manifest["plan"]["pieces"]}

    def _refuse_duplicates(self, ids: Sequence[Any]) -> None:
        again = twice(np.concatenate(ids))
        if not len(again):
            return
        seen: Counter[str] = Counter()
        calls = [(self.config.customers, chunk, again) for chunk in self.plan.chunks]
        for _, names in self.tasks.run(find_duplicate, calls):
            seen.update(names)
        repeated = sorted(name for name, count in seen.items() if count > 1)
        if repeated:
            raise BadInput(
                f"{self.config.customers.data}: id {repeated[0]!r} occurs {seen[repeated[0]]} times"
                f" (repeated ids: {len(repeated)}); make the ids unique"
            )

    def _bits(self, plan: dict[str, Any], training: Any) -> int:
        """Return log2 of the number of shards."""
        if self.config.shard.rows is not None:
            shards = plan["rows"] / self.config.shard.rows
        else:
            seconds = 0.0
            if plan["denied"]:
                call = (self._job(plan | {"bits": 0}), self.forest_ref, training)
                seconds = next(iter(self.tasks.run(pilot, [call], solves=True)))[1]
            shards = max(
                plan["denied"] * seconds / self.config.shard.seconds,
                plan["rows"] / MOST_CUSTOMERS,
                min(2 * cpus_of(self.tasks.ray), plan["rows"] / 64),
            )
        return min(MOST_BITS, max(0, math.ceil(math.log2(max(shards, 1)))))

    def _job(self, plan: dict[str, Any], fingerprint: str = "") -> AuditJob:
        return AuditJob(
            self.run,
            "customers",
            self.question,
            self.schema,
            self.config.customers.cohort,
            tuple(plan["pieces"]),
            plan["bits"],
            self.answer_keys,
            self.previous,
            fingerprint,
            self.file,
        )

    def _survival(self) -> list[dict[str, Any]]:
        """Count the earlier run's recourses that still work with this forest."""
        previous = self.previous
        assert previous is not None
        earlier = previous.run.manifest() or {}
        names = readable_shards(previous.run, earlier)
        counts: Counter[Any] = Counter()
        with stage("checking earlier recourses", len(names)) as progress:
            for _, part in self.tasks.run(survivors, [(previous, self.forest_ref, name) for name in names]):
                counts.update(part)
                progress.advance(1)
        rows = [
            dict(zip(("method", "alpha", "beta", "parameter"), key, strict=True))
            | {"given": counts[key, "given"], "survived": counts[key, "survived"]}
            for key in sorted({key for key, _ in counts}, key=repr)
        ]
        write_summary_table(self.run, "survival", pa.Table.from_pylist(rows) if rows else None)
        return rows

    def _missing(self, journal: Journal) -> list[int]:
        """Return the numbers of the shards that are still missing."""
        wanted = planned_shards(journal.manifest)
        done = finished_shards(self.run, journal, "counterfactuals", wanted, self.tasks)
        done &= {name.removeprefix("keys/") for name in self.run.names("keys")}
        return shuffled(k for k, name in enumerate(wanted) if name not in done)

    def _explain(self, journal: Journal, training: Any, missing: Sequence[int]) -> None:
        plan, shards = journal.manifest["plan"], journal.manifest["shards"]
        job = self.tasks.put(self._job(plan, run_fingerprint(journal.manifest)))
        made = {f"counterfactuals/{shard_name(k)}" for k in missing}
        finished = sum(facts.get("customers", 0) for name, facts in shards.items() if name not in made)
        with stage("explaining", plan["rows"] - finished) as progress:
            calls = ((job, self.forest_ref, training, k) for k in missing)
            for _, result in self.tasks.run(explain_shard, calls, solves=True):
                journal.note(result.file, **facts_of(result))
                progress.advance(result.customers, result.counts)

    def _validate(self, journal: Journal, training: Any) -> None:
        wanted = planned_shards(journal.manifest)
        done = finished_shards(self.run, journal, "validation", wanted, self.tasks)
        missing = [name for name in wanted if name not in done]
        scenarios = seeds_for(self.config.seed, self.config.validation)
        journal.manifest["seeds"] = {
            n: list(s) for n, s in zip(scenarios.names, scenarios.seeds, strict=True)
        }
        if not missing:
            return
        if journal.manifest["state"] == "complete":
            journal.reopen()
        with stage("retraining", sum(map(len, scenarios.seeds))) as progress:
            refs = [ref for _, _, ref in all_forests(self.tasks, self.forest_ref, training, scenarios)]
            for _ in fan_out(self.tasks.ray, lambda ref: self.tasks.start(_nothing, ref), refs, len(refs)):
                progress.advance(1)
            forests = self.tasks.start(gather, *refs)
            self._wait(forests)
        fingerprint = run_fingerprint(journal.manifest)
        with stage("validating", len(missing)) as progress:
            calls = ((self.run, forests, scenarios, name, fingerprint) for name in missing)
            for _, (file, rows) in self.tasks.run(score_shard, calls):
                journal.note(file, rows=rows)
                progress.advance(1)

    def _about_validation(self) -> str:
        if self.config.training is None:
            return "not measured: the config names no [training] data; predicted validity only"
        return f"measured on {self.config.validation.forests} forests per scenario"


def _mark(manifest: dict[str, Any]) -> str:
    return f"_work/checked-{manifest['data_hash']}"


def _nothing(_: Any) -> None:
    """Do nothing; Ray waits for the argument before it starts this task."""
