"""Solve one row for all methods of an explainer, with alternatives."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from robustcf.explain.checks import Found
from robustcf.forest.forest import Forest, Label, Voting
from robustcf.methods.alternatives import Levers, alternatives, with_few_changes
from robustcf.methods.base import Method, Setting
from robustcf.methods.family import Answer, Customer, Family, Tools
from robustcf.methods.training import Training
from robustcf.schema.schema import Schema
from robustcf.solve import BestScore, Engine, Limits


def grouped(methods: Sequence[Method], setting: Setting) -> list[tuple[Family[Any], list[int]]]:
    """Group methods by family; each family has the positions of its methods."""
    families: dict[Hashable, tuple[Family[Any], list[int]]] = {}
    for i, method in enumerate(methods):
        key = method.family_key()
        if key not in families:
            families[key] = (method.family(setting), [])
        families[key][1].append(i)
    return list(families.values())


def checked_rows(
    methods: Sequence[Method],
    training: tuple[np.ndarray, np.ndarray] | None,
    forest: Forest,
    schema: Schema,
    targets: Sequence[Label],
    voting: Voting,
) -> Training | None:
    """Return the checked training rows if a method needs them, else None."""
    needing = [method for method in methods if method.needs_training]
    if not needing:
        return None
    if training is None:
        raise ValueError(f"{type(needing[0]).__name__} needs training rows; pass training=(X, y)")
    return Training(forest, schema, *training, targets=targets, voting=voting)


@dataclass(frozen=True)
class RowSolver:
    """The engine, its limits and the families; each family has the positions of its methods."""

    methods: Sequence[Method]
    families: Sequence[tuple[Family[Any], list[int]]]
    engine: Engine
    limits: Limits
    wants_best_score: bool
    best: dict[tuple[object, ...], BestScore]

    def answers(self, row: Customer, k: int, levers: Levers) -> Found:
        """Solve a row for all methods; a failure affects only this row."""
        found: Found = [[] for _ in self.methods]
        for family, members in self.families:
            begin, tools = time.perf_counter(), self._tools(len(members))
            try:
                first = family.answers(row, [self.methods[j] for j in members], tools)
            except Exception as error:  # it becomes the row's status; the other rows continue
                first = [_failed(error) for _ in members]
            for j, answer in zip(members, first, strict=True):
                answer.seconds = (time.perf_counter() - begin) / len(first)
                found[j] = [answer]
                if k > 1 and self.methods[j].has_alternatives:
                    found[j] += self._alternatives(family, row, self.methods[j], answer, k - 1, levers)
        return found

    def _alternatives(
        self, family: Any, row: Customer, method: Method, first: Answer, most: int, levers: Levers
    ) -> list[Answer]:
        found: list[Answer] = []
        try:
            found += islice(alternatives(family, row, method, first, levers, self._tools(most)), most)
        except Exception as error:
            found.append(_failed(error))
        return found

    def with_few_changes(self, row: Customer, most: int) -> list[Answer]:
        """Return the nearest answers of the only method with at most 1, 2, ..., `most` changes."""
        family: Any = self.families[0][0]
        tools = replace(self._tools(most + 1), wants_best_score=False)
        (first,) = family.answers(row, self.methods, tools)
        return with_few_changes(family, row, self.methods[0], first, most, tools)

    def _tools(self, solves: int) -> Tools:
        end = time.monotonic() + self.limits.seconds * solves
        return Tools(self.engine, self.limits, self.wants_best_score, self.best, end)


def _failed(error: Exception) -> Answer:
    return Answer("error", reason=f"{type(error).__name__}: {error}")
