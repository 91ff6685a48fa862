"""Solve one row for all methods of an explainer, with alternatives."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from robustcf.explain.checks import Found
from robustcf.methods.alternatives import Levers, alternatives, with_few_changes
from robustcf.methods.base import Method
from robustcf.methods.family import Answer, Customer, Family, Tools
from robustcf.methods.threshold_family import Thresholds
from robustcf.solve import BestScore, Engine, Limits
from robustcf.solve.grid import is_reachable


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

    def has_way(self, family: Thresholds, row: Customer, seconds: float) -> bool | None:
        """Return whether a point reaches the only method's score; None if the time was not enough."""
        problem, _ = family.problem(row, family.demands(row.target, self.methods)[0])
        return is_reachable(problem, self.engine, replace(self.limits, seconds=seconds))

    def _tools(self, solves: int) -> Tools:
        end = time.monotonic() + self.limits.seconds * solves
        return Tools(self.engine, self.limits, self.wants_best_score, self.best, end)


def _failed(error: Exception) -> Answer:
    return Answer("error", reason=f"{type(error).__name__}: {error}")
