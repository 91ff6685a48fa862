"""Good points for two conditions at once (score and plausibility), found before any proof is tried.

The nearer the first point, the more of an isolation forest's hundreds of leaves a reduction drops.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from robustcf.problem.problem import Problem, choice_within, reduce
from robustcf.solve.contract import cheapest
from robustcf.solve.incumbent import climb_votes, find_incumbent, improve
from robustcf.solve.walk import cheapest_choice

SHRUNK, CLIMBED = 6, 15  # training rows that are moved back to the customer; that are climbed from
ENOUGH = 3  # points found by climbing that suffice
WORDS = 35_000_000  # of 64 leaves each, that a walk may look at for each second of the time limit
MOST_SECONDS = 60.0  # of the limit that count


def joint_starts(
    p: Problem, seeds: Iterable[np.ndarray], rows: list[np.ndarray], lower: float
) -> list[np.ndarray]:
    """Choices that reach every demand, each made cheap by local moves; none if none was found.

    The moves start from the customer's own place, from `seeds`, and from training rows (`rows`, the
    most promising first): those that reach the demands shrink back to the customer. Where nothing
    is found, votes of one condition are added and then of the other. A cost of `lower` cannot be
    beaten and ends the search.
    """
    found: list[np.ndarray] = []
    for start in (cheapest(p), *seeds):
        if (point := find_incumbent(p, start)) is not None:
            found.append(point)
            if p.objective(point) <= lower * (1 + 1e-12):
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
    """The cheapest choice met on a walk over all that are cheaper than `best`, and whether it ended.

    The limit sets the walk's length beforehand, not by the clock, so that runs repeat.
    """
    upper = p.objective(best)
    small = reduce(p, upper)
    found, ended = cheapest_choice(small, upper, int(WORDS * min(time_limit, MOST_SECONDS)))
    choice = None if found is None else choice_within(p, small.cell[small.start[:-1] + found])
    return best if choice is None else choice, ended


def _cross_climbs(p: Problem, start: np.ndarray) -> list[np.ndarray]:
    """Votes of one condition added until none can be, then of the other without loss of the first."""
    free = p._replace(demand=p.demand.copy())
    free.demand[1] = np.iinfo(np.int64).min // 4
    return [climb_votes(swapped(p), climb_votes(first, start)) for first in (p, free)]


def swapped(p: Problem) -> Problem:
    """The problem with its first two conditions, score and path length, in each other's place."""
    order = [1, 0, *range(2, len(p.demand))]
    return p._replace(votes=np.ascontiguousarray(p.votes[order]), demand=p.demand[order])
