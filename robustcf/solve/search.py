"""Exact depth-first branch and bound under fixed prices, run in chunks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robustcf.problem.problem import votes_at
from robustcf.solve.bounds import gather, refresh_segments, tree_marginals, workspace
from robustcf.solve.factors import Factors
from robustcf.solve.incumbent import _cost
from robustcf.support.jit import compiled
from robustcf.support.tolerances import LEAST_SAVING

LOOK_AHEAD = 4  # cuts whose bounds are computed at a node
CHEAPEST, MOST, REACH = 0, 1, 2  # goals: least cost at the demand, most votes, any choice at the demand


class Stack(NamedTuple):
    """Open nodes: options and segments alive, marginals, and trees to update."""

    alive: np.ndarray
    changed: np.ndarray
    segalive: np.ndarray
    marginal: np.ndarray
    least: np.ndarray
    dirty: np.ndarray
    bound: np.ndarray


def new_stack(F: Factors, height: int) -> Stack:
    """Allocate a stack for `height` open nodes."""
    n_options, n_segs, n_trees = len(F.cost), int(F.seg_start[-1]), len(F.tree_start) - 1
    return Stack(
        np.zeros((height, n_options), dtype=np.bool_),
        np.zeros((height, len(F.start) - 1), dtype=np.bool_),
        np.zeros((height, n_segs), dtype=np.bool_),
        np.zeros((height, n_segs)),
        np.zeros((height, n_trees)),
        np.zeros((height, n_trees), dtype=np.bool_),
        np.full(height, -np.inf),
    )


def start_search(stack: Stack, alive: np.ndarray, bound: float) -> None:
    """Make a node the only one on the stack."""
    stack.alive[0], stack.bound[0] = alive, bound
    stack.segalive[0] = stack.dirty[0] = stack.changed[0] = True


@compiled
def filter_root(F, theta, phi, lam, stack, upper):
    """Drop options of the only node that no better choice can use; return its bound."""
    return _tighten(F, theta, phi, lam, stack, 0, np.empty(len(F.cost)), workspace(F), upper)


@compiled
def run(F, P, theta, phi, lam, stack, height, upper, best, goal, max_nodes):
    """Search until the stack is empty or full, or `max_nodes` were searched.

    Returns the stack's new height, the best value (its choice is in `best`) and the nodes searched.
    """
    total, aside = np.empty(len(F.cost)), np.empty(len(F.cost))
    work = workspace(F)
    choice = np.empty(len(F.start) - 1, dtype=np.int64)
    nodes = 0
    while height > 0 and nodes < max_nodes and height < len(stack.bound) - 1:
        top = height - 1
        if stack.bound[top] >= upper - LEAST_SAVING:
            height -= 1
            continue
        nodes += 1
        bound = _tighten(F, theta, phi, lam, stack, top, total, work, upper)
        if bound >= upper - LEAST_SAVING:
            height -= 1
            continue
        for f in range(len(choice)):
            at = F.start[f]
            for o in range(F.start[f], F.start[f + 1]):
                if total[o] < total[at]:
                    at = o
            choice[f] = at - F.start[f]
        value = _value(F, P, choice, goal)
        if value < upper - LEAST_SAVING:
            upper = value
            best[:] = choice
            if bound >= upper - LEAST_SAVING:
                height -= 1
                continue
        f, cut, low_first = _branch(F, theta, phi, lam, stack, top, total, aside, work, bound, upper)
        if f < 0:  # nothing left to decide
            height -= 1
            continue
        _split(F, stack, top, height, f, cut, low_first, total, bound)
        height += 1
    return height, upper, nodes


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
        refresh_segments(F, alive, changed, segalive, dirty)
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
def _split(F, stack, top, new, f, cut, low_first, total, bound):
    """Split the top node; a new node above it is searched first."""
    _copy_node(stack, top, new)
    for side in range(2):  # low, high
        at = new if (side == 0) == low_first else top
        stack.changed[at, f] = True
        cheapest = np.inf
        for o in range(F.start[f], F.start[f + 1]):
            low = o < cut if F.ordered[f] else o == cut
            if low == (side == 0):
                cheapest = min(cheapest, total[o])
            else:
                stack.alive[at, o] = False
        stack.bound[at] = max(bound, cheapest)


@compiled
def _branch(F, theta, phi, lam, stack, top, total, aside, work, bound, upper):
    """Return the feature and cut that raise the bounds of both sides most.

    Also returns whether the low side is searched first.

    Marginals rank one cut per feature; the bounds of the best few are then computed.
    """
    n_features = len(F.start) - 1
    merit, cuts = np.zeros(n_features), np.zeros(n_features, dtype=np.int64)
    cap = upper - bound
    for f in range(n_features):
        merit[f], cuts[f] = _best_cut(F, f, stack.alive[top], total, bound, cap)
    best, best_f, low_first = -1.0, -1, True
    for _ in range(LOOK_AHEAD):
        f = int(np.argmax(merit))
        if merit[f] <= 0.0:
            break
        merit[f] = 0.0
        low = _bound_of_side(F, theta, phi, lam, stack, top, f, cuts[f], True, aside, work, upper)
        high = _bound_of_side(F, theta, phi, lam, stack, top, f, cuts[f], False, aside, work, upper)
        value = _merit(low - bound, high - bound, cap)
        if value > best:
            best, best_f, low_first = value, f, low <= high
        if low >= upper - LEAST_SAVING or high >= upper - LEAST_SAVING:  # one side is closed: take it
            break
    return best_f, cuts[best_f], low_first


@compiled
def _bound_of_side(F, theta, phi, lam, stack, top, f, cut, low_side, aside, work, upper):
    """Return the bound of one side of a cut, computed in the stack's last place."""
    last = len(stack.bound) - 1
    _copy_node(stack, top, last)
    stack.changed[last, f] = True
    for o in range(F.start[f], F.start[f + 1]):
        low = o < cut if F.ordered[f] else o == cut
        if low != low_side:
            stack.alive[last, o] = False
    return _tighten(F, theta, phi, lam, stack, last, aside, work, upper)


