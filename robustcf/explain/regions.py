"""The region around a point in which its decision stays: what happens to a customer who overshoots.

A region is a box. Each changed number may go further than the point, in the direction of the change. All
other features stay as they are at the point. Every combination of values in the box has the score that was
demanded. This is proved by a search for a combination that lacks it, among the same cells and with the same
engine that found the point. No side of the box can be made longer. Longer sides of earlier features can make
those of later ones shorter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from robustcf.counterfactual import Counterfactual
from robustcf.methods.threshold_family import Thresholds
from robustcf.problem.build import score_of
from robustcf.problem.moves import Moves
from robustcf.problem.problem import Problem
from robustcf.problem.reduction import restrict
from robustcf.schema.encode import encode, read_rows
from robustcf.schema.feature import Feature, Value
from robustcf.solve.grid import highest_score, is_reachable

if TYPE_CHECKING:
    from robustcf.explain.explainer import Explainer
    from robustcf.methods.family import Customer
    from robustcf.schema.encode import Row


@dataclass(frozen=True)
class Side:
    """One changed feature of a region.

    All values from `value` to `end` are in the region, in the direction of the change. `end` is None if that
    is every value that the customer may move to. A category has no direction: only `value` is in the region.
    """

    feature: str
    direction: Literal["up", "down", "none"]
    value: Value
    end: Value | None


@dataclass(frozen=True)
class Region:
    """A proved region: every point in it has at least `worst_score`, which is at least `demanded`."""

    sides: tuple[Side, ...]
    worst_score: float
    demanded: float

    @property
    def overshoot_is_safe(self) -> bool:
        """Whether the decision stays however far the customer overshoots."""
        return all(side.end is None for side in self.sides)


def region_of(explainer: Explainer, row: Row, cf: Counterfactual) -> Region | None:
    """Return the region around an answer that works; None if the time limit was reached.

    Parameters
    ----------
    explainer : Explainer
        An explainer of the method of the answer.
    row : mapping
        The customer, in original units.
    cf : Counterfactual
        The answer or an alternative to it.
    """
    if not cf.works or cf.point is None or not cf.method.has_alternatives:
        raise ValueError("a region needs an answer that works, of a method that demands a score alone")
    rules_free = replace(explainer.schema, links=(), max_changes=None)  # rules do not change a score
    alone = explainer.for_method(cf.method).under(rules_free)
    customer = alone.customer(row)
    assert customer is not None  # the answer works, so the row was rejected
    after = read_rows(rules_free, cf.point, missing=True).numbers[0]
    return _Box(alone, customer, after).grown()


class _Box:
    """A box of cells around a point, which grows as long as every combination keeps the score."""

    def __init__(self, explainer: Explainer, customer: Customer, after: np.ndarray) -> None:
        family: Any = explainer.family
        self.family: Thresholds = family
        self.explainer, self.before, self.after = explainer, customer.numbers, after
        self.target = customer.target
        self.demand = self.family.demands(customer.target, explainer.methods)[0]
        self.demanded = self.family.forest.demanded(explainer.methods[0].threshold, customer.target)
        geometry = self.family.geometry
        self.whole: Problem
        self.moves: Moves
        self.whole, self.moves = self.family.problem(customer, self.demand)
        self.start = geometry.start[:-1]
        self.cell = self.start + geometry.cell_of(encode(explainer.schema, after[None, :])[0], after)
        self.open = np.zeros(int(geometry.start[-1]) + 2 * len(self.moves.split), dtype=bool)
        self.open[self.cell] = True

    def grown(self) -> Region | None:
        features = self.explainer.schema.features
        sides = []
        for j, feature in enumerate(features):
            moved = self.before[j] != self.after[j] and not math.isnan(self.after[j])
            if moved:
                side = self._side(j, feature)
                if side is None:
                    return None
                sides.append(side)
        worst = self._worst()
        return None if worst is None else Region(tuple(sides), worst, self.demanded)

    def _side(self, j: int, feature: Feature) -> Side | None:
        """Make one side as long as it stays safe; None if the time limit was reached."""
        value = feature.value(float(self.after[j]))
        if not feature.ordered:
            return Side(feature.name, "none", value, value)
        up = bool(self.after[j] > self.before[j])
        chain = self._beyond(j, up)
        low, high = 0, len(chain)  # cells known to be safe, and at most safe
        while low < high:
            middle = high if low == 0 and high == len(chain) else (low + high + 1) // 2
            safe = self._is_safe(chain[:middle])
            if safe is None:
                return None
            low, high = (middle, high) if safe else (low, middle - 1)
        self.open[chain[:low]] = True
        end = None if low == len(chain) else self._last(j, up, [int(self.cell[j]), *chain[:low]])
        return Side(feature.name, "up" if up else "down", value, end)

    def _beyond(self, j: int, up: bool) -> list[int]:
        """Return the cells beyond the point's that the customer may move to, nearest first."""
        first, last = int(self.start[j]), int(self.family.geometry.start[j + 1])
        here = int(self.cell[j])
        cells = range(here + 1, last) if up else range(here - 1, first - 1, -1)
        return [c for c in cells if self.moves.allowed[c]]

    def _last(self, j: int, up: bool, cells: list[int]) -> Value:
        """Return the last number of some cells in the direction of the change."""
        geometry, feature = self.family.geometry, self.explainer.schema.features[j]
        ends = (geometry.high if up else geometry.low)[cells]
        numbers = [float(self.after[j]), *ends[~np.isnan(ends)].tolist()]
        return feature.value(max(numbers) if up else min(numbers))

    def _reversed(self, more: list[int], condition: int = 0) -> tuple[Problem, int]:
        """Return the box with the votes against a condition, and the most votes that it can have.

        The first condition is the score; a decision by plurality has further ones.
        """
        keep = self.open.copy()
        keep[more] = True
        box = restrict(self.whole, keep[self.whole.cell], np.inf)
        votes = box.votes[condition : condition + 1]
        most = int(votes.max()) if votes.size else 0
        against = box.n_trees * most - int(box.demand[condition]) + 1
        demand = np.array([against], dtype=np.int64)
        return box._replace(votes=most - votes, demand=demand), box.n_trees * most

    def _is_safe(self, more: list[int]) -> bool | None:
        """Whether every combination of the box and more cells has the score; None if time is up."""
        for condition in range(len(self.whole.demand)):
            problem, _ = self._reversed(more, condition)
            found = is_reachable(problem, self.explainer.engine, self.explainer.limits)
            if found is not False:
                return None if found is None else False
        return True

    def _worst(self) -> float | None:
        """Return the lowest score in the box."""
        problem, most = self._reversed([])
        folded = self.demand - (most - int(problem.demand[0]) + 1)  # votes of trees with one outcome
        against = 0
        if problem.n_trees:
            against = highest_score(problem, self.explainer.engine, self.explainer.limits).at_most
        family = self.family
        return score_of(most - against + folded, family.forest, self.target, family.voting)
