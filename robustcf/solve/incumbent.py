"""Find good choices fast by greedy moves, then by cost-saving moves back."""

from __future__ import annotations

import numpy as np

from robustcf.problem.problem import Problem, holds
from robustcf.support.jit import compiled
from robustcf.support.tolerances import FREE_MOVE, LEAST_GAIN

_EXPONENTS = np.array([1.0, 0.6, 1.6])  # weights of a move's cost against its gain


def find_incumbent(problem: Problem, start: np.ndarray) -> np.ndarray | None:
    """Return a cheap choice that reaches the demand, or None if one greedy climb finds none.

    `start` is the starting choice, normally the customer's own.
    """
    if (problem.tree_start[1:] == problem.tree_start[:-1]).any():
        return None
    choice, found = _find(problem, np.ascontiguousarray(start), _EXPONENTS[:1])
    return choice if found else None


def improve(problem: Problem, choice: np.ndarray) -> np.ndarray:
    """Make a choice cheaper by single moves while it still reaches the demand."""
    better = np.ascontiguousarray(choice).copy()
    _shrink(problem, better)
    return better


def repair(problem: Problem, start: np.ndarray) -> np.ndarray | None:
    """Return a choice that reaches the demand, from any starting choice, or None."""
    choice, found = _find(problem, np.ascontiguousarray(start), _EXPONENTS)
    return improve(problem, choice) if found else None


def climb_votes(problem: Problem, start: np.ndarray) -> np.ndarray:
    """Make single moves that add votes of the first condition, at any cost."""
    choice = np.ascontiguousarray(start).copy()
    _climb_votes(problem, choice)
    return choice


@compiled
def _climb_votes(p, choice):
    for _ in range(1000):
        votes = response(p, choice)
        here = p.start[0] + choice[0]
        best, best_f, best_o = votes[0, here], -1, -1
        lacking = _lacking_others(p, votes[:, here])
        for f in range(len(choice)):
            for o in range(p.start[f + 1] - p.start[f]):
                at = p.start[f] + o
                if votes[0, at] > best and _lacking_others(p, votes[:, at]) <= lacking:
                    best, best_f, best_o = votes[0, at], f, o
        if best_f < 0:
            return
        choice[best_f] = best_o


@compiled
def _lacking_others(p, votes):
    total = 0.0
    for g in range(1, len(votes)):
        total += max(0.0, float(p.demand[g] - votes[g])) / max(1.0, abs(float(p.demand[g])))
    return total


@compiled
def _find(p, start, exponents):
    best, best_cost, found = start.copy(), np.inf, False
    for exponent in exponents:
        choice = start.copy()
        if not _climb(p, choice, exponent):
            continue
        _shrink(p, choice)
        cost = _cost(p, choice)
        if cost < best_cost:
            best, best_cost, found = choice, cost, True
    return best, found


@compiled
def _cost(p, choice):
    total = 0.0
    for f in range(len(choice)):
        total += p.cost[p.start[f] + choice[f]]
    return total


@compiled
def response(p, choice):
    """Return the votes per condition after each single move to another option."""
    n_conditions, n_options = p.votes.shape[0], len(p.cost)
    change = np.zeros((n_conditions, n_options + 1), dtype=np.int64)  # differences, ordered features
    direct = np.zeros((n_conditions, n_options), dtype=np.int64)
    base = np.zeros(n_conditions, dtype=np.int64)
    for leaf in range(len(p.entry_start) - 1):
        failing, missed = -1, 0
        for e in range(p.entry_start[leaf], p.entry_start[leaf + 1]):
            if not holds(p, e, choice[p.feature[e]]):
                failing = e
                missed += 1
                if missed > 1:
                    break
        if missed > 1:
            continue
        if missed == 1:
            _add(p, failing, leaf, 1, change, direct)
            continue
        base += p.votes[:, leaf]
        for e in range(p.entry_start[leaf], p.entry_start[leaf + 1]):
            f = p.feature[e]
            _add(p, e, leaf, 1, change, direct)
            change[:, p.start[f]] -= p.votes[:, leaf]
            change[:, p.start[f + 1]] += p.votes[:, leaf]
    for g in range(n_conditions):
        running = np.int64(0)
        for o in range(n_options):
            running += change[g, o]
            direct[g, o] += running + base[g]
    return direct


@compiled
def _add(p, e, leaf, sign, change, direct):
    base = p.start[p.feature[e]]
    for g in range(p.votes.shape[0]):
        vote = sign * p.votes[g, leaf]
        if p.set[e] >= 0:
            for o in range(p.start[p.feature[e] + 1] - base):
                if p.member[p.set[e], o]:
                    direct[g, base + o] += vote
        else:
            change[g, base + p.lo[e]] += vote
            change[g, base + p.hi[e] + 1] -= vote


@compiled
def _shortfall(p, votes):
    """Return the missing votes, each condition relative to its demand."""
    total = 0.0
    for g in range(len(votes)):
        if votes[g] < p.demand[g]:
            total += (p.demand[g] - votes[g]) / max(1.0, abs(float(p.demand[g])))
    return total


@compiled
def _climb(p, choice, exponent):
    """Take the move with the most gain per cost until the demand is reached."""
    free = FREE_MOVE * p.cost.max()  # cheaper moves than this all count as this cheap
    for _ in range(4 * len(choice) + 50):
        votes = response(p, choice)
        now = _shortfall(p, votes[:, p.start[0] + choice[0]])
        if now == 0.0:
            return True
        best, best_f, best_o = 0.0, -1, -1
        for f in range(len(choice)):
            here = p.cost[p.start[f] + choice[f]]
            for o in range(p.start[f + 1] - p.start[f]):
                gain = now - _shortfall(p, votes[:, p.start[f] + o])
                if gain > LEAST_GAIN:
                    price = max(p.cost[p.start[f] + o] - here, free)
                    merit = gain / price**exponent if price > 0.0 else np.inf
                    if merit > best:
                        best, best_f, best_o = merit, f, o
        if best_f < 0:
            return False
        choice[best_f] = best_o
    return False


@compiled
def _shrink(p, choice):
    """Make cost-saving single moves, the largest saving first."""
    while _back_one(p, choice):
        pass


@compiled
def _back_one(p, choice):
    votes = response(p, choice)
    best, best_f, best_o = 0.0, -1, -1
    for f in range(len(choice)):
        here = p.cost[p.start[f] + choice[f]]
        for o in range(p.start[f + 1] - p.start[f]):
            saved = here - p.cost[p.start[f] + o]
            if saved > best and _shortfall(p, votes[:, p.start[f] + o]) == 0.0:
                best, best_f, best_o = saved, f, o
    if best_f >= 0:
        choice[best_f] = best_o
    return best_f >= 0
