"""Lower bounds by Lagrangian decomposition, without a linear program.

Every tree gets its own copy of its features. Trees and features must agree on the segment chosen, and prices
`theta` on segments are the multipliers of this constraint: trees pay them, features earn them. For any prices
and any multiplier `lam` of the score,

    lam · demand + Σ_trees min_leaf (prices paid - lam · votes) + Σ_features min_option phi

with phi = cost - prices earned, is a lower bound on the cost of every choice among the options still alive.
The same pass yields the bound with any single option fixed (its *marginal*). Marginals filter options,
tighten the bound and select the branch.
"""

from __future__ import annotations

import numpy as np

from robustcf.support.jit import compiled


@compiled
def refresh_segments(F, alive, changed, segalive, stale, also_stale):
    """Update the alive segments of changed features; mark the affected trees in both lists."""
    for f in range(len(F.start) - 1):
        if not changed[f]:
            continue
        changed[f] = False
        for k in range(F.feature_slots[f], F.feature_slots[f + 1]):
            s = F.slots_of_feature[k]
            for g in range(F.seg_start[s], F.seg_start[s + 1]):
                if not segalive[g]:
                    continue
                gone = True
                for i in range(F.seg_options[g], F.seg_options[g + 1]):
                    if alive[F.seg_option[i]]:
                        gone = False
                        break
                if gone:
                    segalive[g] = False
                    stale[F.slot_tree[s]] = also_stale[F.slot_tree[s]] = True


@compiled
def tree_marginals(F, tree, theta, lam, segalive, marginal, work):
    """Return a tree's least leaf price; set `marginal` for each segment fixed.

    A price is inf if no leaf is reachable.
    """
    s0, s1 = F.slot_start[tree], F.slot_start[tree + 1]
    cheapest, unasked, asked_by, entry_least = work
    base = 0.0
    for s in range(s0, s1):
        least = np.inf
        for g in range(F.seg_start[s], F.seg_start[s + 1]):
            marginal[g] = np.inf
            if segalive[g]:
                least = min(least, theta[g])
        cheapest[s - s0] = least
        unasked[s - s0] = np.inf  # least price of the leaves that do not ask about this slot
        asked_by[s - s0] = -1
        base += least
    best = np.inf
    for leaf in range(F.tree_start[tree], F.tree_start[tree + 1]):
        e0, e1 = F.entry_start[leaf], F.entry_start[leaf + 1]
        price = base
        for e in range(e0, e1):
            least = np.inf
            for i in range(F.list_start[e], F.list_end[e]):
                g = F.seg_list[i]
                if segalive[g]:
                    least = min(least, theta[g])
            if least == np.inf:
                price = np.inf
                break
            entry_least[e - e0] = least
            price += least - cheapest[F.entry_slot[e] - s0]
        if price == np.inf:
            continue
        for c in range(len(lam)):
            price -= lam[c] * F.votes[c, leaf]
        best = min(best, price)
        for e in range(e0, e1):
            asked_by[F.entry_slot[e] - s0] = leaf
            rest = price - entry_least[e - e0]
            for i in range(F.list_start[e], F.list_end[e]):
                g = F.seg_list[i]
                if segalive[g]:
                    marginal[g] = min(marginal[g], rest + theta[g])
        for k in range(s1 - s0):
            if asked_by[k] != leaf:
                unasked[k] = min(unasked[k], price)
    for s in range(s0, s1):
        rest = unasked[s - s0] - cheapest[s - s0]
        if rest < np.inf:
            for g in range(F.seg_start[s], F.seg_start[s + 1]):
                if segalive[g]:
                    marginal[g] = min(marginal[g], rest + theta[g])
    return best


@compiled
def workspace(F):
    """Allocate the scratch arrays of `tree_marginals` for the largest tree and leaf."""
    slots, entries = 1, 1
    for tree in range(len(F.tree_start) - 1):
        slots = max(slots, F.slot_start[tree + 1] - F.slot_start[tree])
    for leaf in range(len(F.entry_start) - 1):
        entries = max(entries, F.entry_start[leaf + 1] - F.entry_start[leaf])
    return np.empty(slots), np.empty(slots), np.empty(slots, dtype=np.int64), np.empty(entries)


