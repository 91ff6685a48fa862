"""Choose levels by the pilot, then test them on the certification forests.

The pilot and the pool are independent of the certification forests. A certificate therefore stays valid
however they choose the first level, and wherever they stop the walk. The certification forests are asked only
in the walk from the first level down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from robustcf.certificate.bounds import chance_to_pass
from robustcf.certificate.certificate import Certificate, judge_point
from robustcf.certificate.fresh import FreshForests
from robustcf.certificate.walk import walk_down
from robustcf.forest.forest import Label, Voting
from robustcf.methods.certified.ladder import Ladder
from robustcf.methods.family import Answer

if TYPE_CHECKING:
    from robustcf.methods.certified.method import Certified

SAFE = 0.98  # the pilot's estimate of the chance that the first level tested passes
HOPELESS = 0.1  # levels with a smaller chance are not tried
MOST_LEVELS = 5  # levels that are solved to choose the first one to test
LARGEST = 8.0  # a larger z-score is a validity of 1 in floating point
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(9)  # averages over a normal error


class LevelSearch:
    """Finds one customer's certified point for one method."""

    def __init__(
        self,
        fresh: FreshForests,
        method: Certified,
        voting: Voting,
        target: Label,
        chance: PassingChance,
        deviation: float,
    ) -> None:
        self.fresh, self.method, self.voting, self.target = fresh, method, voting, target
        self.cut = fresh.cutoff(target).score
        self.path = method.path(fresh.n_trees, self.cut)
        self.chance = chance
        self.likely = self.cut + self.chance.safe * deviation
        self.guess = self._near(self.likely)  # the level to solve first

    def _near(self, score: float) -> float:
        return min(self.path, key=lambda level: abs(level - score))

    def certified(self, ladder: Ladder, optimism: float = 0.0) -> Answer:
        """Test levels from a safe one down; return the nearest point that passed.

        `optimism` is by how much the pool's scores probably exceed those of fresh trees.
        """
        first = self._first_level(ladder, self._near(self.likely + optimism))
        if first is None:
            return self._answer(ladder, 0)  # no other level tells whether there is recourse
        tested: dict[int, Certificate] = {}

        def passes(level: int) -> bool:
            tested[level] = self._tested(ladder, level)
            return tested[level].certified

        passed = walk_down(self._downwards(ladder, first), passes)
        chosen = min(passed, key=lambda level: self._answer(ladder, level).objective, default=first)
        return replace(self._answer(ladder, chosen), certificate=tested[chosen])

    def _answer(self, ladder: Ladder, level: int) -> Answer:
        return ladder.at(self.path[level])

    def _first_level(self, ladder: Ladder, guess: float) -> int | None:
        """Return the lowest level that is safe by the pilot, else the highest known to have a point.

        The search starts at a guess. The result is None if not even the cut-off has a point.
        """
        low, high, top = -1, None, len(self.path) - 1  # too low; safe; the highest that may have a point
        level = self.path.index(guess)
        for _ in range(MOST_LEVELS):
            z = self._z(ladder, level)
            if z is None:
                top = level - 1
                level = (low + 1 + top) // 2
            else:
                if z >= self.chance.safe:
                    high = level
                else:
                    low = level
                level = self._level_for(self.chance.safe, level, z)
            most = top if high is None else high - 1
            if most <= low or (high is not None and level >= high):
                break
            level = min(max(level, low + 1), most)
        if high is not None:
            return high
        if low >= 0:
            return low
        return None if self._answer(ladder, 0).numbers is None else 0

    def _level_for(self, z: float, level: int, known: float) -> int:
        """Return the lowest level that should have this z-score, in proportion to a known one."""
        excess = (self.path[level] - self.cut) * z / known if known > 0.1 else math.inf
        beyond = [i for i, tau in enumerate(self.path) if tau - self.cut >= excess]
        return beyond[0] if beyond else len(self.path) - 1

    def _downwards(self, ladder: Ladder, first: int) -> Iterator[int]:
        """Yield levels with a point, from the first down, while passing is likely enough."""
        above: tuple[int, float] | None = None
        for level in range(first, -1, -1):
            if above is not None and not ladder.is_solved(self.path[level]):
                share = (self.path[level] - self.cut) / (self.path[above[0]] - self.cut)
                if self.chance(above[1] * share) < HOPELESS:
                    return
            z = self._z(ladder, level)
            if z is None:
                continue
            if above is not None and self.chance(z) < HOPELESS:
                return
            above = level, z
            yield level

    def _z(self, ladder: Ladder, level: int) -> float | None:
        """Return the pilot's z-score of a level's point; None without a point."""
        point = ladder.encoded(self._answer(ladder, level))
        if point is None:
            return None
        validity = self.fresh.estimate(point, self.target, self.voting).validity
        return float(np.clip(ndtri(validity), -LARGEST, LARGEST))

    def _tested(self, ladder: Ladder, level: int) -> Certificate:
        point = ladder.encoded(self._answer(ladder, level))
        assert point is not None
        found = judge_point(
            self.fresh,
            point,
            self.target,
            self.voting,
            self.method.alpha,
            self.method.delta_each,
            self.chance.test,
        )
        pool = ladder.pool.forest
        score = float(pool.score(point[None, :], self.target, self.voting)[0])
        found = replace(found, tests=self.method.tests)
        return replace(found, level=self.path[level], pool_score=score, pool_trees=len(pool))


class PassingChance:
    """The chance that a point passes the test, given the pilot's z-score of its validity.

    The pilot's own error counts: it is a normal error of the z-score.
    """

    def __init__(self, fresh: FreshForests, voting: Voting, method: Certified) -> None:
        self.test = method.test_for(voting, len(fresh.certification.trees.classes))
        groups = len(fresh.pilot) if fresh.design.resamples else len(fresh.pilot.trees) / fresh.n_trees
        self.error = 1 / math.sqrt(groups)
        self.method, self.forests = method, len(fresh.certification)
        margin = float(ndtri(1 - method.delta_each)) / math.sqrt(self.forests)
        self.needed = float(ndtri(1 - method.alpha)) + margin
        low, high = 0.0, LARGEST
        while high - low > 0.01:
            middle = (low + high) / 2
            low, high = (low, middle) if self(middle) >= SAFE else (middle, high)
        self.safe = high

    def __call__(self, z: float) -> float:
        if self.test != "forests":
            return float(ndtr((z - self.needed) / math.hypot(1 / math.sqrt(self.forests), self.error)))
        validity = ndtr(z + self.error * NODES)
        chances = chance_to_pass(validity, self.forests, self.method.alpha, self.method.delta_each)
        return float(chances @ WEIGHTS / WEIGHTS.sum())
