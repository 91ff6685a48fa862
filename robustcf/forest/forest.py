"""The explained model: a trained ensemble as flat arrays.

`Forest` copies every tree of a fitted scikit-learn ensemble into a few arrays. Its scores equal
scikit-learn's to the last bit, and it needs no pickle. It can be converted back to a scikit-learn model,
which makes the final check of every point (`Forest.judge`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from robustcf.forest.arrays import ForestError, leaves_of, sum_in_order
from robustcf.forest.boosted.link import Boosting
from robustcf.forest.boosted.read import largest_leaves, library_scores
from robustcf.forest.check import check_trees
from robustcf.forest.decision import Decision, Label, Rule, Voting, rule_of, winners
from robustcf.support.tolerances import SCORE_ROUNDING
from robustcf.thresholds import MAJORITY, Cutoff, as_cutoff

__all__ = ["Decision", "Forest", "Label", "Voting"]


@dataclass(frozen=True, eq=False)
class Forest:
    """All trees of an ensemble, one after the other.

    Build it with `Forest.from_sklearn`. Node `i` sends a row left when the row's float32 value of
    column `feature[i]` is at most `threshold[i]`. Leaves have `left[i] == -1`. Children come after
    their parent, so every path ends at a leaf.

    Attributes
    ----------
    tree_start : ndarray of int64
        First node of each tree, followed by the number of nodes.
    left, right, feature, threshold, missing_left : ndarray
        The nodes.
    probabilities : ndarray of shape (nodes, classes)
        Class fractions at the leaves; zero at inner nodes.
    classes : tuple
        Labels, in scikit-learn's order.
    n_features : int
        Number of encoded columns.
    accepts_missing : bool
        Whether the model's `predict` accepts NaN.
    estimator : dict
        Class name and parameters of the ensemble, for retraining.
    decision : Decision, optional
        The class with a cut-off, and the cut-off. By default the class with the highest score wins.
    boosting : Boosting, optional
        For gradient boosting. `probabilities` then has each leaf's margins: -v and v for the two classes.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = np.array([[0.0], [1.0]] * 10), np.array(["no", "yes"] * 10)
    >>> forest = Forest.from_sklearn(RandomForestClassifier(5, random_state=0).fit(X, y))
    >>> len(forest), forest.classes, float(forest.score(np.array([[0.9]]), "yes")[0])
    (5, ('no', 'yes'), 1.0)
    """

    tree_start: np.ndarray
    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    probabilities: np.ndarray
    classes: tuple[Label, ...]
    n_features: int
    accepts_missing: bool = False
    estimator: dict[str, Any] = field(default_factory=dict)
    decision: Decision | None = None
    boosting: Boosting | None = None

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            array = np.ascontiguousarray(getattr(self, name), dtype=dtype)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "classes", tuple(self.classes))
        check_trees(self, tuple(_DTYPES))

    def __len__(self) -> int:
        return len(self.tree_start) - 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Forest) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_sklearn(cls, model: Any) -> Forest:
        """Copy a fitted ensemble: scikit-learn's forests and boosting, `XGBClassifier`, `LGBMClassifier`.

        Raises
        ------
        ForestError
            If the model is not fitted or of a kind that cannot be explained.
        """
        from robustcf.forest.sklearn import read_model

        forest = cls(**read_model(model))
        forest.__dict__["judge"] = model
        return forest

    @cached_property
    def judge(self) -> Any:
        """The model itself, or a forest rebuilt from the arrays; None for boosting that was stored."""
        from robustcf.forest.sklearn import build_model

        return None if self.boosting is not None else build_model(self)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over canonical bytes of everything that decides a score."""
        head: dict[str, Any] = {
            "classes": list(self.classes),
            "n_features": self.n_features,
            "missing": self.accepts_missing,
        }
        if self.boosting is not None:
            head["boosting"] = asdict(self.boosting)
        if self.decision is not None:
            cut = self.decision.cutoff
            head["decision"] = [self.class_index(self.decision.label), cut.score, cut.strict]
        digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
        for name, dtype in _DTYPES.items():
            array = getattr(self, name)
            digest.update(f"{name}:{array.shape}".encode())
            digest.update(array.astype(np.dtype(dtype).newbyteorder("<")).tobytes())
        return digest.hexdigest()

    def decided_at(self, label: Label, cutoff: float | Cutoff, *, score_of: Label | None = None) -> Forest:
        """Return the same trees with another decision.

        Parameters
        ----------
        label : label
            The class that is decided for where its score is at least the cut-off.
        cutoff : float
            At 1/2, two classes are decided as `predict` decides them: the higher score wins.
        score_of : label, optional
            The class whose score the cut-off is compared with, if it is not `label`. The decision is then
            `label` where that score is at most the cut-off.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> X, y = [[0.0], [0.0], [0.0], [1.0]], ["no", "yes", "yes", "yes"]
        >>> forest = Forest.from_sklearn(DecisionTreeClassifier().fit(X, y))
        >>> [int(f.predict(np.array(X))[0]) for f in (forest, forest.decided_at("yes", 0.7))]
        [1, 0]
        """
        own, scored = self.class_index(label), self.class_index(label if score_of is None else score_of)
        decision: Decision | None = Decision(self.classes[own], as_cutoff(cutoff))
        if scored != own:
            if len(self.classes) > 2:
                raise ForestError(
                    f"the forest has {len(self.classes)} classes; a cut-off must be that of {label!r} itself"
                )
            score = cutoff.score if isinstance(cutoff, Cutoff) else cutoff
            decision = Decision(self.classes[scored], Cutoff(score, strict=True))
        elif len(self.classes) == 2 and decision is not None and decision.cutoff == MAJORITY:
            decision = None
        return self.with_decision(decision)

    def deciding(
        self,
        label: Label,
        cutoff: float | None = None,
        score_of: Label | None = None,
        rule: Rule | None = None,
    ) -> Forest:
        """Return the forest with the decision that a user asks for, or the forest itself.

        Parameters
        ----------
        label, cutoff, score_of
            As in `decided_at`; without a cut-off, the model's own decision counts.
        rule : {"plurality", "one-against-rest"}, optional
            With more than two classes: the highest score wins, as in `predict` (the default without a
            cut-off), or `label` wins where its score reaches the cut-off (1/2 by default).

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> forest = Forest.from_sklearn(DecisionTreeClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 2]))
        >>> forest.deciding(2) is forest, forest.deciding(2, rule="one-against-rest").decision.cutoff.score
        (True, 0.5)
        """
        if rule_of(rule) == "plurality" and self.decision is not None:
            raise ForestError("decision is 'plurality', but the model has a cut-off of its own")
        if cutoff is None:
            if score_of is not None:
                raise ForestError("score_of needs a cutoff; give the score at which the decision changes")
            against_rest = rule == "one-against-rest" and self.by_plurality
            return self.decided_at(label, 0.5) if against_rest else self
        if rule == "plurality":
            raise ForestError(
                "a plurality has no cutoff: the highest score decides; leave one of the two out"
            )
        return self.decided_at(label, cutoff, score_of=score_of)

    def with_decision(self, decision: Decision | None) -> Forest:
        """Return the same trees, judged by the same scikit-learn model, with another decision."""
        changed = replace(self, decision=decision)
        if "judge" in self.__dict__:
            changed.__dict__["judge"] = self.judge
        return changed

    @property
    def by_plurality(self) -> bool:
        """Whether the highest score of more than two classes decides, as in `predict`."""
        return self.decision is None and len(self.classes) > 2

    def winning(self, target: Label) -> Cutoff:
        """Return a score at which the forest decides for a class.

        Without a cut-off this is half of the votes, and more for every class but the first, which wins
        ties. By plurality it suffices, although a class can win with less.
        """
        own = self.class_index(target)
        return Cutoff(0.5, strict=own > 0) if self.decision is None else self._decided_for(target)

    def cutoff(self, target: Label) -> Cutoff:
        """Return the cut-off c of p*(N, α, c) for a class: more than half, or the decision's own."""
        return MAJORITY if self.decision is None else self._decided_for(target)

    def shown_cutoff(self, target: Label) -> float:
        """Return the score at which a class is decided for; NaN by plurality, where no score tells."""
        return math.nan if self.by_plurality else self.cutoff(target).score

    def demanded(self, threshold: Callable[..., float], target: Label) -> float:
        """Return the score τ(N, c) that a method's `threshold` demands for a class.

        A method that knows no cut-off can be used at 1/2 with two classes.
        """
        cutoff = self.cutoff(target)
        if self.by_plurality:
            return threshold(len(self), replace(cutoff, classes=len(self.classes)))
        return threshold(len(self)) if cutoff == MAJORITY else threshold(len(self), cutoff)

    def _decided_for(self, target: Label) -> Cutoff:
        assert self.decision is not None
        return self.decision.for_class(self.classes[self.class_index(target)], len(self.classes))

    def decide(self, scores: np.ndarray, voting: Voting, n_trees: int | None = None) -> np.ndarray:
        """Return the positions of the classes that scores (hard: shares of the trees' votes) decide for.

        `n_trees` is the number of trees that voted, if they are not all.
        """
        n = len(self) if n_trees is None else n_trees
        if self.decision is None:
            return winners(scores, voting, n)
        return winners(scores, voting, n, self.class_index(self.decision.label), self.decision.cutoff)

    def class_index(self, label: Label) -> int:
        """Return the position of a label; an unknown label raises a ForestError."""
        for i, known in enumerate(self.classes):
            if known == label and isinstance(known, str) == isinstance(label, str):
                return i
        raise ForestError(f"the forest has no class {label!r}; its classes are {list(self.classes)}")

    @property
    def wide(self) -> bool:
        """Whether rows are compared as float64 numbers, not as float32."""
        return self.boosting is not None and self.boosting.wide

    @property
    def floats(self) -> type[np.floating[Any]]:
        """The numbers that splits compare."""
        return np.float64 if self.wide else np.float32

    @cached_property
    def margin_rounding(self) -> float:
        """How far a boosted margin may lie from the exact sum, as the library computes it."""
        assert self.boosting is not None
        return self.boosting.rounding(largest_leaves(self), len(self))

    @property
    def score_rounding(self) -> float:
        """How far a score may lie from the exact one because of the order and precision of its sum."""
        if self.boosting is None:
            return SCORE_ROUNDING * len(self)
        return self.boosting.score_rounding(self.margin_rounding)

    def leaves(self, X: np.ndarray) -> np.ndarray:
        """Return the leaf (node number) that each row reaches in each tree."""
        rows = np.ascontiguousarray(X, dtype=self.floats)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ForestError(f"rows have shape {rows.shape}, but the forest takes {self.n_features} columns")
        return leaves_of(
            rows, self.tree_start, self.left, self.right, self.feature, self.threshold, self.missing_left
        )

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return mean class fractions, summed in tree order as in scikit-learn, or boosted scores."""
        if self.boosting is not None:
            values = self.probabilities[:, 1][self.leaves(X)]
            return self.boosting.scores(self.boosting.margins(values))
        return sum_in_order(self.leaves(X), self.probabilities) / len(self)

    def predict(self, X: np.ndarray, voting: Voting = "soft") -> np.ndarray:
        """Return the positions in `classes` of the decisions (without a cut-off, the first on a tie)."""
        if voting == "soft":
            return self.decide(self.predict_proba(X), voting)
        votes = self.probabilities.argmax(axis=1)[self.leaves(X)]
        shares = np.stack([(votes == c).mean(axis=1) for c in range(len(self.classes))], axis=1)
        return self.decide(shares, voting)

    def score(self, X: np.ndarray, target: Label, voting: Voting = "soft") -> np.ndarray:
        """Return h_N(x) for the target class (eq. 1).

        It is the mean class fraction (soft) or the share of the trees' votes (hard).
        """
        c = self.class_index(target)
        if voting == "soft":
            return self.predict_proba(X)[:, c]
        share: np.ndarray = (self.probabilities.argmax(axis=1)[self.leaves(X)] == c).mean(axis=1)
        return share

    def judged_score(
        self, X: np.ndarray, target: Label, voting: Voting = "soft"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the scikit-learn model's score and predicted class position per row."""
        scores, predicted = self.judged_scores(X, voting)
        return scores[:, self.class_index(target)], predicted

    def judged_scores(self, X: np.ndarray, voting: Voting = "soft") -> tuple[np.ndarray, np.ndarray]:
        """Return the scikit-learn model's scores of all classes and the decided position per row."""
        from robustcf.forest.sklearn import judge_rows

        if self.boosting is not None:
            scores = self.predict_proba(X) if self.judge is None else library_scores(self.judge, X)
        else:
            scores = judge_rows(self.judge, X, voting)
        return scores, self.decide(scores, voting)


_DTYPES: dict[str, type[np.generic]] = {
    "tree_start": np.int64,
    "left": np.int32,
    "right": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
    "missing_left": np.bool_,
    "probabilities": np.float64,
}
