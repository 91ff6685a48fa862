"""Answers that differ from the nearest one, and answers with few changes.

A *lever* is a group of features that count as one way to change; by default every feature is one. Candidates
are found in order of distance. Each is the nearest point that does not pull all levers of an earlier
candidate. A candidate that pulls only levers of an earlier one says nothing new and is passed over. Of two
answers, neither pulls all levers of the other.

Each candidate is one solve of the same problem with one condition more: of an earlier candidate's levers, at
least one stays (`Stays`). Its optimum can therefore be proved, and earlier optima are lower bounds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from robustcf.methods.family import Answer, Customer, Tools
from robustcf.methods.threshold_family import Thresholds, answer_of, without_idle_moves
from robustcf.problem.build import own_choice, with_stays
from robustcf.problem.rules import Stays
from robustcf.schema.schema import Schema
from robustcf.solve.grid import solve_grid

if TYPE_CHECKING:
    from robustcf.methods.base import Method


@dataclass(frozen=True)
class Levers:
    """Disjoint groups of features, as positions; together they are all features."""

    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, schema: Schema, named: Mapping[str, Iterable[str]] | None = None) -> Levers:
        """Return the named groups; each feature that is in none is a lever of its own.

        >>> from robustcf.schema.schema import Feature
        >>> schema = Schema(tuple(Feature(n, "binary", values=(0, 1)) for n in "abc"))
        >>> Levers.of(schema, {"both": ["a", "c"]}).groups
        ((0, 2), (1,))
        """
        groups, taken = [], set[str]()
        for name, features in (named or {}).items():
            members = (features,) if isinstance(features, str) else tuple(features)
            if not members:
                raise ValueError(f"lever {name!r} has no features")
            for feature in members:
                if feature not in schema.names:
                    raise ValueError(f"lever {name!r}: no feature {feature!r}")
                if feature in taken:
                    raise ValueError(f"lever {name!r}: feature {feature!r} is listed twice")
                taken.add(feature)
            groups.append(tuple(schema.names.index(feature) for feature in members))
        groups += [(j,) for j, feature in enumerate(schema.names) if feature not in taken]
        return cls(tuple(groups))

    def pulled(self, before: np.ndarray, after: np.ndarray) -> frozenset[int]:
        """Return the levers with a feature that changes."""
        moved = (before != after) & ~(np.isnan(before) & np.isnan(after))
        return frozenset(k for k, group in enumerate(self.groups) if moved[list(group)].any())

    def one_stays(self, pulled: frozenset[int]) -> Stays:
        """Return the condition that at least one of these levers is not pulled."""
        return Stays(tuple(self.groups[k] for k in sorted(pulled)), 1)


@dataclass(frozen=True)
class _Posed:
    """One customer's problem at one demand, which takes further conditions."""

    family: Thresholds
    row: Customer
    method: Method
    tools: Tools

    def nearest(self, conditions: Iterable[Stays], lower: float) -> Answer:
        """Return the nearest point under conditions; `lower` is a proved bound on its distance."""
        begin = time.perf_counter()
        family, row = self.family, self.row
        problem, moves = family.problem(row, family.demands(row.target, [self.method])[0])
        own = own_choice(family.geometry, moves, problem)
        problem = with_stays(problem, own, tuple(conditions))
        demand = int(problem.demand[0])
        (solution,) = solve_grid(problem, [demand], self.tools.engine, self.tools.limits, lower=lower)
        solution = without_idle_moves(solution, problem, demand, own)
        answer = answer_of(solution, problem, moves, row.numbers)
        return replace(answer, seconds=time.perf_counter() - begin)


def alternatives(
    family: Thresholds, row: Customer, method: Method, first: Answer, levers: Levers, tools: Tools
) -> Iterator[Answer]:
    """Yield the alternatives to the nearest answer `first`, nearest first.

    They end where no other exists, which is proved, or with a `timeout` where the time limit was reached.
    """
    if first.numbers is None or first.status not in ("optimal", "feasible"):
        return
    posed, lower = _Posed(family, row, method, tools), _proved(first)
    seen = [levers.pulled(row.numbers, first.numbers)]
    while True:
        answer = posed.nearest(map(levers.one_stays, seen), lower)
        if answer.status == "no_recourse":
            return
        if answer.numbers is None:
            yield replace(answer, reason="the time limit was reached before a further alternative was found")
            return
        lower = max(lower, _proved(answer))
        found = levers.pulled(row.numbers, answer.numbers)
        if answer.status == "feasible":
            answer = replace(answer, reason="the time limit was reached: a nearer alternative may exist")
        if not any(found <= earlier for earlier in seen):
            yield answer
        seen.append(found)


def with_few_changes(
    family: Thresholds, row: Customer, method: Method, first: Answer, most: int, tools: Tools
) -> list[Answer]:
    """Return the nearest answers with at most 1, 2, ..., `most` changed features."""
    if first.numbers is None or first.status not in ("optimal", "feasible"):
        return [first] * most
    posed, each = _Posed(family, row, method, tools), Levers.of(family.schema)
    everything = tuple((j,) for j in range(len(family.schema)))
    answers, answer = [first] * most, first
    for allowed in range(most, 0, -1):
        if answer.numbers is not None and len(each.pulled(row.numbers, answer.numbers)) > allowed:
            answer = posed.nearest([Stays(everything, len(everything) - allowed)], _proved(answer))
        elif answer.status == "timeout":
            answer = posed.nearest([Stays(everything, len(everything) - allowed)], 0.0)
        answers[allowed - 1] = answer  # without any point, fewer changes have none either
    return answers


def _proved(answer: Answer) -> float:
    """Return a proved lower bound on answers under further conditions."""
    return answer.objective if answer.status == "optimal" else 0.0
