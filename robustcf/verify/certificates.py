"""Check certificates: recompute each one from the certification forests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.stats import beta, binom

from robustcf.certificate.bounds import soft_vote_bound
from robustcf.certificate.fresh import Forests
from robustcf.forest.forest import Voting
from robustcf.support.tolerances import CHECKED_COLUMN, CHECKED_PREDICTION
from robustcf.verify.findings import short
from robustcf.verify.trees import Bar, Trees

if TYPE_CHECKING:
    from robustcf.verify.sheet import Sheet

CERTIFIED = "certified"
PAIRS = 4_000_000  # pairs of a point and a tree at a time
THREADS = 4
UNCHECKED = "the certificates' counts: the certification forests are not stored (use --retrain all)"
UNPOOLED = "the pool scores of certificates: the pool's forests are not stored (use --retrain all)"


@dataclass(frozen=True, eq=False)
class Terms:
    """What a certified method demands, and the forests that decide it.

    `delta` is one certificate's share of δ, `n_trees` the size of a retrained forest, and `pool` the number
    of fresh trees in the pool. `pooled` has the explained forest's trees and then the pool's. `certification`
    and `pooled` are None if they are not available.
    """

    alpha: float
    delta: float
    forests: int
    pool: int
    scenario: str
    n_trees: int
    test: str
    levels: tuple[float, ...]
    certification: Forests | None = None
    pooled: Trees | None = None


def levels_of(n_trees: int, listed: Sequence[float] | None = None, cut: float = 0.5) -> tuple[float, ...]:
    """Return the levels of a method: the cut-off c, and those it lists (docs/certificates.md).

    If it lists none, the excess over c grows by a quarter each time, from 0.2·√(c(1 - c)/N) to 0.9·(1 - c).

    >>> [round(level, 3) for level in levels_of(100)[:4]], levels_of(100)[-1]
    ([0.5, 0.51, 0.512, 0.516], 0.95)
    """
    if listed is not None:
        return (cut, *(level for level in listed if level > cut))
    top = cut + 0.9 * (1 - cut)
    found, excess = [cut], 0.2 * math.sqrt(cut * (1 - cut) / n_trees)
    while found[-1] < top:
        found.append(min(cut + excess, top))
        excess *= 1.25
    return tuple(found)


def chosen_test(test: str, voting: str, n_classes: int, resamples: bool) -> str:
    """Return the test that "auto" stands for."""
    if test != "auto":
        return test
    return "trees" if voting == "hard" and n_classes == 2 and not resamples else "forests"


def check_certificates(sheet: Sheet) -> None:
    """Check that rows have a certificate if and only if they should, and recompute it."""
    table = sheet.block.certificates
    has = np.zeros(sheet.n, dtype=bool)
    if table is not None:
        has[table["row"]] = True
    own = np.array([d.name == CERTIFIED for d in sheet.asked.demands] + [False])[sheet.method]
    answered = np.isin(sheet.status, ("optimal", "feasible"))
    sheet.note("certificate", has & ~own, "the method gives no certificates, but the row has one")
    sheet.note("certificate", own & answered & ~has, "the certificate is missing")
    sheet.note(
        "certificate", has & own & ~answered & (sheet.status != "error"), "the status allows no certificate"
    )
    if table is None or not len(table["row"]):
        return
    place = np.full(sheet.n, -1)
    place[table["row"]] = np.arange(len(table["row"]))
    point = np.full(sheet.n, -1)
    point[sheet.block.at] = np.arange(len(sheet.block.at))
    for d, terms in sheet.asked.terms.items():
        rows = np.flatnonzero(has & answered & (sheet.method == d) & (point >= 0) & (sheet.target >= 0))
        if len(rows):
            mine = {name: values[place[rows]] for name, values in table.items()}
            _Certificates(sheet, terms, d, rows, mine, sheet.block.points[point[rows]]).check()


class _Certificates:
    """The certificates of one method in a block."""

    def __init__(
        self,
        sheet: Sheet,
        terms: Terms,
        d: int,
        rows: np.ndarray,
        stored: dict[str, np.ndarray],
        points: np.ndarray,
    ) -> None:
        self.sheet, self.terms, self.rows, self.stored, self.points = sheet, terms, rows, stored, points
        self.voting = sheet.asked.demands[d].voting

    def check(self) -> None:
        self._check_terms()
        self._check_level()
        self._check_test()

    def _differ(self, column: str, wrong: np.ndarray, wanted: Callable[[int], Any]) -> None:
        stored = self.stored[column]
        self.sheet.findings.where(
            "certificate",
            wrong,
            lambda k: (
                f"{self.sheet.name(int(self.rows[k]))}: {column}: stored {short(stored[k])}, "
                f"recomputed {short(wanted(k))}"
            ),
        )

    def _note(self, wrong: np.ndarray, what: str) -> None:
        self.sheet.findings.where(
            "certificate", wrong, lambda k: f"{self.sheet.name(int(self.rows[k]))}: {what}"
        )

    def _check_terms(self) -> None:
        """Compare what every certificate of the method has in common."""
        terms = self.terms
        common = {
            "certificate_forests": terms.forests,
            "certificate_delta": terms.delta,
            "certificate_scenario": terms.scenario,
            "certificate_trees": terms.n_trees,
            "certificate_test": terms.test,
        }
        for column, value in common.items():
            wanted = [value] * len(self.rows)
            self._differ(column, self.stored[column] != value, wanted.__getitem__)

    def _check_level(self) -> None:
        """Check that the level is on the path and that the pool gives the point this score."""
        level, trees = self.stored["certificate_level"], self.stored["certificate_pool_trees"]
        path = np.array(self.terms.levels)
        off = ~(np.abs(level[:, None] - path).min(axis=1) <= CHECKED_COLUMN)
        self._note(off, "certificate_level is not one of the method's levels")
        own = len(self.sheet.asked.trees)
        alone = trees == own
        self._differ(
            "certificate_pool_trees",
            ~alone & (trees != own + self.terms.pool),
            lambda _: own + self.terms.pool,
        )
        score = self.sheet.number("score_after")[self.rows]
        if self.terms.pooled is None:
            self.sheet.findings.unchecked[UNPOOLED] += int((~alone).sum())
            score[~alone] = np.nan
        else:
            at = np.flatnonzero(~alone)
            targets = self.sheet.target[self.rows[at]]
            score[at] = self.terms.pooled.judge(self.points[at], targets, self.voting).score
        known = ~np.isnan(score)
        rounding = self.sheet.rounding * np.maximum(trees, 1) / own
        with np.errstate(invalid="ignore"):
            other = known & ~(np.abs(self.stored["certificate_pool_score"] - score) <= rounding)
            self._differ("certificate_pool_score", other, lambda k: score[k])
            self._note(known & (score < level - rounding), "the pool does not give the point its level")

    def _check_test(self) -> None:
        """Count again which certification forests agree, and repeat the test."""
        terms, stored = self.terms, self.stored
        if terms.certification is None:
            self.sheet.findings.unchecked[UNCHECKED] += len(self.rows)
            agree = stored["certificate_agree"]
            possible = (agree >= 0) & (agree <= terms.forests)
            self._note(~possible, "certificate_agree is not a number of forests")
            bound = stored["certificate_low"]
            if terms.test == "forests":
                bound = least_shares(agree, terms.forests, terms.delta)
        else:
            agree, bound = self._recomputed(terms.certification)
            self._differ("certificate_agree", stored["certificate_agree"] != agree, lambda k: int(agree[k]))
        within = CHECKED_COLUMN if terms.test == "forests" else CHECKED_PREDICTION
        wrong = ~(np.abs(stored["certificate_low"] - bound) <= within)
        self._differ("certificate_low", wrong, lambda k: bound[k])
        clear = np.abs(bound - (1 - terms.alpha)) > within
        passes = bound >= 1 - terms.alpha
        self._differ("certified", clear & (stored["certified"] != passes), lambda k: float(passes[k]))

    def _recomputed(self, forests: Forests) -> tuple[np.ndarray, np.ndarray]:
        """Return how many forests agree at each point, and the bound of the test."""
        agree, bound = np.zeros(len(self.rows), dtype=np.int64), np.zeros(len(self.rows))
        targets = self.sheet.target[self.rows]

        def count(at: np.ndarray) -> None:
            points, label = self.points[at], forests.trees.classes[targets[at[0]]]
            voting = cast(Voting, self.voting)
            bar = self.sheet.asked.trees.bar(int(targets[at[0]]))
            if self.terms.test == "trees":  # two classes: the votes decide
                votes = forests.values(points, label, voting)
                each = votes.reshape(len(at), len(forests), -1).sum(axis=2)
                agree[at] = (each >= bar.votes(self.terms.n_trees)).sum(axis=1)
                bound[at] = self._vote_bounds(votes, bar)
                return
            agree[at] = forests.agree(points, label, voting).sum(axis=1)
            if self.terms.test == "trees-asymptotic":
                values = forests.values(points, label, voting)
                bound[at] = [
                    soft_vote_bound(row, self.terms.n_trees, self.terms.delta, bar.score) for row in values
                ]

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(count, _parts(targets, max(1, PAIRS // len(forests.trees)))))
        if self.terms.test == "forests":
            bound = least_shares(agree, len(forests), self.terms.delta)
        return agree, bound

    def _vote_bounds(self, votes: np.ndarray, bar: Bar) -> np.ndarray:
        """Return the bounds of reaching the cut-off with N trees, given the votes of all trees (Prop. 1)."""
        n = self.terms.n_trees
        share = least_shares(votes.sum(axis=1), votes.shape[1], self.terms.delta)
        needed = bar.votes(n, strict=True) if bar.majority else bar.votes(n)
        return np.asarray(binom.sf(needed - 1, n, share))


def _parts(targets: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield the positions of some points that have the same target."""
    for target in np.unique(targets):
        mine = np.flatnonzero(targets == target)
        for start in range(0, len(mine), size):
            yield mine[start : start + size]


def least_shares(agree: np.ndarray, trials: int, delta: float) -> np.ndarray:
    """Return the exact one-sided lower bound (Clopper-Pearson) of each share.

    >>> least_shares(np.array([99, 0]), 100, 0.05).round(4).tolist()
    [0.9534, 0.0]
    """
    count = np.clip(agree, 0, trials).astype(np.float64)
    with np.errstate(invalid="ignore"):
        bound = beta.ppf(delta, np.maximum(count, 1), trials - count + 1)
    return np.where(count > 0, bound, 0.0)
