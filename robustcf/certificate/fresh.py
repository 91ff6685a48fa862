"""Fresh forests: trained for certificates, and used for nothing else."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from robustcf.certificate.bounds import chance_to_reach
from robustcf.certificate.design import KINDS, Design, Order, orders
from robustcf.forest.arrays import ForestError, sum_in_order
from robustcf.forest.forest import Forest, Label, Voting
from robustcf.forest.join import join_forests
from robustcf.thresholds import Cutoff, miss_probability
from robustcf.validate import Scenario, retrain, training_rows

DEFAULT = Design()


@dataclass(frozen=True, eq=False)
class Forests:
    """Forests of equal or different sizes, joined so that one pass scores a point with all."""

    trees: Forest
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, forests: Sequence[Forest]) -> Forests:
        return cls(join_forests(forests), tuple(map(len, forests)))

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def _votes(self) -> np.ndarray:
        """The class that each leaf votes for."""
        classes: np.ndarray = self.trees.probabilities.argmax(axis=1).astype(np.int32)
        return classes

    def values(self, points: np.ndarray, target: Label, voting: Voting) -> np.ndarray:
        """Return what each tree gives the target: a class fraction, or a vote of 0 or 1.

        `points` is one encoded point, or several as rows; several give one row each.
        """
        c, leaves = self.trees.class_index(target), self.trees.leaves(np.atleast_2d(points))
        found: np.ndarray
        if voting == "hard":
            found = (self._votes[leaves] == c).astype(np.float64)
        else:
            found = self.trees.probabilities[leaves, c]
        return found[0] if points.ndim == 1 else found

    def agree(self, points: np.ndarray, target: Label, voting: Voting) -> np.ndarray:
        """Return whether each forest predicts the target, as its `predict` does.

        `points` is one encoded point, or several as rows; several give one row each.
        """
        (size,) = set(self.sizes)
        leaves = self.trees.leaves(np.atleast_2d(points)).reshape(-1, size)
        if voting == "soft":
            scores = sum_in_order(leaves, self.trees.probabilities) / size
        else:
            votes = self._votes[leaves]
            scores = np.stack([(votes == c).mean(axis=1) for c in range(len(self.trees.classes))], axis=1)
        agrees: np.ndarray = self.trees.decide(scores, voting, size) == self.trees.class_index(target)
        return agrees if points.ndim == 1 else agrees.reshape(len(points), -1)


@dataclass(frozen=True)
class Estimate:
    """The pilot's estimate at a point.

    `mean` and `deviation` describe the score of a retrained forest; `validity` is the chance that it reaches
    the cut-off.
    """

    mean: float
    deviation: float
    validity: float


@dataclass(frozen=True, eq=False)
class FreshForests:
    """The pool, the pilot and the certification forests of one explained forest."""

    design: Design
    n_trees: int
    orders: tuple[Order, ...]
    fingerprints: tuple[str, ...]
    pool: Forest | None
    pilot: Forests
    certification: Forests

    @classmethod
    def assembled(cls, forest: Forest, design: Design, made: Sequence[tuple[Order, Forest]]) -> FreshForests:
        """Put trained forests together; refuse those that differ in nothing but their seed."""
        by_kind = {kind: [f for order, f in made if order.kind == kind] for kind in KINDS}
        tested = by_kind["certification"]
        if len(tested) > 1 and len({f.fingerprint for f in tested}) == 1:
            raise ForestError(
                f"retraining with another seed gives the same forest, so a certificate for scenario "
                f"{design.scenario!r} would say nothing; choose scenario 'bootstrap'"
            )
        return cls(
            design,
            design.size(len(forest)),
            tuple(order for order, _ in made),
            tuple(f.fingerprint for _, f in made),
            join_forests(by_kind["pool"]) if by_kind["pool"] else None,
            Forests.of(by_kind["pilot"]),
            Forests.of(tested),
        )

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all fresh forests."""
        return joint_fingerprint(self.fingerprints)

    def cutoff(self, target: Label) -> Cutoff:
        """Return the cut-off at which a retrained forest decides for a class."""
        return self.certification.trees.cutoff(target)

    def estimate(self, point: np.ndarray, target: Label, voting: Voting) -> Estimate:
        """Estimate from the pilot how a retrained forest scores a point."""
        values, n = self.pilot.values(point, target, voting), self.n_trees
        cutoff = self.cutoff(target)
        mean, variance, skew = float(values.mean()), float(values.var(ddof=1)) / n, 0.0
        if self.design.resamples:
            variance = self._resampled_variance(values)
        elif voting == "hard":
            return Estimate(mean, variance**0.5, 1.0 - miss_probability(n, mean, cutoff))
        elif variance > 0.0:
            skew = float(((values - mean) ** 3).mean()) / (variance * n) ** 1.5
        if variance == 0.0:
            return Estimate(mean, 0.0, float(mean > cutoff.score))
        chance = chance_to_reach((mean - cutoff.score) / (variance * n) ** 0.5, skew, n)
        return Estimate(mean, variance**0.5, chance)

    def _resampled_variance(self, values: np.ndarray) -> float:
        """Return the variance of a forest's score if each forest has its own rows.

        It is the variance between the pilot's forests and, for a forest of N trees, that within them.
        """
        groups = np.split(values, np.cumsum(self.pilot.sizes)[:-1])
        spreads = [g.var(ddof=1) for g in groups if len(g) > 1]
        within = float(np.mean(spreads)) if spreads else 0.0  # groups of single trees
        between = float(np.var([g.mean() for g in groups], ddof=1)) - within / float(
            np.mean(self.pilot.sizes)
        )
        return max(between, 0.0) + within / self.n_trees