@compiled
def gather(F, phi, lam, alive, marginal, least, total):
    """Return the bound from all marginals; set `total[o]` for option o fixed."""
    bound = 0.0
    for c in range(len(lam)):
        bound += lam[c] * F.demand[c]
    n_options = len(total)
    rise = np.zeros(n_options)  # differences, for segments that are intervals of options
    total[:] = 0.0
    for tree in range(len(F.tree_start) - 1):
        low = least[tree]
        if low == np.inf:
            return np.inf
        bound += low
        for s in range(F.slot_start[tree], F.slot_start[tree + 1]):
            ordered = F.ordered[F.slot_feature[s]]
            for g in range(F.seg_start[s], F.seg_start[s + 1]):
                extra = marginal[g] - low
                if extra <= 0.0:
                    continue
                first, last = F.seg_options[g], F.seg_options[g + 1]
                if ordered and extra < np.inf:
                    rise[F.seg_option[first]] += extra
                    if F.seg_option[last - 1] + 1 < F.start[F.slot_feature[s] + 1]:
                        rise[F.seg_option[last - 1] + 1] -= extra
                else:
                    for i in range(first, last):
                        total[F.seg_option[i]] += extra
    for f in range(len(F.start) - 1):
        cheapest, running = np.inf, 0.0  # what was added within a feature was taken back within it
        for o in range(F.start[f], F.start[f + 1]):
            running += rise[o]
            total[o] += running
            if alive[o]:
                cheapest = min(cheapest, phi[o])
        if cheapest == np.inf:
            return np.inf
        bound += cheapest
        for o in range(F.start[f], F.start[f + 1]):
            total[o] += phi[o] - cheapest
    tight = bound
    for f in range(len(F.start) - 1):
        cheapest = np.inf
        for o in range(F.start[f], F.start[f + 1]):
            total[o] = total[o] + bound if alive[o] else np.inf
            cheapest = min(cheapest, total[o])
        tight = max(tight, cheapest)
    return tight


@compiled
def unpriced(F, theta):
    """Return phi: each option's cost less the prices it earns."""
    phi = F.cost.copy()
    for s in range(len(F.slot_feature)):
        for g in range(F.seg_start[s], F.seg_start[s + 1]):
            for i in range(F.seg_options[g], F.seg_options[g + 1]):
                phi[F.seg_option[i]] -= theta[g]
    return phi


@compiled
def even_prices(F):
    """Return initial prices: each feature's cost spread evenly over its trees."""
    theta = np.zeros(F.seg_start[-1])
    for s in range(len(F.slot_feature)):
        f = F.slot_feature[s]
        for g in range(F.seg_start[s], F.seg_start[s + 1]):
            least = np.inf
            for i in range(F.seg_options[g], F.seg_options[g + 1]):
                least = min(least, F.cost[F.seg_option[i]])
            theta[g] = least / (F.feature_slots[f + 1] - F.feature_slots[f])
    return theta


@compiled
def improve_prices(F, theta, phi, lam, alive, segalive, marginal, work):
    """Run one round of block coordinate ascent; the bound never decreases.

    Each feature in turn adds up what its trees would pay for each option and spreads the total
    evenly over the trees and itself. `theta` and `phi` are changed in place.
    """
    for f in range(len(F.start) - 1):
        first, last = F.start[f], F.start[f + 1]
        k0, k1 = F.feature_slots[f], F.feature_slots[f + 1]
        if k1 == k0 or last - first == 1:
            continue
        owed = F.cost[first:last].copy()
        for k in range(k0, k1):
            s = F.slots_of_feature[k]
            tree_marginals(F, F.slot_tree[s], theta, lam, segalive, marginal, work)
            for g in range(F.seg_start[s], F.seg_start[s + 1]):
                if marginal[g] < np.inf:
                    for i in range(F.seg_options[g], F.seg_options[g + 1]):
                        owed[F.seg_option[i] - first] += marginal[g] - theta[g]
        phi[first:last] = F.cost[first:last]
        for k in range(k0, k1):
            s = F.slots_of_feature[k]
            for g in range(F.seg_start[s], F.seg_start[s + 1]):
                if marginal[g] < np.inf:
                    least = np.inf
                    for i in range(F.seg_options[g], F.seg_options[g + 1]):
                        if alive[F.seg_option[i]]:
                            least = min(least, owed[F.seg_option[i] - first])
                    theta[g] += least / (k1 - k0 + 1.0) - marginal[g]
                for i in range(F.seg_options[g], F.seg_options[g + 1]):
                    phi[F.seg_option[i]] -= theta[g]


