"""The explained model: a trained ensemble as flat arrays.

`Forest` copies every tree of a fitted scikit-learn ensemble into a few arrays. Its scores equal
scikit-learn's to the last bit, and it needs no pickle. It can be converted back to a scikit-learn model,
which makes the final check of every point (`Forest.judge`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np

from robustcf.forest.arrays import ForestError, leaves_of, sum_in_order
from robustcf.support.tolerances import CLASS_FRACTIONS

Voting = Literal["soft", "hard"]
Label = str | int | float | bool


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

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            array = np.ascontiguousarray(getattr(self, name), dtype=dtype)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "classes", tuple(self.classes))
        _check(self)

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
        """Copy a fitted `RandomForest-`, `ExtraTrees-` or `BaggingClassifier` of trees.

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
        """The scikit-learn model itself, or one rebuilt from the arrays."""
        from robustcf.forest.sklearn import build_model

        return build_model(self)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over canonical bytes of everything that decides a score."""
        head = {"classes": list(self.classes), "n_features": self.n_features, "missing": self.accepts_missing}
        digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
        for name, dtype in _DTYPES.items():
            array = getattr(self, name)
            digest.update(f"{name}:{array.shape}".encode())
            digest.update(array.astype(np.dtype(dtype).newbyteorder("<")).tobytes())
        return digest.hexdigest()

    def class_index(self, label: Label) -> int:
        """Return the position of a label; an unknown label raises a ForestError."""
        for i, known in enumerate(self.classes):
            if known == label and isinstance(known, str) == isinstance(label, str):
                return i
        raise ForestError(f"the forest has no class {label!r}; its classes are {list(self.classes)}")

    def leaves(self, X: np.ndarray) -> np.ndarray:
        """Return the leaf (node number) that each row reaches in each tree."""
        X32 = np.ascontiguousarray(X, dtype=np.float32)
        if X32.ndim != 2 or X32.shape[1] != self.n_features:
            raise ForestError(f"rows have shape {X32.shape}, but the forest takes {self.n_features} columns")
        return leaves_of(
            X32, self.tree_start, self.left, self.right, self.feature, self.threshold, self.missing_left
        )

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return mean class fractions, summed in tree order as in scikit-learn."""
        return sum_in_order(self.leaves(X), self.probabilities) / len(self)

    def predict(self, X: np.ndarray, voting: Voting = "soft") -> np.ndarray:
        """Return the positions in `classes` of the predicted labels (the first on a tie)."""
        if voting == "soft":
            scores = self.predict_proba(X)
        else:
            votes = self.probabilities.argmax(axis=1)[self.leaves(X)]
            scores = np.stack([(votes == c).sum(axis=1) for c in range(len(self.classes))], axis=1)
        winners: np.ndarray = scores.argmax(axis=1)
        return winners

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
        """Return the scikit-learn model's scores of all classes and predicted position per row."""
        from robustcf.forest.sklearn import judge_rows

        return judge_rows(self.judge, X, voting)


_DTYPES: dict[str, type[np.generic]] = {
    "tree_start": np.int64,
    "left": np.int32,
    "right": np.int32,
    "feature": np.int32,
    "threshold": np.float64,
    "missing_left": np.bool_,
    "probabilities": np.float64,
}


def _check(forest: Forest) -> None:
    """Raise a ForestError unless the arrays form trees.

    The arrays may come from an untrusted file.
    """
    nodes = len(forest.left)
    start = forest.tree_start
    if len(start) < 2 or start[0] != 0 or start[-1] != nodes or (np.diff(start) < 1).any():
        raise ForestError("tree_start does not divide the nodes into trees")
    shapes = {name: getattr(forest, name).shape for name in _DTYPES}
    if any(shapes[name] != (nodes,) for name in ("right", "feature", "threshold", "missing_left")):
        raise ForestError(f"node arrays have different lengths: {shapes}")
    if shapes["probabilities"] != (nodes, len(forest.classes)) or len(forest.classes) < 2:
        raise ForestError("a forest needs class fractions for at least two classes")
    if len(set(map(repr, forest.classes))) != len(forest.classes):
        raise ForestError("a class is listed twice")
    number = np.arange(nodes)
    end = np.repeat(start[1:], np.diff(start))
    inner = forest.left >= 0
    for child in (forest.left, forest.right):
        if ((child[inner] <= number[inner]) | (child[inner] >= end[inner])).any():
            raise ForestError("a node's child lies outside its tree or before the node")
    children = np.sort(np.concatenate([forest.left[inner], forest.right[inner]]))
    if not np.array_equal(children, np.delete(number, start[:-1])):
        raise ForestError("a node is the child of no other node, or of several")
    if (forest.right[~inner] >= 0).any():
        raise ForestError("a node has a right child but no left one")
    if ((forest.feature[inner] < 0) | (forest.feature[inner] >= forest.n_features)).any():
        raise ForestError(f"a node splits on a column outside 0..{forest.n_features - 1}")
    if np.isnan(forest.threshold[inner]).any():
        raise ForestError("a split threshold is not a number")
    p = forest.probabilities
    if not (
        np.isfinite(p).all()
        and (p >= 0).all()
        and np.allclose(p[~inner].sum(axis=1), 1.0, atol=CLASS_FRACTIONS)
    ):
        raise ForestError("leaf fractions are not probabilities")
