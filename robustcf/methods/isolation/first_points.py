"""Find good points for score and plausibility together, before the proof.

A nearer first point lets the reduction drop more of the isolation forest's leaves.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.problem.reduction import choice_within, reduce
from robustcf.solve.contract import cheapest
from robustcf.solve.incumbent import climb_votes, find_incumbent, improve
from robustcf.solve.walk import cheapest_choice
from robustcf.support.tolerances import COST_ROUNDING

SHRUNK, CLIMBED = 6, 15  # training rows moved back towards the customer; training rows to climb from
ENOUGH = 3  # stop climbing after this many points
WORDS = 35_000_000  # words of 64 leaves that a walk may read per second of the time limit
MOST_SECONDS = 60.0  # a longer time limit counts as this long


def joint_points(
    p: Problem, seeds: Iterable[np.ndarray], rows: list[np.ndarray], lower: float
) -> list[np.ndarray]:
    """Return choices that reach every demand, each made cheaper by local moves.

    The moves start from the customer's own place, from `seeds`, and from those training rows that reach the
    demands (`rows`, the most promising first). If nothing is found, moves add votes of one condition and then
    of the other. The search ends at the cost `lower`, which no choice can beat. The list may be empty.
    """
    found: list[np.ndarray] = []
    for start in (cheapest(p), *seeds):
        if (point := find_incumbent(p, start)) is not None:
            found.append(point)
            if p.objective(point) <= lower * (1 + COST_ROUNDING):
                return found
    for start in [row for row in rows[:SHRUNK] if p.reaches(row)]:
        if (point := find_incumbent(p, start)) is not None:
            found.append(point)
    if not found:
        for start in (cheapest(p), *rows[:CLIMBED]):
            found += [improve(p, c) for c in _cross_climbs(p, start) if p.reaches(c)]
            if len(found) >= ENOUGH:
                break
    return found


def walked(p: Problem, best: np.ndarray, time_limit: float) -> tuple[np.ndarray, bool]:
    """Enumerate cheaper choices; return the cheapest and whether it is proved.

    The time limit sets the amount of work in advance instead of stopping by the clock, so that runs repeat.
    """
    upper = p.objective(best)
    small = reduce(p, upper)
    found, ended = cheapest_choice(small, upper, int(WORDS * min(time_limit, MOST_SECONDS)))
    choice = None if found is None else choice_within(p, small.cell[small.start[:-1] + found])
    return best if choice is None else choice, ended


def _cross_climbs(p: Problem, start: np.ndarray) -> list[np.ndarray]:
    """Add votes of one condition as long as possible, then votes of the other one."""
    free = p._replace(demand=p.demand.copy())
    free.demand[1] = np.iinfo(np.int64).min // 4
    return [climb_votes(swapped(p), climb_votes(first, start)) for first in (p, free)]


def swapped(p: Problem) -> Problem:
    """Return the problem with score and path length, its conditions, swapped."""
    order = [1, 0, *range(2, len(p.demand))]
    return p._replace(votes=np.ascontiguousarray(p.votes[order]), demand=p.demand[order])
