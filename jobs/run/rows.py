"""Answers as rows of the `counterfactuals` table, and the cache of explainers in a worker."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from robustcf import Counterfactual, Explainer, Forest, Judge, Schema
from robustcf.forest.forest import Label
from robustcf.methods.answer_key import answer_key, training_digest
from robustcf.schema.encode import encode, read_rows
from robustcf.schema.schema import Feature

from ..cluster.guard import Allowance, Stopped

Key = tuple[str, float | None, float | None, float | None]
_explainers: dict[tuple[Any, ...], Explainer] = {}
MOST_EXPLAINERS = 4  # a sweep's worker meets many forests: keep the last few only


@dataclass(frozen=True)
class Question:
    """What is asked of every row of a forest; `target` None asks for the other class."""

    methods: tuple[Any, ...]
    target: Label | None
    voting: str
    solver: str
    time_limit: float
    threads: int
    seed: int
    memory: float = 0.0  # GB of a solver's process; 0: no limit

    @property
    def keys(self) -> list[Key]:
        return [method_key(method) for method in self.methods]

    def answer_keys(
        self, forest: str, schema: str, training: str | None, versions: Mapping[str, str]
    ) -> list[str]:
        """Return the answer key of each method (see `robustcf.methods.answer_key`)."""
        return [
            answer_key(
                method,
                forest=forest,
                schema=schema,
                target=self.target,
                voting=self.voting,
                solver=self.solver,
                seed=self.seed,
                training=training,
                versions=versions,
            )
            for method in self.methods
        ]


def allowance(question: Question, methods: int) -> Allowance:
    """What a row with so many methods may take."""
    return Allowance.of(question.time_limit, methods, question.memory or None)


def method_key(method: Any) -> Key:
    """What tells one method of a run from another."""
    return method.name, method.alpha, method.beta, method.parameter


def explainer_for(
    question: Question,
    forest: Forest,
    schema: Schema,
    training: tuple[np.ndarray, np.ndarray] | None = None,
    methods: Sequence[Any] | None = None,
    judge: Judge | None = None,
) -> Explainer:
    """The explainer of this process for that forest, compiled once."""
    chosen = question.methods if methods is None else tuple(methods)
    used = training if any(method.needs_training for method in chosen) else None
    rows = used and training_digest(*used)
    key = (forest.fingerprint, schema.fingerprint, question, chosen, rows, judge)
    if key not in _explainers:
        while len(_explainers) >= MOST_EXPLAINERS:
            _explainers.pop(next(iter(_explainers)))
        _explainers[key] = Explainer(
            forest,
            schema,
            chosen,
            target=question.target,
            voting=question.voting,  # type: ignore[arg-type]
            solver=question.solver,
            time_limit=question.time_limit,
            threads=question.threads,
            seed=question.seed,
            training=used,
            judge=judge,
        )
    return _explainers[key]


def stopped_answers(explainer: Explainer, row: pd.DataFrame, stopped: Stopped) -> list[Counterfactual]:
    """A row that had to be stopped, for each method: what is known of it, and why."""
    numbers = read_rows(explainer.schema, row, missing=explainer.forest.accepts_missing).numbers
    encoded = encode(explainer.schema, numbers)
    forest, found = explainer.forest, []
    for method in explainer.methods:
        voting = method.voting or explainer.voting
        own = forest.classes[forest.predict(encoded, voting)[0]]
        others = [label for label in forest.classes if label != own]
        target = others[0] if explainer.target is None else explainer.target
        found.append(
            Counterfactual(
                stopped.status,
                method,
                reason=stopped.reason,
                target=target,
                threshold=method.threshold(len(forest)),
                score_before=float(forest.judged_score(encoded, target, voting)[0][0]),
                solver=explainer.engine.name,
                seconds=stopped.seconds / len(explainer.methods),
            )
        )
    return found


def label_of(forest: Forest, text: str) -> Label:
    """The forest's label that a table's text stands for."""
    for label in forest.classes:
        if str(label) == text:
            return label
    raise ValueError(f"the forest has no class {text!r}; its classes are {list(forest.classes)}")


def as_row(
    cf: Counterfactual,
    schema: Schema,
    *,
    dataset: str,
    simulation: int,
    instance_id: str,
    cohort: Mapping[str, str | None],
    voting: str,
    n_trees: int,
) -> dict[str, Any]:
    """One answer under the fixed columns; NaN becomes null."""
    name, alpha, beta, parameter = method_key(cf.method)
    has_point = cf.encoded is not None
    return {
        "dataset": dataset,
        "simulation": simulation,
        "instance_id": instance_id,
        "cohort": list(cohort.items()),
        "method": name,
        "alpha": alpha,
        "beta": beta,
        "parameter": parameter,
        "voting": cf.method.voting or voting,
        "n_trees": n_trees,
        "target": None if cf.target is None else str(cf.target),
        "threshold": _number(cf.threshold),
        "status": cf.status,
        "reason": cf.reason,
        "objective": _number(cf.objective),
        "distance": _number(cf.distance),
        "lower_bound": _number(cf.lower_bound),
        "gap": _number(cf.gap),
        "score_before": _number(cf.score_before),
        "score_after": _number(cf.score),
        "best_score": _number(cf.best_score),
        "best_score_gap": _number(cf.best_score_gap),
        "predicted_validity": _number(cf.predicted_validity),
        "n_changed": cf.n_changed if has_point else None,
        "changes": [
            {
                "feature": c.feature,
                "before": canonical(schema[c.feature], c.before),
                "after": canonical(schema[c.feature], c.after),
                "delta": c.delta,
            }
            for c in cf.changes
        ]
        if has_point
        else None,
        "point": cf.encoded.tolist() if cf.encoded is not None else None,
        "verified": cf.verified,
        "solver": cf.solver,
        "seconds": cf.seconds,
        "nodes": cf.nodes,
    }


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def canonical(feature: Feature, value: Any) -> str:
    """A value's text, however the customer table spelled it ("3", 3 and 3.0 are one)."""
    return str(feature.value(float(value))) if feature.is_number else str(value)


def distinct(numbers: np.ndarray, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First occurrence of each distinct row, and each row's position among these.

    Rows that cannot be used are never merged: each has a reason of its own.
    """
    keys: list[Any] = row_keys(numbers)
    for i in np.flatnonzero(~usable):
        keys[i] = int(i)
    codes, _ = pd.factorize(np.array(keys, dtype=object))  # in order of appearance
    return np.unique(codes, return_index=True)[1], codes.astype(np.int64)


def row_keys(numbers: np.ndarray) -> list[bytes]:
    """A 128-bit digest of each row of numbers: equal rows, equal keys."""
    clean = np.where(np.isnan(numbers), np.nan, numbers + 0.0)  # one NaN, no -0.0
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in clean]