def train_order(
    forest: Forest,
    X: np.ndarray,
    y: np.ndarray,
    first: np.ndarray,
    design: Design,
    order: Order,
    threads: int,
) -> Forest:
    """Train one fresh forest. `first` holds the positions of the explained forest's rows."""
    rows = training_rows(Scenario.parse(design.scenario), first, y, order.seed)
    n_trees = None if is_single_tree(forest) else order.n_trees
    return retrain(forest, X[rows], y[rows], order.seed, n_trees, threads)


def train_fresh(
    forest: Forest,
    X: np.ndarray,
    y: np.ndarray,
    design: Design = DEFAULT,
    *,
    first: np.ndarray | None = None,
    seed: int = 0,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> FreshForests:
    """Train the fresh forests for certificates.

    Parameters
    ----------
    forest : Forest
        The explained forest; it must be retrainable.
    X, y : ndarray
        Encoded rows and labels, those collected later included.
    design : Design
    first : ndarray of int, optional
        The explained forest's training rows; all rows by default.
    seed, threads : int
    progress : callable, optional
        Called with the number of forests trained so far.
    """
    rows = np.arange(len(y)) if first is None else first
    made = []
    for order in orders_for(forest, design, seed):
        made.append((order, train_order(forest, X, y, rows, design, order, threads)))
        if progress is not None:
            progress(len(made))
    return FreshForests.assembled(forest, design, made)


def orders_for(forest: Forest, design: Design, seed: int) -> list[Order]:
    """Return the forests to train for the certificates of an explained forest."""
    return orders(design, len(forest), seed, is_single_tree(forest))


def joint_fingerprint(fingerprints: Iterable[str]) -> str:
    """Return one digest of several forests, given their fingerprints."""
    return hashlib.sha256("".join(fingerprints).encode()).hexdigest()


def is_single_tree(forest: Forest) -> bool:
    """Whether the estimator is one tree, which has no number of trees to set."""
    return "n_estimators" not in forest.estimator.get("parameters", {})


def check_rows(forest: Forest, X: np.ndarray, y: np.ndarray, threads: int = 1) -> str | None:
    """Check that the forest was trained on these rows, by training it again with its own seed.

    Returns None if the result is the same forest, and a warning if the forest stores no seed.

    Raises
    ------
    ForestError
        If the result is another forest.
    """
    seed = forest.estimator.get("parameters", {}).get("random_state")
    if not isinstance(seed, int) or isinstance(seed, bool):
        return "the forest stores no integer random_state, so its training rows cannot be checked"
    if retrain(forest, X, y, seed, None, threads).fingerprint != forest.fingerprint:
        raise ForestError(
            "training again on the training rows with the forest's own seed gives another forest; give the "
            "rows in their original order, and use the version of scikit-learn that trained the forest"
        )
    return None


def train_for_explainer(
    forest: Forest, X: np.ndarray, y: np.ndarray, design: Design, seed: int, threads: int
) -> FreshForests:
    """Check the training rows, then train the fresh forests on them.

    Raises
    ------
    ForestError
        If the rows are not those of the forest, or the scenario needs rows collected later.
    """
    if design.needs_later_rows:
        raise ForestError(
            f"scenario {design.scenario!r} needs the rows collected later; train the forests with "
            "rc.train_fresh(forest, X, y, design, first=...) and pass them as fresh=..."
        )
    if warning := check_rows(forest, X, y, threads):
        warnings.warn(warning, stacklevel=2)
    return train_fresh(forest, X, y, design, seed=seed, threads=threads)