@compiled
def _copy_node(stack, source, target):
    stack.alive[target] = stack.alive[source]
    stack.changed[target] = stack.changed[source]
    stack.segalive[target] = stack.segalive[source]
    stack.marginal[target] = stack.marginal[source]
    stack.least[target] = stack.least[source]
    stack.dirty[target] = stack.dirty[source]
    stack.bound[target] = stack.bound[source]


@compiled
def _best_cut(F, f, alive, total, bound, cap):
    """Return a feature's best cut by its marginals; the merit is 0 if it is decided."""
    first, last = F.start[f], F.start[f + 1]
    best, best_cut, count, at = 0.0, -1, 0, first
    for o in range(first, last):
        count += alive[o]
        if total[o] < total[at]:
            at = o
    if count < 2:
        return best, best_cut
    if not F.ordered[f]:
        others = np.inf
        for o in range(first, last):
            if o != at:
                others = min(others, total[o])
        return _merit(total[at] - bound, others - bound, cap), at
    right = np.empty(last - first)  # least bound of the options from here on
    running = np.inf
    for o in range(last - 1, first - 1, -1):
        running = min(running, total[o])
        right[o - first] = running
    left = np.inf
    for o in range(first, last - 1):
        left = min(left, total[o])
        if alive[o] and right[o + 1 - first] < np.inf:
            value = _merit(left - bound, right[o + 1 - first] - bound, cap)
            if value > best:
                best, best_cut = value, o + 1
    return best, best_cut


@compiled
def _merit(a, b, cap):
    return max(min(a, cap), 1e-3 * cap) * max(min(b, cap), 1e-3 * cap)


@compiled
def count_cheaper(P, order, upper, most):
    """Return how many choices cost less than `upper`, counted up to `most`."""
    return _walk_cheaper(P, order, upper, np.empty(len(P.start) - 1, dtype=np.int64), most, False)[1]


@compiled
def try_cheaper(P, order, upper, best):
    """Try all choices cheaper than `upper`; return the best value, set `best`."""
    return _walk_cheaper(P, order, upper, best, np.iinfo(np.int64).max, True)[0]


@compiled
def _walk_cheaper(P, order, upper, best, most, evaluate):
    """Visit every choice cheaper than `upper`, options by increasing cost."""
    n = len(P.start) - 1
    rest = np.zeros(n + 1)  # what the later features cost at least
    for f in range(n - 1, -1, -1):
        rest[f] = rest[f + 1] + P.cost[order[P.start[f]]]
    at = np.full(n, -1, dtype=np.int64)
    spent = np.zeros(n + 1)
    choice = np.empty(n, dtype=np.int64)
    count, f = 0, 0
    while f >= 0 and count <= most:
        at[f] += 1
        if P.start[f] + at[f] >= P.start[f + 1]:
            at[f] = -1
            f -= 1
            continue
        option = order[P.start[f] + at[f]]
        spent[f + 1] = spent[f] + P.cost[option]
        if spent[f + 1] + rest[f + 1] >= upper - LEAST_SAVING:  # and so are the dearer ones
            at[f] = -1
            f -= 1
            continue
        choice[f] = option - P.start[f]
        if f < n - 1:
            f += 1
            continue
        count += 1
        if evaluate and np.all(votes_at(P, choice) >= P.demand):
            upper = spent[n]
            best[:] = choice
    return upper, count
