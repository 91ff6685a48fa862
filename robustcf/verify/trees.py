"""Walk the trees in the forest's flat arrays, independently of `Forest`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from robustcf.forest.boosted.link import Boosting
from robustcf.support.tolerances import DISTINCT_VOTES, SCORE_ROUNDING, TIE_MARGIN

BLOCK = 1_000_000  # (row, tree) pairs walked at a time


@dataclass(frozen=True)
class Bar:
    """The score at which a forest decides for a class: at least `score`, or more if `strict`.

    Without a cut-off of the model, `majority` is true: the class needs half of the votes, and whether a tie
    suffices depends on the order of the classes. p* then asks for more than half. With `classes` above 2, the
    highest of so many scores wins: half of the votes suffices, and `least` is the lowest score that can win.
    """

    score: float = 0.5
    strict: bool = True
    majority: bool = True
    classes: int = 2
    boosting: Boosting | None = None
    rounding: float = 0.0  # of a boosted margin

    @property
    def plurality(self) -> bool:
        return self.classes > 2

    @property
    def least(self) -> float:
        return 1 / self.classes if self.plurality else self.score

    def margin(self, score: float) -> float:
        """Return the boosted margin that surely gives a score, and decides for the class."""
        assert self.boosting is not None
        wanted = max(score, self.score)
        if wanted >= 1:
            return math.inf
        return self.boosting.margin(wanted) + self.boosting.band(wanted, self.rounding)

    def votes(self, n_trees: int, strict: bool | None = None) -> int:
        """Return the least number of whole votes, counted with the cut-off's decimal digits."""
        exact = Fraction(str(self.score)) * n_trees
        return math.floor(exact) + 1 if (self.strict if strict is None else strict) else math.ceil(exact)


@dataclass(frozen=True)
class Verdict:
    """Each row's target score, lead over the best other class or the cut-off, and the trees' spread.

    `edge` and `spread` are the mean and the standard deviation over the trees of what has to be above 0: the
    score less the cut-off or, by plurality, the lead over the class that is most likely to be ahead.
    """

    score: np.ndarray
    lead: np.ndarray
    spread: np.ndarray
    edge: np.ndarray

    def decided(self, voting: str) -> np.ndarray:
        """Return whether the forest may decide for the target.

        Ties of soft votes count.
        """
        return np.asarray(self.lead > (-TIE_MARGIN if voting == "soft" else 0.0))

    def denied(self, voting: str) -> np.ndarray:
        """Return whether the forest may decide against the target.

        Ties of soft votes count.
        """
        return np.asarray(self.lead < (TIE_MARGIN if voting == "soft" else 0.0))


