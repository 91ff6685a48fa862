"""Second pass of an audit: explain one range of hashes and publish its shard."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from robustcf import Counterfactual, Explainer, Forest, FreshForests, Judge, Schema
from robustcf.schema.encode import Rows, encode, read_rows
from robustcf.solve import get_engine

from ..cluster.guard import OUTSIDE, Stopped, Tick, advance, guarded
from ..cluster.metrics import observe_solving
from ..inputs.model_file import ModelFile, judge_of
from ..run.columns import COUNTERFACTUALS, as_table
from ..run.folder import RunFolder
from ..run.manifest import ShardDone
from ..run.previous import KEPT, Earlier, Previous, earlier_answers
from ..run.question import Question, allowance, explainer_for, stopped_answers
from ..run.rows import answer_starts, as_row, distinct, row_keys
from .favourable import favourable_answers, is_favourable
from .publish import Lines, publish
from .ranges import RangeFile, bounds, read_range
from .rejudge import Copied, rejected
from .scan import COHORT, FEATURE, ID

BATCH = 512  # customers explained at a time


@dataclass(frozen=True)
class AuditJob:
    """What every shard of an audit needs to know."""

    run: RunFolder
    dataset: str
    question: Question
    schema: Schema
    cohort: tuple[str, ...]
    files: tuple[RangeFile, ...]
    bits: int
    answer_keys: tuple[str, ...]
    previous: Previous | None = None
    fingerprint: str = ""  # of the run, see `run_fingerprint`
    file: ModelFile | None = None
    pilots: pa.Table | None = None  # answers of the pilot, with the digest of the customer's row as their id

    @property
    def judge(self) -> Judge | None:
        """The customers' own model, or None if the model is a forest folder.

        Each process opens it once.
        """
        return None if self.file is None else judge_of(self.file, self.schema)


def load_solver(name: str) -> None:
    """Load the libraries and compiled kernels of this module and of a solver; the tasks then find them."""
    get_engine(name)


def first_training_rows(training: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the training rows of the explained forest, as (X, y), or None."""
    return None if training is None else (training.X[training.first], training.y[training.first])


def explain_shard(
    job: AuditJob, forest: Forest, training: Any, fresh: Sequence[FreshForests] | None, number: int
) -> ShardDone:
    """Explain the customers in the shard's range of hashes and publish their rows."""
    begin = time.time()
    place = number * len(job.files) >> job.bits
    tables = read_range(job.run, job.files[place], *bounds(number, job.bits))
    frame, ids, cohorts = customers_of(job, tables)
    read = read_rows(job.schema, frame, missing=forest.accepts_missing)
    usable = np.array([reason is None for reason in read.reasons], dtype=bool)
    keys = row_keys(read.numbers)
    first, distinct_of = distinct(keys, usable)
    answers = _Answers(job, forest, training, fresh or (), frame, read, usable, first)
    if job.judge is None:  # the customers' own model decides on raw rows, in the guarded process
        answers.answer_favourable()
    if job.previous is not None:
        answers.use_earlier(number)
    if job.pilots is not None:
        answers.use_pilots(job.pilots, keys)
    answers.solve_rest()
    lines = Lines(answers.table, answers.at[distinct_of], answers.solved, answers.copied)
    return publish(job, number, lines, ids, cohorts, keys, begin)


def customers_of(
    job: AuditJob, tables: Sequence[pa.Table]
) -> tuple[pd.DataFrame, list[str], list[list[Any]]]:
    """Return the rows in original units, their ids, and their cohorts by column."""
    frames = [t.select([FEATURE + n for n in job.schema.names]).to_pandas() for t in tables]
    names = list(job.schema.names)
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=names)
    ids = [i for t in tables for i in t[ID].to_pylist()]
    cohorts = [[v for t in tables for v in t[COHORT + name].to_pylist()] for name in job.cohort]
    return frame.set_axis(names, axis=1), ids, cohorts


def answers_table(
    job: AuditJob, forest: Forest, answers: Sequence[Counterfactual], instance_id: str
) -> pa.Table:
    """Return answers as rows of `counterfactuals`, without cohorts."""
    made = [
        as_row(
            cf,
            job.schema,
            dataset=job.dataset,
            simulation=0,
            instance_id=instance_id,
            cohort={},
            voting=job.question.voting,
            n_trees=len(forest),
        )
        for cf in answers
    ]
    return as_table(made, COUNTERFACTUALS)


