"""robustcf's own exact engine: compiled branch and bound under prices.

1. The problem is reduced. If few choices are cheaper than the best known, each of them is tried.
2. Otherwise a few rounds of ascent give prices, which filter options, and a short search follows.
3. An open problem is priced by a linear relaxation. The relaxation that a grid's demands share comes first;
   it drops options or closes the problem. The problem's own relaxation comes next, and its solution is
   rounded to find a better choice.
4. The search continues under a node budget. A subtree that exceeds the budget is split in two by strong
   branching, with warm re-solves of the same relaxation.
5. A subtree that has lost enough options restarts as a smaller problem of its own.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cache

import numpy as np

from robustcf.problem.problem import Problem, choice_within, reduce, restrict
from robustcf.solve.bounds import quick_prices
from robustcf.solve.contract import (
    BestScore,
    CutShort,
    Finished,
    Limits,
    Outcome,
    Solution,
    cheapest,
    most_votes,
    settle,
)
from robustcf.solve.factors import Factors, build_factors, vote_units
from robustcf.solve.incumbent import climb_votes, find_incumbent, improve, repair
from robustcf.solve.prices import Prices, Relaxation
from robustcf.solve.scale import factor_for, scaled
from robustcf.solve.search import (
    CHEAPEST,
    MOST,
    REACH,
    Stack,
    count_cheaper,
    filter_root,
    new_stack,
    run,
    start_search,
    try_cheaper,
)
from robustcf.solve.shared import Shared
from robustcf.support.tolerances import LEAST_SAVING, MISSING_VOTES

ENUMERATE = 400_000  # most leaf visits spent on trying every cheaper choice
ROUNDS = 10  # rounds of price ascent before the first filter
QUICK = 64  # nodes searched under cheap or inherited prices
BUDGET = 512  # nodes searched under a relaxation's prices before a subtree is priced again
STRONG = 8  # most cuts tried when a subtree is split by its relaxation
SHRUNK = 0.8  # a subtree with a smaller share of options alive becomes a problem of its own
HEIGHT = 64  # most open nodes of one search, which bounds its memory; further nodes are returned
SHARES = (0.7, 0.5, 0.3)  # rounding thresholds for a relaxed solution
CHUNK = 256  # nodes between checks of the clock


@dataclass
class _Open:
    """An open subtree: its options alive, its bound, and its prices.

    `relaxed` says that the prices come from its own relaxation, not from ascent or a parent.
    """

    alive: np.ndarray
    bound: float
    prices: Prices | None
    relaxed: bool = False


@dataclass
class _Search:
    """The state that all subtrees share: goal, best value, limits and counts.

    With the goal CHEAPEST, the value is the cost of a choice that meets the demand. With MOST, it is the
    number of votes that a choice lacks of the demand. With REACH, it is the same number, but only choices
    that meet the demand count: `upper` is MISSING_VOTES until one is found, and only subtrees that lack
    more votes are closed. Where the value counts votes, all costs of the problem are zero.
    """

    upper: float
    goal: int
    units: np.ndarray
    end: float
    most_nodes: float = math.inf
    cells: np.ndarray | None = None
    nodes: int = 0
    shared: Shared | None = None  # None after it was used once

    @property
    def by_votes(self) -> bool:
        return self.goal != CHEAPEST

    @property
    def must_stop(self) -> bool:
        """Whether the goal or a limit is reached."""
        reached = self.goal == REACH and self.cells is not None
        return reached or self.nodes >= self.most_nodes or time.monotonic() >= self.end

    def solve(self, problem: Problem, bound: float = -math.inf) -> Outcome:
        """Search a problem until nothing better is left, or until a limit."""
        while True:
            problem = reduce(problem, math.inf if self.by_votes else self.upper)
            if (np.diff(problem.tree_start) == 0).any():  # a tree has no leaf within the cost limit
                return Finished()
            if not problem.n_leaves:
                self._try(problem, cheapest(problem))
                return Finished()
            if not self.by_votes and self._enumerate(problem):
                return Finished()
            F = build_factors(problem, self.units)
            prices, marginals = self._quick_prices(F)
            bound = max(bound, float(np.minimum.reduceat(marginals, F.start[:-1]).max()))
            if bound >= self.upper - LEAST_SAVING:
                return Finished()
            keep = marginals < self.upper - LEAST_SAVING
            if keep.sum() > SHRUNK * len(keep):
                return self._solve_level(problem, F, _Open(keep, bound, prices))
            problem = restrict(problem, keep, math.inf)

    def _enumerate(self, problem: Problem) -> bool:
        """Try every cheaper choice if there are few; return whether that was done."""
        order = np.lexsort((problem.cost, np.repeat(np.arange(problem.n_features), np.diff(problem.start))))
        most = ENUMERATE // problem.n_leaves
        if count_cheaper(problem, order, self.upper, most) > most:
            return False
        best = np.zeros(problem.n_features, dtype=np.int64)
        value = try_cheaper(problem, order, self.upper, best)
        if value < self.upper:
            self.upper, self.cells = value, problem.cell[problem.start[:-1] + best]
        return True

    def _quick_prices(self, F: Factors) -> tuple[Prices, np.ndarray]:
        lam = np.zeros(len(F.demand))
        lam[0] = 1.0 if self.by_votes else max(self.upper, 1e-3) / max(F.demand[0], 1e-3)
        theta, phi, marginals = quick_prices(F, lam, ROUNDS, self.by_votes)
        return Prices(theta, phi, lam), marginals

    def _solve_level(self, problem: Problem, F: Factors, root: _Open) -> Outcome:
        """Search one reduced problem; its subtrees share the layout and the relaxation."""
        relaxation: Relaxation | None = None
        stack = new_stack(F, HEIGHT)
        budget = BUDGET * max(1, problem.n_leaves // 1500) ** 2  # an LP's time grows faster than a node's
        todo = [root]
        left_open: list[float] = []  # bounds of smaller problems that a limit cut short
        while todo and not self.must_stop:
            node = todo.pop()
            if node.bound >= self.upper - LEAST_SAVING:
                continue
            if node.prices is not None and self._filter(F, stack, node):
                continue
            shrunk = node.alive.sum() < SHRUNK * len(node.alive)
            if not shrunk and self.shared is not None and self.shared.ready(problem, self.upper):
                todo += self._screened(problem, node)
                continue
            if node.prices is not None and not shrunk:
                left = self._run(problem, F, stack, node, budget if node.relaxed else QUICK)
                if not left or self.must_stop:
                    todo += left
                    continue
            if shrunk:
                outcome = self.solve(restrict(problem, node.alive, math.inf), node.bound)
                if isinstance(outcome, CutShort):
                    left_open.append(outcome.bound)
                continue
            if self.shared is not None:
                todo += self._screened(problem, node)
                continue
            fresh = relaxation is None
            if relaxation is None:
                relaxation = Relaxation(problem, F, self.by_votes)
            if node.relaxed:
                todo += self._split(problem, relaxation, node)
                continue
            value = relaxation.bound(node.alive, self.end - time.monotonic())
            if math.isfinite(value):
                if fresh:
                    self._round(problem, relaxation)
                todo.append(_Open(node.alive, node.bound, relaxation.prices(), relaxed=True))
            elif time.monotonic() >= self.end:
                todo.append(node)
            else:
                todo += self._without_prices(problem, node)
        for node in todo:  # out of time: new halves still have their parents' bounds
            if node.relaxed:
                self._filter(F, stack, node)
        left_open += [node.bound for node in todo if node.bound < self.upper - LEAST_SAVING]
        return CutShort(min(left_open)) if left_open else Finished()

    def _screened(self, problem: Problem, node: _Open) -> list[_Open]:
        """Filter a node with the grid's relaxation, which is used only once per problem."""
        assert self.shared is not None
        shared, self.shared = self.shared, None
        bound, alive = node.bound, node.alive
        if shared.prepare(problem, self.upper):
            found = shared.keep(problem, alive, self.upper, self.end - time.monotonic())
            if found is not None:
                bound, alive = max(bound, found[0]), found[1]
        return [_Open(alive, bound, None)] if bound < self.upper - LEAST_SAVING else []

    def _round(self, problem: Problem, relaxation: Relaxation) -> None:
        """Look for better choices near the relaxation's solution."""
        for start in relaxation.rounded(SHARES):
            choice = climb_votes(problem, start) if self.by_votes else repair(problem, start)
            if choice is not None:
                self._try(problem, choice)

    def _split(self, problem: Problem, relaxation: Relaxation, node: _Open) -> list[_Open]:
        """Split a subtree that its prices could not close, by strong branching.

        The most fractional cuts of the relaxation are tried on both sides until one is no better than those
        before it. The cut with the largest product of both sides' increases is taken. The more promising side
        comes last and is searched first. If the time is up, the subtree is returned unchanged.
        """
        here = relaxation.bound(node.alive, self.end - time.monotonic())
        best, halves = -1.0, [node]
        for f, cut in relaxation.undecided(STRONG) or [self._middle(problem, node.alive)]:
            sides = []
            for low_side in (True, False):
                alive = node.alive.copy()
                options = np.arange(problem.start[f], problem.start[f + 1])
                low = options < cut if problem.ordered[f] else options == cut
                alive[options[low != low_side]] = False
                value = relaxation.bound(alive, self.end - time.monotonic(), self.upper)
                prices = relaxation.prices() if math.isfinite(value) else None
                sides.append((value, _Open(alive, node.bound, prices, prices is not None)))
            values = [value for value, _ in sides]
            rise = math.prod(max(min(value, self.upper) - here, 1e-9) for value in values)
            if math.isnan(rise):
                if time.monotonic() >= self.end:
                    return halves
                rise = 0.0  # a relaxation that failed: any cut will do
            if rise <= best:
                break
            best, halves = rise, [side for _, side in sorted(sides, key=lambda side: -side[0])]
            if min(values) >= self.upper:
                break
        return halves

    def _middle(self, problem: Problem, alive: np.ndarray) -> tuple[int, int]:
        """Return a cut through the middle of the feature with the most options."""
        f = int(np.add.reduceat(alive, problem.start[:-1]).argmax())
        options = np.flatnonzero(alive[problem.start[f] : problem.start[f + 1]]) + problem.start[f]
        return f, int(options[len(options) // 2 if problem.ordered[f] else 0])

    def _filter(self, F: Factors, stack: Stack, node: _Open) -> bool:
        """Drop options that no better choice can use; return whether this closes it."""
        assert node.prices is not None
        start_search(stack, node.alive, node.bound)
        node.bound = max(node.bound, filter_root(F, *node.prices, stack, self.upper))
        node.alive, stack.bound[0] = stack.alive[0].copy(), node.bound
        return node.bound >= self.upper - LEAST_SAVING

    def _run(self, problem: Problem, F: Factors, stack: Stack, node: _Open, budget: int) -> list[_Open]:
        """Search a filtered node; return what is open when the budget is spent."""
        assert node.prices is not None
        theta, phi, lam = node.prices
        best = np.zeros(problem.n_features, dtype=np.int64)
        height, seen = 1, 0
        while height and seen < budget and height < HEIGHT - 1 and not self.must_stop:
            before = self.upper
            chunk = min(CHUNK, budget - seen)
            height, self.upper, nodes = run(
                F, problem, theta, phi, lam, stack, height, self.upper, best, self.goal, chunk
            )
            self.nodes, seen = self.nodes + nodes, seen + nodes
            if self.upper < before:
                self.cells = problem.cell[problem.start[:-1] + best]
        return [
            _Open(stack.alive[i].copy(), float(stack.bound[i]), node.prices)
            for i in range(height)
            if stack.bound[i] < self.upper - LEAST_SAVING
        ]

    def _try(self, problem: Problem, choice: np.ndarray) -> None:
        first = int(self.goal == MOST)
        votes = problem.votes_of(choice)
        if (votes[first:] < problem.demand[first:]).any():
            return
        lacking = (problem.demand[0] - votes[0]) / self.units[0]
        value = lacking if self.by_votes else problem.objective(choice)
        if value < self.upper - LEAST_SAVING:
            self.upper, self.cells = value, problem.cell[problem.start[:-1] + choice]

    def _without_prices(self, problem: Problem, node: _Open) -> list[_Open]:
        """Handle a subtree whose LP has no solution.

        It is closed if no choice in it reaches the demand, and halved otherwise.
        """
        here = restrict(problem, node.alive, math.inf)
        if not self.by_votes:
            reach = _reach(here, self.units, self.end)
            if isinstance(reach.solve(_free(here)), Finished) and reach.cells is None:
                return []
        counts = np.add.reduceat(node.alive, problem.start[:-1])
        f = int(counts.argmax())
        if counts[f] == 1:
            self._try(here, cheapest(here))
            return []
        options = np.flatnonzero(node.alive[problem.start[f] : problem.start[f + 1]]) + problem.start[f]
        halves = []
        for dead in (options[: len(options) // 2], options[len(options) // 2 :]):
            alive = node.alive.copy()
            alive[dead] = False
            halves.append(_Open(alive, node.bound, None))
        return halves


def _free(problem: Problem) -> Problem:
    return problem._replace(cost=np.zeros_like(problem.cost))


def _reach(problem: Problem, units: np.ndarray, end: float, most_nodes: float = math.inf) -> _Search:
    """Create a search for any choice that meets every demand."""
    return _Search(MISSING_VOTES + LEAST_SAVING, REACH, units, end, most_nodes)


@cache
def compile_kernels() -> None:
    """Compile every kernel (once per machine) and load it (once per process).

    Compilation then does not count towards a row's time limit.
    """
    whole = Problem(
        start=np.array([0, 3, 6]),
        cost=np.array([0.0, 1.0, 2.0, 0.0, 0.5, 0.5]),
        cell=np.arange(6),
        ordered=np.array([True, False]),
        tree_start=np.array([0, 3, 5]),
        votes=np.array([[0, 1, 0, 1, 0]]),
        demand=np.array([2]),
        entry_start=np.array([0, 2, 4, 5, 6, 7]),
        feature=np.array([0, 1, 0, 1, 0, 1, 1]),
        lo=np.array([0, 0, 0, 0, 2, 0, 0]),
        hi=np.array([1, 2, 1, 2, 2, 2, 2]),
        set=np.array([-1, 0, -1, 1, -1, 2, 3]),
        member=np.array([[1, 0, 0], [0, 1, 1], [0, 1, 0], [1, 0, 1]], dtype=bool),
    )
    problem = restrict(whole, np.ones(6, dtype=bool), math.inf)
    find_incumbent(problem, cheapest(problem))
    units, never = vote_units(problem), time.monotonic() + 1e9
    for goal in (MOST, CHEAPEST):
        search = _Search(math.inf, goal, units, never)
        reduced = reduce(problem, math.inf)
        search._enumerate(reduced)
        F = build_factors(reduced, units)
        quick_prices(F, np.array([1.0]), 1, search.by_votes)
        everything = np.ones(len(F.cost), dtype=bool)
        relaxation = Relaxation(reduced, F, search.by_votes)
        relaxation.bound(everything, 1e9)
        relaxation.undecided(1)
        search._round(reduced, relaxation)
        node, stack = _Open(everything, -math.inf, relaxation.prices()), new_stack(F, HEIGHT)
        search._filter(F, stack, node)
        search._run(reduced, F, stack, node, 9)
    climb_votes(problem, improve(problem, np.array([1, 1])))


class OwnEngine:
    """robustcf's own branch and bound, the default engine."""

    name = "engine"

    def __init__(self) -> None:
        compile_kernels()

    def nearest(
        self,
        problem: Problem,
        limits: Limits,
        incumbent: np.ndarray | None = None,
        lower_bound: float = 0.0,
        shared: Shared | None = None,
    ) -> Solution:
        """Solve as `Engine.nearest`; `shared` is the relaxation of the problem's grid."""
        if (settled := settle(problem)) is not None:
            return settled
        end, units, nodes = time.monotonic() + limits.seconds, vote_units(problem), 0
        if incumbent is None:  # find any choice that reaches the demand first
            reach = _reach(problem, units, end, limits.nodes)
            outcome, nodes = reach.solve(_free(problem)), reach.nodes
            if reach.cells is None:
                return Solution(
                    outcome if isinstance(outcome, Finished) else CutShort(lower_bound), nodes=nodes
                )
            reached = choice_within(problem, reach.cells)
            assert reached is not None
            incumbent = improve(problem, reached)
        factor = factor_for(problem.objective(incumbent))
        if shared is not None:
            shared.scale(factor)
        search = _Search(
            problem.objective(incumbent) * factor, CHEAPEST, units, end, limits.nodes, shared=shared
        )
        outcome = search.solve(scaled(problem, factor))
        choice = incumbent if search.cells is None else choice_within(problem, search.cells)
        assert choice is not None
        choice = improve(problem, choice)  # the search ignores savings below LEAST_SAVING
        if isinstance(outcome, CutShort):
            outcome = CutShort(max(outcome.bound / factor, lower_bound))
        return Solution(outcome, choice, problem.objective(choice), nodes + search.nodes)

    def best_score(self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None) -> BestScore:
        if (np.diff(problem.tree_start) == 0).any():
            return BestScore(None, 0, 0)
        units, demand = vote_units(problem), int(problem.demand[0])
        search = _Search(math.inf, MOST, units, time.monotonic() + limits.seconds, limits.nodes)
        search._try(problem, climb_votes(problem, cheapest(problem) if incumbent is None else incumbent))
        outcome = search.solve(_free(problem))
        choice = None if search.cells is None else choice_within(problem, search.cells)
        votes = 0 if choice is None else int(problem.votes_of(choice)[0])
        if isinstance(outcome, Finished):
            return BestScore(choice, votes, votes)
        at_most = int(most_votes(problem)[0])
        if math.isfinite(outcome.bound):
            at_most = min(at_most, demand - math.ceil((outcome.bound - MISSING_VOTES) * units[0]))
        return BestScore(choice, votes, max(votes, at_most))
