"""Split an open subtree in two by strong branching on its linear relaxation."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from robustcf.problem.problem import Problem
from robustcf.solve.prices import Prices, Relaxation

STRONG = 8  # most cuts tried when a subtree is split by its relaxation


@dataclass
class OpenSubtree:
    """An open subtree: its options alive, its bound, and its prices.

    `relaxed` says that the prices come from its own relaxation, not from ascent or a parent.
    """

    alive: np.ndarray
    bound: float
    prices: Prices | None
    relaxed: bool = False


def split_subtree(
    problem: Problem, relaxation: Relaxation, node: OpenSubtree, upper: float, end: float
) -> list[OpenSubtree]:
    """Split a subtree that its prices could not close.

    The most fractional cuts of the relaxation are tried on both sides until one is no better than those
    before it. The cut with the largest product of both sides' increases is taken. The more promising side
    comes last and is searched first. If the time is up, the subtree is returned unchanged.
    """
    here = relaxation.bound(node.alive, end - time.monotonic())
    best, halves = -1.0, [node]
    for f, cut in relaxation.undecided(STRONG) or [_middle(problem, node.alive)]:
        sides = []
        for low_side in (True, False):
            alive = node.alive.copy()
            options = np.arange(problem.start[f], problem.start[f + 1])
            low = options < cut if problem.ordered[f] else options == cut
            alive[options[low != low_side]] = False
            value = relaxation.bound(alive, end - time.monotonic(), upper)
            prices = relaxation.prices() if math.isfinite(value) else None
            sides.append((value, OpenSubtree(alive, node.bound, prices, prices is not None)))
        values = [value for value, _ in sides]
        rise = math.prod(max(min(value, upper) - here, 1e-9) for value in values)
        if math.isnan(rise):
            if time.monotonic() >= end:
                return halves
            rise = 0.0  # a relaxation that failed: any cut will do
        if rise <= best:
            break
        best, halves = rise, [side for _, side in sorted(sides, key=lambda side: -side[0])]
        if min(values) >= upper:
            break
    return halves


def _middle(problem: Problem, alive: np.ndarray) -> tuple[int, int]:
    """Return a cut through the middle of the feature with the most options."""
    f = int(np.add.reduceat(alive, problem.start[:-1]).argmax())
    options = np.flatnonzero(alive[problem.start[f] : problem.start[f + 1]]) + problem.start[f]
    return f, int(options[len(options) // 2 if problem.ordered[f] else 0])
