"""Choose the cut that leaves the least room on both sides of a node."""

from __future__ import annotations

import numpy as np

from robustcf.support.jit import compiled


@compiled
def side_space(F):
    """Allocate, for each option, what the alive options after it offer: cost, price and votes."""
    n = len(F.cost) + 1
    return np.empty(n), np.empty(n), np.empty((len(F.unit), n), dtype=np.int64)


@compiled
def choose_cut(
    F, demand, alive, tree_most, most, total, floor, bound, upper, with_costs, counted, priced, beyond
):
    """Return the feature and the cut that leave the least room, and whether the low side comes first.

    The room of a side is the product of what is left there: votes above each demand, budget above the least
    cost, and the gap of the Lagrangian bound. The sum of both squares is minimised. Of an unordered feature,
    one option is cut off from the others. The feature is -1 if every feature is decided.
    """
    n_conditions = len(demand)
    span = np.ones(n_conditions)
    if counted:
        for c in range(n_conditions):
            span[c] += tree_most[c].sum() - demand[c]
    node = (demand, span, floor, bound, upper, with_costs, counted, priced)
    least_room, best_f, best_cut, low_first = np.inf, -1, -1, True
    cost_after, price_after, votes_after = beyond
    lowest = np.iinfo(np.int64).min
    votes_before = np.empty(n_conditions, dtype=np.int64)
    votes = np.empty(n_conditions, dtype=np.int64)
    for f in range(len(F.start) - 1):
        first, last = F.start[f], F.start[f + 1]
        count, least = 0, np.inf
        for o in range(first, last):
            if alive[o]:
                count += 1
                least = min(least, F.cost[o])
        if count < 2:
            continue
        cost_after[last], price_after[last] = np.inf, np.inf
        votes_after[:, last] = lowest
        for o in range(last - 1, first - 1, -1):
            cost_after[o], price_after[o] = cost_after[o + 1], price_after[o + 1]
            votes_after[:, o] = votes_after[:, o + 1]
            if alive[o]:
                cost_after[o] = min(cost_after[o], F.cost[o])
                if priced:
                    price_after[o] = min(price_after[o], total[o])
                if counted:
                    for c in range(n_conditions):
                        votes_after[c, o] = max(votes_after[c, o], most[c, o])
        cost_before, price_before = np.inf, np.inf
        votes_before[:] = lowest
        rest = floor - least
        for o in range(first, last):
            if not alive[o]:
                continue
            if F.ordered[f]:
                if cost_before < np.inf:
                    low = _room(votes_before, cost_before + rest, price_before, node)
                    high = _room(votes_after[:, o], cost_after[o] + rest, price_after[o], node)
                    room = low * low + high * high
                    if best_f < 0 or room < least_room:
                        least_room, best_f, best_cut, low_first = room, f, o, low >= high
            else:
                for c in range(n_conditions):
                    votes[c] = max(votes_before[c], votes_after[c, o + 1])
                cost_other = min(cost_before, cost_after[o + 1])
                one = _room(most[:, o], F.cost[o] + rest, total[o], node)
                others = _room(votes, cost_other + rest, min(price_before, price_after[o + 1]), node)
                room = one * one + others * others
                if best_f < 0 or room < least_room:
                    least_room, best_f, best_cut, low_first = room, f, o, one >= others
            cost_before = min(cost_before, F.cost[o])
            if priced:
                price_before = min(price_before, total[o])
            if counted:
                for c in range(n_conditions):
                    votes_before[c] = max(votes_before[c], most[c, o])
    return best_f, best_cut, low_first


@compiled
def _room(votes, cost, price, node):
    """Return the room of one side, as a share of the node's."""
    demand, span, floor, bound, upper, with_costs, counted, priced = node
    room = 1.0
    if counted:
        for c in range(len(demand)):
            room *= (votes[c] - demand[c] + 1) / span[c]
    if with_costs and upper < np.inf:
        room *= (upper - cost) / (upper - floor)
    if priced:
        gap = max(upper - price, 0.0) / (upper - bound) if upper < np.inf else 1.0 / (1.0 + abs(price))
        room *= gap
    return room
