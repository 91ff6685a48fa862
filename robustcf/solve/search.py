"""Depth-first branch and bound under fixed prices: exact, compiled, resumable in chunks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robustcf._jit import compiled
from robustcf.problem import _votes_of
from robustcf.solve.bounds import gather, refresh_segments, tree_marginals, workspace
from robustcf.solve.factors import Factors
from robustcf.solve.incumbent import _cost

EPSILON = 1e-10  # choices that save less than this are not looked for


class Stack(NamedTuple):
    """Open nodes: options and segments alive, the trees' marginals, which trees are out of date."""

    alive: np.ndarray
    changed: np.ndarray
    segalive: np.ndarray
    marginal: np.ndarray
    least: np.ndarray
    dirty: np.ndarray
    bound: np.ndarray


def new_stack(F: Factors, height: int) -> Stack:
    """Room for `height` open nodes."""
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
def run(F, P, theta, phi, lam, stack, height, upper, best, maximise, max_nodes):
    """Work off the stack until it is empty, full, or `max_nodes` have been seen.

    Returns the stack's new height, the best value (its choice in `best`) and the nodes seen.
    With `maximise`, the value of a choice is what its votes lack of the (first) demand.
    """
    total = np.empty(len(F.cost))
    work = workspace(F)
    choice = np.empty(len(F.start) - 1, dtype=np.int64)
    nodes = 0
    while height > 0 and nodes < max_nodes and height < len(stack.bound):
        top = height - 1
        if stack.bound[top] >= upper - EPSILON:
            height -= 1
            continue
        nodes += 1
        bound = _tighten(F, theta, phi, lam, stack, top, total, work, upper)
        if bound >= upper - EPSILON:
            height -= 1
            continue
        for f in range(len(choice)):
            at = F.start[f]
            for o in range(F.start[f], F.start[f + 1]):
                if total[o] < total[at]:
                    at = o
            choice[f] = at - F.start[f]
        value = _value(F, P, choice, maximise)
        if value < upper - EPSILON:
            upper = value
            best[:] = choice
            if bound >= upper - EPSILON:
                height -= 1
                continue
        f, cut, low_first = _branch(F, stack.alive[top], total, bound, upper)
        if f < 0:  # nothing left to decide
            height -= 1
            continue
        _split(F, stack, top, height, f, cut, low_first, total, bound)
        height += 1
    return height, upper, nodes


@compiled
def _value(F, P, choice, maximise):
    """What a choice is worth; inf if it does not meet the demand."""
    votes = _votes_of(P, choice)
    for c in range(1 if maximise else 0, len(votes)):
        if votes[c] < P.demand[c]:
            return np.inf
    return (P.demand[0] - votes[0]) / F.unit[0] if maximise else _cost(P, choice)


@compiled
def _tighten(F, theta, phi, lam, stack, top, total, work, upper):
    """The bound of the top node, after dropping every option that no better choice can use."""
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
        if bound >= upper - EPSILON:
            return bound
        dropped = False
        for f in range(len(changed)):
            for o in range(F.start[f], F.start[f + 1]):
                if alive[o] and total[o] >= upper - EPSILON:
                    alive[o] = False
                    total[o] = np.inf
                    changed[f] = dropped = True
        if not dropped:
            break
    return bound


@compiled
def _split(F, stack, top, new, f, cut, low_first, total, bound):
    """The top entry becomes the side to look at later, a new one above it the side for now."""
    stack.alive[new] = stack.alive[top]
    stack.changed[new] = stack.changed[top]
    stack.segalive[new] = stack.segalive[top]
    stack.marginal[new] = stack.marginal[top]
    stack.least[new] = stack.least[top]
    stack.dirty[new] = stack.dirty[top]
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
def _branch(F, alive, total, bound, upper):
    """The feature and cut whose two sides both rise most; and whether the low side looks better."""
    best, best_f, best_cut, low_first = -1.0, -1, -1, True
    cap = upper - bound
    for f in range(len(F.start) - 1):
        first, last, count = F.start[f], F.start[f + 1], 0
        at = first
        for o in range(first, last):
            count += alive[o]
            if total[o] < total[at]:
                at = o
        if count < 2:
            continue
        if F.ordered[f]:  # cut next to the cheapest option, where the other side rises most
            left = np.inf
            for o in range(first, last - 1):
                left = min(left, total[o])
                if left == np.inf or not alive[o]:
                    continue
                right = np.inf
                for r in range(o + 1, last):
                    right = min(right, total[r])
                if right == np.inf:
                    break
                merit = _merit(left - bound, right - bound, cap)
                if merit > best:
                    best, best_f, best_cut, low_first = merit, f, o + 1, left <= right
        else:
            right = np.inf
            for o in range(first, last):
                if o != at:
                    right = min(right, total[o])
            merit = _merit(total[at] - bound, right - bound, cap)
            if merit > best:
                best, best_f, best_cut, low_first = merit, f, at, True
    return best_f, best_cut, low_first


@compiled
def _merit(a, b, cap):
    return max(min(a, cap), 1e-3 * cap) * max(min(b, cap), 1e-3 * cap)
