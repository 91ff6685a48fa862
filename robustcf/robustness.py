"""Predict from the explained forest alone how often retrained forests agree.

**These in-sample figures are optimistic.** An optimal point was chosen because *this* forest scores it high,
so the forest's trees are a biased sample at the point. The paper measures a validity of 17 % on Spambase
where the binomial law says 50 %. `Calibration` corrects predictions by measured validities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri
from sklearn.isotonic import IsotonicRegression

from robustcf.forest.forest import Forest, Label, Voting


@dataclass(frozen=True, eq=False)
class Prediction:
    """Probability that a retrained forest gives the target, with an interval.

    `estimate` treats the explained forest's trees as an unbiased sample. `low` and `high` account for the
    finite number of trees, at the level `confidence`. Neither accounts for the point being optimised
    against these trees.
    """

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    confidence: float
    label = "optimistic in-sample estimate"


def predicted_validity(
    forest: Forest,
    encoded: np.ndarray,
    target: Label,
    voting: Voting = "soft",
    n_trees: int | None = None,
    confidence: float = 0.95,
) -> Prediction:
    """Predict how often forests retrained on the same data give the target.

    Hard votes: trees are draws of Ber(p) with p the vote share, so a forest of N trees has Binom(N, p) votes
    (eq. 6); the interval for p is Clopper-Pearson's. Soft votes: the mean of N draws from the trees'
    probabilities is approximated as normal. By plurality (more than two classes), the lead over each other
    class is approximated as normal, under both kinds of votes, and the least probability counts. Nothing is
    predicted for boosting (NaN).

    Parameters
    ----------
    forest : Forest
        The explained forest.
    encoded : ndarray of shape (points, columns)
    target : label
    voting : {"soft", "hard"}
    n_trees : int, optional
        Size N of the retrained forests; the explained forest's size by default.
    confidence : float
        Confidence level of the interval.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X = np.random.default_rng(0).random((200, 1)); y = (X[:, 0] > 0.5).astype(int)
    >>> forest = Forest.from_sklearn(RandomForestClassifier(20, max_depth=1, random_state=0).fit(X, y))
    >>> predicted_validity(forest, np.array([[0.1], [0.9]]), 1, "hard").estimate
    array([0., 1.])
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}; it must lie strictly between 0 and 1")
    c, known = forest.class_index(target), len(forest)
    n = known if n_trees is None else n_trees
    if n < 1:
        raise ValueError(f"n_trees is {n}; a forest has at least one tree")
    if forest.boosting is not None:  # its trees are no draws from one distribution
        unknown = np.full(len(encoded), np.nan)
        return Prediction(unknown, unknown, unknown, confidence)
    leaves = forest.leaves(encoded)
    z = float(ndtri((1 + confidence) / 2))
    if forest.by_plurality:
        values = forest.probabilities
        if voting == "hard":
            values = np.eye(len(forest.classes))[values.argmax(axis=1)]
        others = [k for k in range(len(forest.classes)) if k != c]
        found = [_likely((values[:, c] - values[:, k])[leaves], n, z) for k in others]
        least = [np.min([pair[i] for pair in found], axis=0) for i in range(3)]
        return Prediction(least[0], least[1], least[2], confidence)
    if voting == "hard":
        votes = (forest.probabilities.argmax(axis=1)[leaves] == c).sum(axis=1).astype(np.float64)
        needed = forest.winning(target).votes(n)
        tail = (1 - confidence) / 2
        low = np.where(votes > 0, betaincinv(np.maximum(votes, 1), known - votes + 1, tail), 0.0)
        rest = np.maximum(known - votes, 1)
        high = np.where(votes < known, betaincinv(votes + 1, rest, 1 - tail), 1.0)
        chance = [betainc(needed, n - needed + 1, p) for p in (votes / known, low, high)]
        return Prediction(chance[0], chance[1], chance[2], confidence)
    excess = forest.probabilities[:, c][leaves] - forest.winning(target).score
    chance = _likely(excess, n, z)
    return Prediction(chance[0], chance[1], chance[2], confidence)


def _likely(values: np.ndarray, n: int, z: float) -> list[np.ndarray]:
    """Return P(mean of n draws > 0) given each row's draws, and its interval of z standard errors."""
    known = values.shape[1]
    mean, spread = values.mean(axis=1), values.std(axis=1, ddof=1) if known > 1 else np.zeros(len(values))
    margin = z * spread / math.sqrt(known)
    return [_normal(m, spread / math.sqrt(n)) for m in (mean, mean - margin, mean + margin)]


def _normal(excess: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Return P(Z > 0) for a normal Z with mean `excess` and the given deviation."""
    sure = np.where(excess > 0, 1.0, np.where(excess < 0, 0.0, 0.5))
    return np.where(deviation > 0, ndtr(excess / np.where(deviation > 0, deviation, 1.0)), sure)


@dataclass(frozen=True, eq=False)
class Calibration:
    """An increasing, piecewise linear map from predicted to measured validity.

    Fit it on points of one kind (a data set, a voting rule) over several methods, so that the predictions
    differ. It is only as good as the retraining that it was fitted on.

    Examples
    --------
    >>> c = Calibration.fit(np.array([0.5, 0.5, 0.8, 0.95]), np.array([0.2, 0.3, 0.6, 0.9]))
    >>> c(np.array([0.5, 0.875])).round(3)
    array([0.25, 0.75])
    """

    predicted: np.ndarray
    measured: np.ndarray
    n_points: int
    bias: float

    @classmethod
    def fit(
        cls, predicted: np.ndarray, measured: np.ndarray, weight: np.ndarray | None = None
    ) -> Calibration:
        """Fit to pairs of predicted validity and share of retrained forests that agreed.

        Parameters
        ----------
        predicted, measured : ndarray
            One pair per point, both in [0, 1].
        weight : ndarray, optional
            Number of retrained forests per point.
        """
        x, y = np.asarray(predicted, dtype=float), np.asarray(measured, dtype=float)
        if x.shape != y.shape or x.ndim != 1 or not len(x):
            raise ValueError(
                f"predicted and measured must be non-empty and of equal length, got {x.shape} and {y.shape}"
            )
        for name, values in (("predicted", x), ("measured", y)):
            if not ((values >= 0) & (values <= 1)).all():
                raise ValueError(f"{name} validities must lie in [0, 1]")
        w = np.ones(len(x)) if weight is None else np.asarray(weight, dtype=float)
        fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(x, y, sample_weight=w)
        bias = float(np.average(x - y, weights=w))
        return cls(fitted.X_thresholds_.copy(), fitted.y_thresholds_.copy(), len(x), bias)

    def __call__(self, predicted: np.ndarray) -> np.ndarray:
        """Return the expected validity; outside the fitted range, the value at its end."""
        expected: np.ndarray = np.interp(np.asarray(predicted, dtype=float), self.predicted, self.measured)
        return expected