@compiled
def best_multiplier(F, theta, lam, segalive):
    """Return the first condition's best multiplier for these prices.

    The bound is concave in the multiplier.
    """
    paid = np.empty(F.votes.shape[1])
    for tree in range(len(F.tree_start) - 1):
        for leaf in range(F.tree_start[tree], F.tree_start[tree + 1]):
            paid[leaf] = _leaf_pays(F, tree, leaf, theta, lam, segalive)
    low, high = 0.0, max(1e-6, 2.0 * lam[0])
    while _slope(F, paid, high) > 0.0 and high < 1e9:
        low, high = high, 2.0 * high
    for _ in range(30):
        middle = 0.5 * (low + high)
        if _slope(F, paid, middle) > 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@compiled
def _leaf_pays(F, tree, leaf, theta, lam, segalive):
    """Return a leaf's prices less its votes for all conditions but the first.

    The result is inf if the leaf is unreachable.
    """
    total = 0.0
    for c in range(1, len(lam)):
        total -= lam[c] * F.votes[c, leaf]
    for s in range(F.slot_start[tree], F.slot_start[tree + 1]):
        least, asked = np.inf, False
        for e in range(F.entry_start[leaf], F.entry_start[leaf + 1]):
            if F.entry_slot[e] == s:
                asked = True
                for i in range(F.list_start[e], F.list_end[e]):
                    if segalive[F.seg_list[i]]:
                        least = min(least, theta[F.seg_list[i]])
        if not asked:
            for g in range(F.seg_start[s], F.seg_start[s + 1]):
                if segalive[g]:
                    least = min(least, theta[g])
        total += least
    return total


@compiled
def _slope(F, paid, multiplier):
    """Return the bound's derivative in the multiplier.

    It is the demand less the votes of the chosen leaves.
    """
    slope = F.demand[0]
    for tree in range(len(F.tree_start) - 1):
        best, votes = np.inf, 0.0
        for leaf in range(F.tree_start[tree], F.tree_start[tree + 1]):
            value = paid[leaf] - multiplier * F.votes[0, leaf]
            if value < best:
                best, votes = value, F.votes[0, leaf]
        slope -= votes
    return slope


@compiled
def quick_prices(F, lam, rounds, fixed_multiplier):
    """Return prices from a few rounds of ascent, phi, and each option's bound."""
    n_segs, n_options = F.seg_start[-1], len(F.cost)
    alive, segalive = np.ones(n_options, dtype=np.bool_), np.ones(n_segs, dtype=np.bool_)
    marginal, least, total = np.empty(n_segs), np.empty(len(F.tree_start) - 1), np.empty(n_options)
    work = workspace(F)
    theta = even_prices(F)
    phi = unpriced(F, theta)
    for _ in range(rounds):
        if not fixed_multiplier:
            lam[0] = best_multiplier(F, theta, lam, segalive)
        improve_prices(F, theta, phi, lam, alive, segalive, marginal, work)
    if not fixed_multiplier:
        lam[0] = best_multiplier(F, theta, lam, segalive)
    for tree in range(len(least)):
        least[tree] = tree_marginals(F, tree, theta, lam, segalive, marginal, work)
    gather(F, phi, lam, alive, marginal, least, total)
    return theta, phi, total
