"""Exact depth-first branch and bound by propagation and under fixed prices, run in chunks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robustcf.problem.problem import votes_at
from robustcf.solve.bounds import gather, refresh_segments, tree_marginals, workspace
from robustcf.solve.branching import choose_cut, side_space
from robustcf.solve.factors import Factors
from robustcf.solve.incumbent import _cost
from robustcf.solve.propagation import propagate, scratch_for
from robustcf.support.jit import compiled
from robustcf.support.tolerances import LEAST_SAVING

CHEAPEST, MOST, REACH = 0, 1, 2  # goals: least cost at the demand, most votes, any choice at the demand


class Stack(NamedTuple):
    """Open nodes: options and segments alive, and what the trees say.

    marginal, least, dirty : prices of segments and trees, and trees whose prices are to be updated.
    seg_most, tree_most, stale : most votes per condition, and trees whose votes are to be updated.
    """

    alive: np.ndarray
    changed: np.ndarray
    segalive: np.ndarray
    marginal: np.ndarray
    least: np.ndarray
    dirty: np.ndarray
    seg_most: np.ndarray
    tree_most: np.ndarray
    stale: np.ndarray
    bound: np.ndarray


def new_stack(F: Factors, height: int) -> Stack:
    """Allocate a stack for `height` open nodes."""
    n_options, n_segs, n_trees = len(F.cost), int(F.seg_start[-1]), len(F.tree_start) - 1
    n_conditions = len(F.unit)
    return Stack(
        np.zeros((height, n_options), dtype=np.bool_),
        np.zeros((height, len(F.start) - 1), dtype=np.bool_),
        np.zeros((height, n_segs), dtype=np.bool_),
        np.zeros((height, n_segs)),
        np.zeros((height, n_trees)),
        np.zeros((height, n_trees), dtype=np.bool_),
        np.zeros((height, n_conditions, n_segs), dtype=np.int64),
        np.zeros((height, n_conditions, n_trees), dtype=np.int64),
        np.zeros((height, n_trees), dtype=np.bool_),
        np.full(height, -np.inf),
    )


def start_search(stack: Stack, alive: np.ndarray, bound: float) -> None:
    """Make a node the only one on the stack."""
    stack.alive[0], stack.bound[0] = alive, bound
    stack.segalive[0] = stack.dirty[0] = stack.stale[0] = stack.changed[0] = True


@compiled
def filter_root(F, theta, phi, lam, stack, upper):
    """Drop options of the only node that no better choice can use; return its bound."""
    return _tighten(F, theta, phi, lam, stack, 0, np.empty(len(F.cost)), workspace(F), upper)


@compiled
def run(F, P, theta, phi, lam, priced, counted, stack, height, upper, best, goal, max_nodes):
    """Search until the stack is empty or full, or `max_nodes` were searched.

    `priced` says whether prices close nodes, `counted` whether propagation does. Returns the stack's new
    height, the best value (its choice is in `best`) and the nodes searched.
    """
    total, most = np.empty(len(F.cost)), np.empty((len(F.unit), len(F.cost)), dtype=np.int64)
    work, scratch, beyond = workspace(F), scratch_for(F), side_space(F)
    choice = np.empty(len(F.start) - 1, dtype=np.int64)
    nodes = 0
    while height > 0 and nodes < max_nodes and height < len(stack.bound) - 1:
        top = height - 1
        if stack.bound[top] >= upper - LEAST_SAVING:
            height -= 1
            continue
        nodes += 1
        bound, floor = stack.bound[top], 0.0
        if counted:
            floor = propagate(
                F, P, stack.alive[top], stack.changed[top], stack.segalive[top], stack.dirty[top],
                stack.tree_most[top], stack.seg_most[top], stack.stale[top], most, scratch, upper,
            )  # fmt: skip
            if floor == np.inf:
                height -= 1
                continue
            if goal == CHEAPEST:
                bound = max(bound, floor)
                _cheapest(F, stack.alive[top], F.cost, choice)
            else:  # the most votes
                _cheapest(F, stack.alive[top], -most[0], choice)
            upper = _improved(F, P, choice, goal, upper, best)
            if bound >= upper - LEAST_SAVING:
                height -= 1
                continue
        if priced:
            bound = max(bound, _tighten(F, theta, phi, lam, stack, top, total, work, upper))
            if bound < upper - LEAST_SAVING:
                _cheapest(F, stack.alive[top], total, choice)
                upper = _improved(F, P, choice, goal, upper, best)
            if bound >= upper - LEAST_SAVING:
                height -= 1
                continue
        f, cut, low_first = choose_cut(
            F, P.demand, stack.alive[top], stack.tree_most[top], most, total, floor, bound, upper,
            goal == CHEAPEST and counted, counted, priced, beyond,
        )  # fmt: skip
        if f < 0:  # nothing left to decide
            height -= 1
            continue
        stack.bound[top] = bound
        _split(F, stack, top, height, f, cut, low_first)
        height += 1
    return height, upper, nodes


@compiled
def _cheapest(F, alive, price, choice):
    """Set the choice of the options alive with the least price."""
    for f in range(len(choice)):
        at = -1
        for o in range(F.start[f], F.start[f + 1]):
            if alive[o] and (at < 0 or price[o] < price[at]):
                at = o
        choice[f] = at - F.start[f]


@compiled
def _improved(F, P, choice, goal, upper, best):
    """Return the best value after trying a choice; a better choice is stored in `best`."""
    value = _value(F, P, choice, goal)
    if value < upper - LEAST_SAVING:
        best[:] = choice
        return value
    return upper


@compiled
def _value(F, P, choice, goal):
    """Return a choice's cost, or the votes that it lacks of the first demand.

    The value is inf if the choice does not count. With the goal REACH, only choices whose integer votes meet
    every demand count.
    """
    votes = votes_at(P, choice)
    for c in range(1 if goal == MOST else 0, len(votes)):
        if votes[c] < P.demand[c]:
            return np.inf
    return _cost(P, choice) if goal == CHEAPEST else (P.demand[0] - votes[0]) / F.unit[0]


@compiled
def _tighten(F, theta, phi, lam, stack, top, total, work, upper):
    """Drop the top node's options that no better choice can use; return its bound."""
    alive, changed, segalive = stack.alive[top], stack.changed[top], stack.segalive[top]
    marginal, least, dirty = stack.marginal[top], stack.least[top], stack.dirty[top]
    bound = stack.bound[top]
    for _ in range(3):
        refresh_segments(F, alive, changed, segalive, dirty, stack.stale[top])
        for tree in range(len(dirty)):
            if dirty[tree]:
                least[tree] = tree_marginals(F, tree, theta, lam, segalive, marginal, work)
                dirty[tree] = False
                if least[tree] == np.inf:
                    return np.inf
        bound = max(bound, gather(F, phi, lam, alive, marginal, least, total))
        if bound >= upper - LEAST_SAVING:
            return bound
        dropped = False
        for f in range(len(changed)):
            for o in range(F.start[f], F.start[f + 1]):
                if alive[o] and total[o] >= upper - LEAST_SAVING:
                    alive[o] = False
                    total[o] = np.inf
                    changed[f] = dropped = True
        if not dropped:
            break
    return bound


@compiled
def _split(F, stack, top, new, f, cut, low_first):
    """Split the top node; a new node above it is searched first."""
    _copy_node(stack, top, new)
    for side in range(2):  # low, high
        at = new if (side == 0) == low_first else top
        stack.changed[at, f] = True
        for o in range(F.start[f], F.start[f + 1]):
            low = o < cut if F.ordered[f] else o == cut
            if low != (side == 0):
                stack.alive[at, o] = False


@compiled
def _copy_node(stack, source, target):
    stack.alive[target] = stack.alive[source]
    stack.changed[target] = stack.changed[source]
    stack.segalive[target] = stack.segalive[source]
    stack.marginal[target] = stack.marginal[source]
    stack.least[target] = stack.least[source]
    stack.dirty[target] = stack.dirty[source]
    stack.seg_most[target] = stack.seg_most[source]
    stack.tree_most[target] = stack.tree_most[source]
    stack.stale[target] = stack.stale[source]
    stack.bound[target] = stack.bound[source]
