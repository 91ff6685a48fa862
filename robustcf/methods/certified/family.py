"""The family of certified points (docs/certificates.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from robustcf.certificate.design import Design
from robustcf.forest.join import join_forests
from robustcf.methods.base import Setting
from robustcf.methods.certified.ladder import Ladder, Pool
from robustcf.methods.certified.search import LevelSearch
from robustcf.methods.family import Answer, Customer, Tools
from robustcf.methods.threshold_family import Thresholds
from robustcf.methods.thresholds import Naive
from robustcf.support.tolerances import reached

if TYPE_CHECKING:
    from robustcf.methods.certified.method import Certified

OPTIMISM = 0.25  # the search uses the pool if the pilot does not confirm this share of a point's excess score


class CertifiedPoints:
    """Finds the nearest point that the certification forests confirm."""

    def __init__(self, setting: Setting, design: Design) -> None:
        self.schema, self.voting = setting.schema, setting.voting
        self.fresh = setting.fresh_forests(design)
        self.explained = Pool(setting.thresholds())
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
        searches = [LevelSearch(self.fresh, method, self.voting, row.target) for method in methods]
        ladder = Ladder(self.explained, row, tools)
        first = ladder.at(searches[0].guess)
        if first.status == "no_recourse" and ladder.at(0.5).status == "no_recourse":
            return self.explained.thresholds.answers(row, [Naive() for _ in methods], tools)
        if self.fresh.pool is not None and self._is_optimistic(ladder, first, row):
            ladder = Ladder(self.pooled, row, tools)
        return [search.certified(ladder) for search in searches]

    def _is_optimistic(self, ladder: Ladder, answer: Answer, row: Customer) -> bool:
        """Whether fresh trees, which the search has not seen, think much less of a point."""
        point = ladder.encoded(answer)
        if point is None:
            return True
        score = float(self.explained.forest.score(point[None, :], row.target, self.voting)[0])
        confirmed = self.fresh.estimate(point, row.target, self.voting).mean
        return score - confirmed > OPTIMISM * (score - 0.5)

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
