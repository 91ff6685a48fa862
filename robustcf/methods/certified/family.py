"""The family of certified points (docs/certificates.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from robustcf.certificate.design import Design
from robustcf.certificate.fresh import FreshForests
from robustcf.forest.forest import Label
from robustcf.forest.join import join_forests
from robustcf.methods.base import Setting
from robustcf.methods.certified.ladder import Ladder, Pool
from robustcf.methods.certified.search import LevelSearch, PassingChance
from robustcf.methods.family import Answer, Customer, Tools
from robustcf.methods.threshold_family import Thresholds
from robustcf.support.tolerances import reached

if TYPE_CHECKING:
    from robustcf.methods.certified.method import Certified

NEAR = 50  # training rows near the decision boundary
OPTIMISM = 0.25  # the search uses the pool if the pilot does not confirm this share of a point's excess score


def typical_deviation(fresh: FreshForests, X: np.ndarray, pool: Pool, target: Label) -> float:
    """Return the typical standard deviation of a retrained forest's score near the cut-off.

    It is the pilot's median over the training rows whose score is nearest to the cut-off.
    """
    scores = pool.forest.score(X, target, pool.voting)
    cut = fresh.cutoff(target).score
    near = X[np.argsort(np.abs(scores - cut), kind="stable")[:NEAR]]
    found = [fresh.estimate(row, target, pool.voting).deviation for row in near]
    return float(np.median(found)) or math.sqrt(cut * (1 - cut) / fresh.n_trees)


class CertifiedPoints:
    """Finds the nearest point that the certification forests confirm."""

    def __init__(self, setting: Setting, design: Design) -> None:
        self.schema, self.voting = setting.schema, setting.voting
        self.fresh = setting.fresh_forests(design)
        self.explained = Pool(setting.thresholds())
        self._deviation = cache(partial(typical_deviation, self.fresh, setting.rows.X, self.explained))
        self._chance = cache(partial(PassingChance, self.fresh, self.voting))
        self._pooled: Pool | None = None

    @property
    def pooled(self) -> Pool:
        """The pool with fresh trees; it is compiled when a customer first needs it."""
        if self._pooled is None:
            assert self.fresh.pool is not None
            own = self.explained.thresholds
            joined = join_forests([own.forest, self.fresh.pool])
            self._pooled = Pool(own, Thresholds(joined, self.schema, self.voting))
        return self._pooled

    def answers(self, row: Customer, methods: Sequence[Certified], tools: Tools) -> list[Answer]:
        deviation = self._deviation(row.target)
        searches = [
            LevelSearch(self.fresh, method, self.voting, row.target, self._chance(method), deviation)
            for method in methods
        ]
        ladder = Ladder(self.explained, row, tools)
        first = ladder.at(searches[0].guess)
        if first.numbers is None and ladder.at(searches[0].path[0]).status == "no_recourse":
            return self.explained.thresholds.answers(row, methods, tools)
        optimism = self._optimism(ladder, first, row)
        if self.fresh.pool is None or optimism is None:
            return [search.certified(ladder) for search in searches]
        pooled = Ladder(self.pooled, row, tools)
        left = optimism * math.sqrt(len(self.explained.forest) / len(self.pooled.forest))
        answers = [search.certified(pooled, left) for search in searches]
        return [  # without a point in the pool, the explained forest alone decides
            search.certified(ladder) if answer.numbers is None else answer
            for search, answer in zip(searches, answers, strict=True)
        ]

    def _optimism(self, ladder: Ladder, answer: Answer, row: Customer) -> float | None:
        """Return by how much a score exceeds that of fresh trees, which the search has not seen.

        The result is None if the difference is a small share of the score's excess over the cut-off, so that
        the pool would bring little.
        """
        point = ladder.encoded(answer)
        if point is None:
            return 0.0
        score = float(self.explained.forest.score(point[None, :], row.target, self.voting)[0])
        difference = score - self.fresh.estimate(point, row.target, self.voting).mean
        return difference if difference > OPTIMISM * (score - self.fresh.cutoff(row.target).score) else None

    def penalty(self, row: Customer, method: Certified, point: np.ndarray) -> float:
        return 0.0

    def complaints(self, row: Customer, method: Certified, answer: Answer, encoded: np.ndarray) -> list[str]:
        found = answer.certificate
        if found is None:
            return []
        pool = self.explained if found.pool_trees == len(self.explained.forest) else self.pooled
        score = float(pool.forest.score(encoded[None, :], row.target, self.voting)[0])
        if not reached(score, found.level, found.pool_trees):
            return [f"the pool gives the point the score {score}, below its level {found.level}"]
        return []