class Trees:
    """A forest's arrays from `load_forest`, which also checks the fingerprint."""

    def __init__(self, forest: Any) -> None:
        self.classes: tuple[Any, ...] = tuple(forest.classes)
        self.fingerprint: str = forest.fingerprint
        self.n_features: int = forest.n_features
        self.accepts_missing: bool = forest.accepts_missing
        self.roots = np.asarray(forest.tree_start[:-1], dtype=np.int64)
        self.left, self.right = forest.left, forest.right
        self.feature, self.threshold = forest.feature, forest.threshold
        self.missing_left, self.leaf = forest.missing_left, forest.probabilities
        self.decision = getattr(forest, "decision", None)
        self.boosting: Boosting | None = getattr(forest, "boosting", None)
        self.floats: type[np.floating[Any]] = getattr(forest, "floats", np.float32)
        self.margin_rounding = 0.0 if self.boosting is None else forest.margin_rounding

    @property
    def rounding(self) -> float:
        """How far a score may lie from its recomputation."""
        if self.boosting is not None:
            return 2 * self.boosting.score_rounding(self.margin_rounding)
        return SCORE_ROUNDING * (len(self) + 1)

    def bar(self, target: int) -> Bar:
        """Return the score at which the forest decides for a class."""
        bar = self._bar(target)
        return replace(bar, boosting=self.boosting, rounding=self.margin_rounding)

    def _bar(self, target: int) -> Bar:
        if self.decision is None:
            return Bar(0.5, strict=target > 0, classes=len(self.classes))
        cut = self.decision.cutoff
        if self.classes[target] == self.decision.label:
            return Bar(cut.score, cut.strict, majority=False)
        return Bar(float(1 - Fraction(str(cut.score))), not cut.strict, majority=False)

    def __len__(self) -> int:
        return len(self.roots)

    def position(self, label: str) -> int:
        """Return the index of the class with this text; -1 if there is none."""
        names = [str(c) for c in self.classes]
        return names.index(label) if label in names else -1

    def leaves(self, X: np.ndarray) -> np.ndarray:
        """Return each (row, tree)'s leaf.

        As scikit-learn, go left if float32(x) <= threshold.
        """
        rows = X.astype(self.floats)
        node = np.tile(self.roots, len(rows))
        row = np.repeat(np.arange(len(rows)), len(self.roots))
        walking = np.flatnonzero(self.left[node] >= 0)
        while len(walking):
            at = node[walking]
            value = rows[row[walking], self.feature[at]].astype(np.float64)
            goes_left = np.where(np.isnan(value), self.missing_left[at], value <= self.threshold[at])
            node[walking] = np.where(goes_left, self.left[at], self.right[at])
            walking = walking[self.left[node[walking]] >= 0]
        return node.reshape(len(rows), len(self.roots))

    def judge(self, X: np.ndarray, targets: np.ndarray, voting: str) -> Verdict:
        """Return the forest's verdict on each row for that row's target class."""
        parts = [
            self._judge(X[i : i + size], targets[i : i + size], voting)
            for size in [max(1, BLOCK // len(self))]
            for i in range(0, len(X), size)
        ]
        if not parts:
            nothing = np.zeros(0)
            return Verdict(nothing, nothing, nothing, nothing)
        names = ("score", "lead", "spread", "edge")
        return Verdict(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def _judge(self, X: np.ndarray, targets: np.ndarray, voting: str) -> Verdict:
        leaves = self.leaves(X)
        if self.boosting is not None:
            margin = self.leaf[leaves, targets[:, None]].sum(axis=1)
            margin += np.where(targets == 1, self.boosting.base, -self.boosting.base)
            with np.errstate(over="ignore"):
                score = 1 / (1 + np.exp(-self.boosting.scale * margin))
            edge = score - np.array([self.bar(int(t)).score for t in targets])
            return Verdict(score, edge, np.zeros(len(X)), edge)
        if voting == "hard":
            choice = self.leaf.argmax(axis=1)
            votes = np.stack([(choice == c).astype(np.float64) for c in range(len(self.classes))], axis=1)
        else:
            votes = self.leaf
        everyone = np.stack([votes[:, c][leaves].mean(axis=1) for c in range(len(self.classes))], axis=1)
        mine = np.arange(len(X)), targets
        score = everyone[mine]
        own = votes[leaves, targets[:, None]]
        spread = own.std(axis=1, ddof=1) if len(self) > 1 else np.zeros(len(X))
        if self.decision is not None:
            bars = [self.bar(int(t)) for t in targets]
            edge = score - np.array([bar.score for bar in bars])
            if voting == "hard":  # half a vote separates reaching the cut-off from missing it
                needed = np.array([bar.votes(len(self)) for bar in bars], dtype=np.float64)
                return Verdict(score, score - (needed - 0.5) / len(self), spread, edge)
            return Verdict(score, edge, spread, edge)
        edge = score - 0.5
        if len(self.classes) > 2:
            edge, spread = self._closest(votes, leaves, targets)
        if voting == "hard":  # in a tie, the first class is predicted
            everyone += DISTINCT_VOTES * np.sign(targets[:, None] - np.arange(len(self.classes)))
        everyone[mine] = -np.inf
        return Verdict(score, score - everyone.max(axis=1), spread, edge)

    def _closest(
        self, votes: np.ndarray, leaves: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and deviation of the lead over the class most likely to be ahead."""
        own = votes[leaves, targets[:, None]]
        means, spreads = [], []
        for k in range(len(self.classes)):
            lead = own - votes[leaves, k]
            means.append(np.where(targets == k, np.inf, lead.mean(axis=1)))
            spreads.append(lead.std(axis=1, ddof=1) if len(self) > 1 else np.zeros(len(own)))
        mean, spread = np.array(means), np.array(spreads)
        with np.errstate(divide="ignore", invalid="ignore"):
            certain = np.where(mean == 0, 0.0, np.sign(mean) * np.inf)
            closest = np.where(spread > 0, mean / spread, certain).argmin(axis=0)
        row = np.arange(len(own))
        return mean[closest, row], spread[closest, row]