class _Answers:
    """The answers for the distinct customers of a shard, solved or copied.

    `at` is the position of each answer among all lines. The lines of its alternatives follow it.
    """

    def __init__(
        self,
        job: AuditJob,
        forest: Forest,
        training: Any,
        fresh: Sequence[FreshForests],
        frame: pd.DataFrame,
        read: Rows,
        usable: np.ndarray,
        first: np.ndarray,
    ) -> None:
        self.job, self.forest, self.training = job, forest, first_training_rows(training)
        self.fresh = fresh
        self.frame, self.read, self.usable, self.first = frame, read, usable, first
        self.numbers = read.numbers
        self.tables: list[pa.Table] = []
        self.length = 0
        self.at = np.full((len(first), len(job.question.methods)), -1, dtype=np.int64)
        self.solved = self.copied = 0

    def answer_favourable(self) -> None:
        """Answer all customers whose decision is already favourable."""
        question, schema = self.job.question, self.job.schema
        rows = np.flatnonzero(self.usable[self.first])
        rows = rows[is_favourable(self.forest, question, encode(schema, self.numbers[self.first[rows]]))]
        if not len(rows):
            return
        numbers, one = self.numbers[self.first[rows]], self.first[rows[:1]]
        found = self._explainer().explain_many(self.frame.iloc[one], read=self.read.take(one))
        self.at[rows] = self.length + np.arange(len(rows) * len(found)).reshape(len(rows), -1)
        self._add(favourable_answers(self.forest, question, schema, numbers, self._table(found)))

    def _explainer(self, methods: Sequence[Any] | None = None) -> Explainer:
        job = self.job
        return explainer_for(
            job.question, self.forest, job.schema, self.training, methods, job.judge, self.fresh
        )

    def use_earlier(self, number: int) -> None:
        """Copy the previous run's answers that still hold; keep points that still work."""
        job = self.job
        assert job.previous is not None
        open_rows = [d for d, i in enumerate(self.first) if self.usable[i] and self.at[d, 0] < 0]
        if not open_rows:
            return
        encoded = encode(job.schema, self.numbers[self.first[open_rows]])
        predicted = self.forest.judged_score(encoded, job.question.target, job.question.voting)[1]  # type: ignore[arg-type]
        denied = [
            d for k, d in enumerate(open_rows) if self.forest.classes[predicted[k]] != job.question.target
        ]
        if not denied:
            return
        keys = dict(zip(denied, row_keys(self.numbers[self.first[denied]]), strict=True))
        answer_keys = dict(zip(job.question.keys, job.answer_keys, strict=True))
        earlier = earlier_answers(job.previous, answer_keys, number, job.bits, set(keys.values()))
        if earlier.copies is not None:
            for d, key in keys.items():
                for j, method in enumerate(job.question.keys):
                    if (key, method) in earlier.at:
                        self.at[d, j] = self.length + earlier.at[key, method]
                        self.copied += 1
            self._drop_rejected(earlier.copies, denied)
            self._add(earlier.copies)
        if earlier.changes:
            self._keep(keys, earlier)

    def _keep(self, keys: dict[int, bytes], earlier: Earlier) -> None:
        """Keep earlier points that pass all the checks of a new answer."""
        question = self.job.question
        kept = [j for j, method in enumerate(question.methods) if method.keepable]
        names = [question.keys[j] for j in kept]
        rows = [d for d, key in keys.items() if any((key, name) in earlier.changes for name in names)]
        if not rows:
            return
        methods = [question.methods[j] for j in kept]
        explainer = explainer_for(
            question, self.forest, self.job.schema, self.training, methods, self.job.judge
        )
        moved = self._moved([(d, earlier.changes.get((keys[d], name))) for d in rows for name in names])
        points = [moved[k : k + len(names)] for k in range(0, len(moved), len(names))]
        at = self.first[rows]
        found = explainer.check_points(self.frame.iloc[at], points, KEPT, read=self.read.take(at))
        passed = [k for k, cf in enumerate(found) if cf.verified]
        for position, k in enumerate(passed):
            d, j = rows[k // len(kept)], kept[k % len(kept)]
            if self.at[d, j] < 0:
                self.at[d, j] = self.length + position
                self.copied += 1
        self._add(self._table([found[k] for k in passed]))

    def _moved(self, given: list[tuple[int, dict[str, str] | None]]) -> list[np.ndarray | None]:
        """Return customers' numbers after their earlier changes.

        The result is None for a customer without readable changes.
        """
        schema = self.job.schema
        customers = [dict(zip(schema.names, self.frame.iloc[self.first[d]], strict=True)) for d, _ in given]
        texts = [own | (changes or {}) for own, (_, changes) in zip(customers, given, strict=True)]
        read = read_rows(schema, texts, missing=self.forest.accepts_missing)
        return [
            None if changes is None or reason is not None else numbers
            for (_, changes), reason, numbers in zip(given, read.reasons, read.numbers, strict=True)
        ]

    def _drop_rejected(self, table: pa.Table, rows: list[int]) -> None:
        """Drop copied answers that the customers' own model does not confirm.

        `solve_rest` then solves them again.
        """
        judge, question = self.job.judge, self.job.question
        votings: list[Any] = [method.voting or question.voting for method in question.methods]
        pairs = [(d, int(j)) for d in rows for j in np.flatnonzero(self.at[d] >= 0)]
        if judge is None or not pairs:
            return
        records: list[Any] = self.frame.iloc[self.first[rows]].to_dict("records")
        customers = dict(zip(rows, records, strict=True))
        ends = dict(pairwise([*answer_starts(table).tolist(), len(table)]))
        copied, owner = [], []
        for d, j in pairs:
            start = int(self.at[d, j]) - self.length
            copied += [Copied(customers[d], line, votings[j]) for line in range(start, ends[start])]
            owner += [(d, j)] * (ends[start] - start)
        for pair in {owner[k] for k in rejected(judge, self.forest, self.job.question, table, copied)}:
            self.at[pair] = -1
            self.copied -= 1

    def use_pilots(self, table: pa.Table, keys: list[bytes]) -> None:
        """Take the answers that the pilot found for customers of this shard; `keys` are the rows' digests."""
        row_of = {keys[i].hex(): d for d, i in enumerate(self.first) if self.usable[i]}
        starts, names = answer_starts(table), table["instance_id"].to_pylist()
        methods = len(self.job.question.methods)
        taken: list[int] = []
        for k, (start, end) in enumerate(pairwise([*starts.tolist(), len(table)])):
            d, j = row_of.get(names[start]), k % methods
            if d is not None and self.at[d, j] < 0:
                self.at[d, j] = self.length + len(taken)
                self.solved += j == 0
                taken += range(start, end)
        if taken:
            self._add(table.take(taken))

    def solve_rest(self) -> None:
        missing: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for d in np.flatnonzero((self.at < 0).any(axis=1)).tolist():
            missing[tuple(np.flatnonzero(self.at[d] < 0).tolist())].append(d)
        for methods, rows in missing.items():
            chosen = [self.job.question.methods[j] for j in methods]
            explainer = self._explainer(chosen)
            batches = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
            limits = allowance(self.job.question, chosen)
            for part, answer in guarded(partial(self._solve, explainer), batches, limits):
                if isinstance(answer, Stopped):
                    row = self.frame.iloc[self.first[part]]
                    answer = self._table(stopped_answers(explainer, row, answer))
                places = self.length + answer_starts(answer).reshape(len(part), -1)
                self.at[np.ix_(part, methods)] = places
                statuses = answer["status"].take(pa.array(places[:, 0] - self.length)).to_pylist()
                observe_solving([seconds for seconds in answer["seconds"].to_pylist() if seconds])
                self.solved += sum(s not in ("already_favourable", "invalid_input") for s in statuses)
                self._add(answer)

    def _solve(self, explainer: Any, rows: list[int], tick: Tick) -> pa.Table:
        """Solve a batch of rows; runs in the guarded process."""
        usable = [at for at, d in enumerate(rows) if self.usable[self.first[d]]]
        if explainer.judge is not None:
            tick(OUTSIDE)  # the customers' own model decides on all rows first
        at = self.first[rows]
        found = explainer.explain_many(
            self.frame.iloc[at],
            partial(advance, tick, usable),
            read=self.read.take(at),
            **self.job.question.options,
        )
        return self._table(found)

    def _table(self, answers: Sequence[Counterfactual]) -> pa.Table:
        """Return the answers as a table, without the customers' ids and cohorts."""
        return answers_table(self.job, self.forest, answers, "")

    @property
    def table(self) -> pa.Table:
        """All lines."""
        return pa.concat_tables(self.tables or [COUNTERFACTUALS.empty_table()]).combine_chunks()

    def _add(self, table: pa.Table) -> None:
        self.tables.append(table.cast(COUNTERFACTUALS))
        self.length += len(table)
