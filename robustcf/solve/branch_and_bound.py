"""The search of robustcf's own engine: compiled branch and bound with propagation and prices.

1. The problem is reduced and searched by propagation alone, which closes many problems in a few nodes.
2. Otherwise a few rounds of ascent give prices, which filter options. A search under these prices follows.
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

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.problem.reduction import reduce, restrict
from robustcf.solve.bounds import quick_prices
from robustcf.solve.contract import CutShort, Finished, Outcome, cheapest
from robustcf.solve.factors import Factors, build_factors
from robustcf.solve.incumbent import climb_votes, repair
from robustcf.solve.prices import Prices, Relaxation
from robustcf.solve.search import (
    CHEAPEST,
    MOST,
    REACH,
    Stack,
    filter_root,
    new_stack,
    run,
    start_search,
)
from robustcf.solve.shared import Shared
from robustcf.solve.strong_branching import OpenSubtree, split_subtree
from robustcf.support.tolerances import LEAST_SAVING, MISSING_VOTES

ROUNDS = 10  # rounds of price ascent before the first filter
PROPAGATE = True  # tests set it to False, so that small problems reach the later stages
PROPAGATED = 100  # nodes searched by propagation alone
QUICK = 400  # nodes searched under cheap or inherited prices
BUDGET = 1024  # nodes searched under a relaxation's prices before a subtree is priced again
SHRUNK = 0.8  # a subtree with a smaller share of options alive becomes a problem of its own
HEIGHT = 1024  # most open nodes of one search; further nodes are returned
STACK_BYTES = 2**26  # the memory of these nodes, but at least 64 of them
SHARES = (0.7, 0.5, 0.3)  # rounding thresholds for a relaxed solution
CHUNK = 256  # nodes between checks of the clock


@dataclass
class Search:
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
    def propagates(self) -> bool:
        return PROPAGATE and self.goal != MOST  # with the goal MOST, the demand is no condition

    @property
    def must_stop(self) -> bool:
        """Whether the goal or a limit is reached."""
        reached = self.goal == REACH and self.cells is not None
        return reached or self.nodes >= self.most_nodes or time.monotonic() >= self.end

    def solve(self, problem: Problem, bound: float = -math.inf) -> Outcome:
        """Search a problem until nothing better is left, or until a limit."""
        while True:
            problem = reduce(problem, math.inf if self.by_votes else self.upper)
            if problem.has_closed_tree:  # a tree has no leaf within the cost limit
                return Finished()
            if not problem.n_leaves:
                self.try_choice(problem, cheapest(problem))
                return Finished()
            F = build_factors(problem, self.units)
            if self.propagates and self._propagate(problem, F, bound):
                return Finished()
            if self.must_stop:
                return CutShort(bound)
            prices, marginals = self._quick_prices(F)
            bound = max(bound, float(np.minimum.reduceat(marginals, F.start[:-1]).max()))
            if bound >= self.upper - LEAST_SAVING:
                return Finished()
            keep = marginals < self.upper - LEAST_SAVING
            if keep.sum() > SHRUNK * len(keep):
                return self._solve_level(problem, F, OpenSubtree(keep, bound, prices))
            problem = restrict(problem, keep, math.inf)

    def _propagate(self, problem: Problem, F: Factors, bound: float) -> bool:
        """Search by propagation alone; return whether this closes the problem."""
        stack, root = deep_stack(F), OpenSubtree(np.ones(len(F.cost), dtype=bool), bound, None)
        start_search(stack, root.alive, bound)
        return not self.search_subtree(problem, F, stack, root, PROPAGATED)

    def _quick_prices(self, F: Factors) -> tuple[Prices, np.ndarray]:
        lam = np.zeros(len(F.demand))
        lam[0] = 1.0 if self.by_votes else max(self.upper, 1e-3) / max(F.demand[0], 1e-3)
        theta, phi, marginals = quick_prices(F, lam, ROUNDS, self.by_votes)
        return Prices(theta, phi, lam), marginals

    def _solve_level(self, problem: Problem, F: Factors, root: OpenSubtree) -> Outcome:
        """Search one reduced problem; its subtrees share the layout and the relaxation."""
        relaxation: Relaxation | None = None
        stack = deep_stack(F)
        budget = BUDGET * max(1, problem.n_leaves // 1500) ** 2  # an LP's time grows faster than a node's
        todo = [root]
        left_open: list[float] = []  # bounds of smaller problems that a limit cut short
        while todo and not self.must_stop:
            node = todo.pop()
            if node.bound >= self.upper - LEAST_SAVING:
                continue
            if node.prices is not None and self.filter_options(F, stack, node):
                continue
            shrunk = node.alive.sum() < SHRUNK * len(node.alive)
            if not shrunk and self.shared is not None and self.shared.ready(problem, self.upper):
                todo += self._screened(problem, node)
                continue
            if node.prices is not None and not shrunk:
                left = self.search_subtree(problem, F, stack, node, budget if node.relaxed else QUICK)
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
                todo += split_subtree(problem, relaxation, node, self.upper, self.end)
                continue
            value = relaxation.bound(node.alive, self.end - time.monotonic())
            if math.isfinite(value):
                if fresh:
                    self.round_relaxation(problem, relaxation)
                todo.append(OpenSubtree(node.alive, node.bound, relaxation.prices(), relaxed=True))
            elif time.monotonic() >= self.end:
                todo.append(node)
            else:
                todo += self._without_prices(problem, node)
        for node in todo:  # out of time: new halves still have their parents' bounds
            if node.relaxed:
                self.filter_options(F, stack, node)
        left_open += [node.bound for node in todo if node.bound < self.upper - LEAST_SAVING]
        return CutShort(min(left_open)) if left_open else Finished()

    def _screened(self, problem: Problem, node: OpenSubtree) -> list[OpenSubtree]:
        """Filter a node with the grid's relaxation, which is used only once per problem."""
        assert self.shared is not None
        shared, self.shared = self.shared, None
        bound, alive = node.bound, node.alive
        if shared.prepare(problem, self.upper):
            found = shared.keep(problem, alive, self.upper, self.end - time.monotonic())
            if found is not None:
                bound, alive = max(bound, found[0]), found[1]
        return [OpenSubtree(alive, bound, None)] if bound < self.upper - LEAST_SAVING else []

    def round_relaxation(self, problem: Problem, relaxation: Relaxation) -> None:
        """Look for better choices near the relaxation's solution."""
        for start in relaxation.rounded(SHARES):
            choice = climb_votes(problem, start) if self.by_votes else repair(problem, start)
            if choice is not None:
                self.try_choice(problem, choice)

    def filter_options(self, F: Factors, stack: Stack, node: OpenSubtree) -> bool:
        """Drop options that no better choice can use; return whether this closes it."""
        assert node.prices is not None
        start_search(stack, node.alive, node.bound)
        node.bound = max(node.bound, filter_root(F, *node.prices, stack, self.upper))
        node.alive, stack.bound[0] = stack.alive[0].copy(), node.bound
        return node.bound >= self.upper - LEAST_SAVING

    def search_subtree(
        self, problem: Problem, F: Factors, stack: Stack, node: OpenSubtree, budget: int
    ) -> list[OpenSubtree]:
        """Search a filtered node; return what is open when the budget is spent."""
        priced = node.prices is not None
        theta, phi, lam = node.prices or (F.cost, F.cost, F.demand)  # any arrays: they are not read
        best = np.zeros(problem.n_features, dtype=np.int64)
        height, seen = 1, 0
        while height and seen < budget and height < len(stack.bound) - 1 and not self.must_stop:
            before = self.upper
            chunk = min(CHUNK, budget - seen)
            height, self.upper, nodes = run(
                F, problem, theta, phi, lam, priced, self.propagates,
                stack, height, self.upper, best, self.goal, chunk,
            )  # fmt: skip
            self.nodes, seen = self.nodes + nodes, seen + nodes
            if self.upper < before:
                self.cells = problem.cell[problem.start[:-1] + best]
        return [
            OpenSubtree(stack.alive[i].copy(), float(stack.bound[i]), node.prices)
            for i in range(height)
            if stack.bound[i] < self.upper - LEAST_SAVING
        ]

    def try_choice(self, problem: Problem, choice: np.ndarray) -> None:
        first = int(self.goal == MOST)
        votes = problem.votes_of(choice)
        if (votes[first:] < problem.demand[first:]).any():
            return
        lacking = (problem.demand[0] - votes[0]) / self.units[0]
        value = lacking if self.by_votes else problem.objective(choice)
        if value < self.upper - LEAST_SAVING:
            self.upper, self.cells = value, problem.cell[problem.start[:-1] + choice]

    def _without_prices(self, problem: Problem, node: OpenSubtree) -> list[OpenSubtree]:
        """Handle a subtree whose LP has no solution.

        It is closed if no choice in it reaches the demand, and halved otherwise.
        """
        here = restrict(problem, node.alive, math.inf)
        if not self.by_votes:
            reach = reach_search(here, self.units, self.end)
            if isinstance(reach.solve(without_costs(here)), Finished) and reach.cells is None:
                return []
        counts = np.add.reduceat(node.alive, problem.start[:-1])
        f = int(counts.argmax())
        if counts[f] == 1:
            self.try_choice(here, cheapest(here))
            return []
        options = np.flatnonzero(node.alive[problem.start[f] : problem.start[f + 1]]) + problem.start[f]
        halves = []
        for dead in (options[: len(options) // 2], options[len(options) // 2 :]):
            alive = node.alive.copy()
            alive[dead] = False
            halves.append(OpenSubtree(alive, node.bound, None))
        return halves


def deep_stack(F: Factors) -> Stack:
    """Allocate a stack that a dive cannot fill: each of its nodes drops at least one option.

    A dive that fills the stack ends the search, and its open nodes are priced one by one. This costs far
    more.
    """
    options, segments, trees = len(F.cost), int(F.seg_start[-1]), len(F.tree_start) - 1
    node = options + (segments + trees) * (10 + 8 * len(F.unit))
    return new_stack(F, min(options + 2, HEIGHT, max(64, STACK_BYTES // node)))


def without_costs(problem: Problem) -> Problem:
    return problem._replace(cost=np.zeros_like(problem.cost))


def reach_search(problem: Problem, units: np.ndarray, end: float, most_nodes: float = math.inf) -> Search:
    """Create a search for any choice that meets every demand."""
    return Search(MISSING_VOTES + LEAST_SAVING, REACH, units, end, most_nodes)
