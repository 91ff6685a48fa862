"""One linear relaxation for the many demands of one customer's grid.

For a large forest, solving a relaxation from scratch takes most of the time of a proof. Little changes from
one demand to the next. The relaxation is therefore built once, for the largest demand whose problem is
about as large, and re-solved warm as the demand rises. Options that are too dear for the current demand are
closed. The prices then drop options of the current demand's own, smaller problem, or close it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache, partial

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.problem.reduction import reduce
from robustcf.solve.factors import Factors, build_factors, demand_in_units, vote_units
from robustcf.solve.prices import Prices, Relaxation
from robustcf.solve.search import Stack, filter_root, new_stack, start_search

WIDER = 2  # a shared relaxation may have this many times the leaves of the current problem


class Shared:
    """Drops options that no cheaper choice can use, one demand at a time.

    Parameters
    ----------
    whole : Problem
        The problem before any reduction by cost; the demands differ only in the votes needed.
    uppers : sequence of float
        Costs of the best known choices at the demands.
    """

    def __init__(self, whole: Problem, uppers: Sequence[float]) -> None:
        self._whole, self._uppers = whole, sorted(set(uppers))
        self._units = vote_units(whole)
        self._demand = whole.demand
        self._factor = 1.0
        self._covered = -math.inf
        self._problem: Problem
        self._factors: Factors
        self._relaxation: Relaxation
        self._stack: Stack
        self._option_of: np.ndarray

    def set_demand(self, demand: np.ndarray) -> None:
        """Set the current demand of the whole problem."""
        self._demand = demand

    def scale(self, factor: float) -> None:
        """Set the factor that the costs of the following problems are multiplied by."""
        self._factor = factor

    def ready(self, problem: Problem, upper: float) -> bool:
        """Whether the current relaxation covers a problem and is not too large for it."""
        return upper / self._factor <= self._covered and self._problem.n_leaves <= WIDER * problem.n_leaves

    def prepare(self, problem: Problem, upper: float) -> bool:
        """Build a relaxation for this problem and dearer ones of similar size.

        Returns whether a relaxation is ready.
        """
        if self.ready(problem, upper):
            return True
        wider = [u for u in self._uppers if u > upper / self._factor]
        reduced = cache(partial(reduce, self._whole))
        fitting = bisect_right(wider, WIDER * problem.n_leaves, key=lambda u: reduced(u).n_leaves)
        if fitting:
            self._build(reduced(wider[fitting - 1]), wider[fitting - 1])
        return fitting > 0

    def _build(self, problem: Problem, upper: float) -> None:
        self._problem, self._covered = problem, upper
        self._factors = build_factors(problem, self._units)
        self._relaxation = Relaxation(problem, self._factors, maximise=False)
        self._stack = new_stack(self._factors, 1)
        self._option_of = np.full(self._whole.cell.max() + 1, -1)
        self._option_of[problem.cell] = np.arange(len(problem.cell))

    def keep(
        self, problem: Problem, alive: np.ndarray, upper: float, seconds: float
    ) -> tuple[float, np.ndarray] | None:
        """Return a bound on all choices of the options alive, and the options to keep.

        None if the relaxation does not help: it lacks an option, has no solution, or the time is up.
        """
        known = self._option_of[problem.cell]
        if (known < 0).any():
            return None
        open_ = np.zeros(len(self._problem.cost), dtype=bool)
        open_[known[alive]] = True
        wanted = self._problem.demand + self._demand - self._whole.demand
        demand = demand_in_units(wanted, self._units, self._problem.n_trees)
        factors = self._factors._replace(demand=demand)
        self._relaxation.set_demand(demand)
        if not math.isfinite(self._relaxation.bound(open_, seconds)):
            return None
        start_search(self._stack, open_, -math.inf)
        prices = Prices(*(values * self._factor for values in self._relaxation.prices()))
        bound = filter_root(factors, *prices, self._stack, upper)
        return bound, self._stack.alive[0][known]
