"""What blocks a customer without recourse: a smallest set of constraints whose lifting opens a way.

Lifting more constraints never closes a way. So every set from which no way opens can be enlarged to a largest
one, and a set that opens a way contains a constraint outside of each of them. The search proposes the first
smallest set that does, tests it, and enlarges it if it opens nothing. The first proposal that opens a way is
smallest, because every smaller set lies inside a set that was proved to open none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from robustcf.counterfactual import Counterfactual
from robustcf.schema.lifting import Constraint, constraints_of, describe, lifted
from robustcf.schema.schema import Schema

if TYPE_CHECKING:
    from robustcf.explain.explainer import Explainer
    from robustcf.schema.encode import Row


class _OutOfTime(Exception):
    pass


@dataclass(frozen=True)
class Blockers:
    """What blocks a customer.

    - `found`: `constraints` is a smallest set whose lifting opens a way, and `answer` is the nearest change
      without them. That no smaller set suffices is proved.
    - `none`: even without all constraints no change reaches the score. This is proved.
    - `unknown`: the time limit was reached first.
    - `not_blocked`: the customer has a way, or needs none.
    """

    status: Literal["found", "none", "unknown", "not_blocked"]
    schema: Schema
    constraints: tuple[Constraint, ...] = ()
    answer: Counterfactual | None = None

    @property
    def words(self) -> list[str]:
        """The constraints as text for people."""
        return [describe(self.schema, constraint) for constraint in self.constraints]


def blockers_of(
    explainer: Explainer, row: Row, *, keep: Iterable[str] = (), time_limit: float = 60.0
) -> Blockers:
    """Return a smallest set of constraints whose lifting opens a way for a customer.

    Several smallest sets may exist; the first in the order of the schema is returned.

    Parameters
    ----------
    explainer : Explainer
        An explainer with one method that demands a score alone.
    row : mapping
        The customer, in original units.
    keep : iterable of str
        Constraints that are never lifted: names of features, and "link" and "max_changes".
    time_limit : float
        Seconds for the whole search.
    """
    customer = explainer.customer(row)
    kept = {*keep}
    if unknown := sorted(kept - {*explainer.schema.names, "link", "max_changes"}):
        raise ValueError(f"keep: no feature {unknown[0]!r}")
    end = time.monotonic() + time_limit
    if customer is None:
        return Blockers("not_blocked", explainer.schema)

    def opens(constraints: Sequence[Constraint]) -> bool:
        left = end - time.monotonic()
        schema = lifted(explainer.schema, constraints)
        found = None if left <= 0 else explainer.under(schema).has_way(customer, left)
        if found is None:
            raise _OutOfTime
        return found

    free = [c for c in constraints_of(explainer.schema) if not {c.feature, c.kind} & kept]
    try:
        if opens(()):
            return Blockers("not_blocked", explainer.schema)
        found = smallest_opening(free, opens)
    except _OutOfTime:
        return Blockers("unknown", explainer.schema)
    if found is None:
        return Blockers("none", explainer.schema)
    answer = explainer.under(lifted(explainer.schema, found)).explain(row)
    return Blockers("found", explainer.schema, found, answer)


def smallest_opening(
    constraints: Sequence[Constraint], opens: Callable[[Sequence[Constraint]], bool]
) -> tuple[Constraint, ...] | None:
    """Return the first smallest set for which `opens` is true; None if it is false for all constraints.

    `opens` must be false for the empty set, and stay true when constraints are added.
    """
    n = len(constraints)

    def test(chosen: Iterable[int]) -> bool:
        return opens([constraints[i] for i in sorted(chosen)])

    if not n or not test(range(n)):
        return None
    outside: list[frozenset[int]] = []  # every opening set has a member in each of these
    size, closed = 1, frozenset[int]()
    while True:
        for i in range(n):  # enlarge the closed set as far as it stays closed
            if i not in closed and not test(closed | {i}):
                closed |= {i}
        outside.append(frozenset(range(n)) - closed)
        proposal = None
        while proposal is None:
            choices = (frozenset(c) for c in combinations(range(n), size))
            proposal = next((c for c in choices if all(c & other for other in outside)), None)
            size += proposal is None
        if test(proposal):
            return tuple(constraints[i] for i in sorted(proposal))
        closed = proposal
