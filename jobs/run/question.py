"""What a run asks for every row, and the explainers that answer it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from robustcf import Counterfactual, Explainer, Forest, FreshForests, Judge, Schema
from robustcf.forest.forest import Label
from robustcf.methods.answer_key import answer_key, training_digest
from robustcf.schema.encode import encode, read_rows

from ..cluster.guard import Allowance, Stopped
from .rows import Key, method_key

_explainers: dict[tuple[Any, ...], Explainer] = {}
MOST_EXPLAINERS = 4  # a sweep's worker sees many forests and keeps only the last few


@dataclass(frozen=True)
class Question:
    """What to compute for every row; `target` None means the other class."""

    methods: tuple[Any, ...]
    target: Label | None
    voting: str
    solver: str
    time_limit: float
    threads: int
    seed: int
    memory: float = 0.0  # GB for a solver's process; 0 means no limit
    alternatives: int = 1  # answers per customer and method
    levers: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `Explainer.explain_many` for alternatives."""
        return {"alternatives": self.alternatives, "levers": dict(self.levers)}

    @property
    def keys(self) -> list[Key]:
        return [method_key(method) for method in self.methods]

    def answer_keys(
        self, forest: str, schema: str, training: Mapping[str, str] | None, versions: Mapping[str, str]
    ) -> list[str]:
        """Return the answer key of each method (see `robustcf.methods.answer_key`).

        `training` has a digest of the explained forest's rows, "first", and one of "all" rows.
        """

        def digest(method: Any) -> str | None:
            part = "all" if method.needs_later_rows else "first"
            return None if training is None else training[part]

        return [
            answer_key(
                method,
                forest=forest,
                schema=schema,
                target=self.target,
                voting=self.voting,
                solver=self.solver,
                seed=self.seed,
                training=digest(method),
                versions=versions,
                alternatives=self.alternatives,
                levers=self.levers,
            )
            for method in self.methods
        ]


def allowance(question: Question, methods: Sequence[Any]) -> Allowance:
    """Return the time and memory that a row with these methods may use."""
    solves = sum(question.alternatives if method.has_alternatives else 1 for method in methods)
    return Allowance.of(question.time_limit, solves, question.memory or None)


def explainer_for(
    question: Question,
    forest: Forest,
    schema: Schema,
    training: tuple[np.ndarray, np.ndarray] | None = None,
    methods: Sequence[Any] | None = None,
    judge: Judge | None = None,
    fresh: Sequence[FreshForests] = (),
) -> Explainer:
    """Return this process's explainer for the forest; build it on first use."""
    chosen = question.methods if methods is None else tuple(methods)
    used = training if any(method.needs_training for method in chosen) else None
    rows = used and training_digest(*used)
    trained = tuple(one.fingerprint for one in fresh)
    key = (forest.fingerprint, schema.fingerprint, question, chosen, rows, judge, trained)
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
            fresh=fresh,
        )
        _ = forest.judge  # rebuilt once here; the guarded children inherit it
    return _explainers[key]


def stopped_answers(explainer: Explainer, row: pd.DataFrame, stopped: Stopped) -> list[Counterfactual]:
    """Return an answer per method for a row that was stopped, with the reason."""
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
                threshold=forest.demanded(method.threshold, target),
                cutoff=forest.shown_cutoff(target),
                score_before=float(forest.judged_score(encoded, target, voting)[0][0]),
                solver=explainer.engine.name,
                seconds=stopped.seconds / len(explainer.methods),
            )
        )
    return found
