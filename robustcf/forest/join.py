"""Join forests into one, tree after tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robustcf.forest.arrays import ForestError
from robustcf.forest.forest import Forest


def join_forests(forests: Sequence[Forest]) -> Forest:
    """Return one forest with the trees of all forests, in order.

    The forests must have the same classes and columns. The result cannot be retrained.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = Forest.from_sklearn(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]))
    >>> len(join_forests([tree, tree, tree]))
    3
    """
    first = forests[0]
    for other in forests:
        if other.classes != first.classes or other.n_features != first.n_features:
            raise ForestError("forests with different classes or columns cannot be joined")
    offsets = np.cumsum([0, *(len(f.left) for f in forests)])

    def shifted(name: str) -> np.ndarray:
        parts = [getattr(f, name) for f in forests]
        moved = [np.where(part >= 0, part + o, part) for part, o in zip(parts, offsets, strict=False)]
        return np.concatenate(moved)

    starts = [f.tree_start[:-1] + o for f, o in zip(forests, offsets, strict=False)]
    return Forest(
        tree_start=np.concatenate([*starts, [offsets[-1]]]),
        left=shifted("left"),
        right=shifted("right"),
        feature=np.concatenate([f.feature for f in forests]),
        threshold=np.concatenate([f.threshold for f in forests]),
        missing_left=np.concatenate([f.missing_left for f in forests]),
        probabilities=np.concatenate([f.probabilities for f in forests]),
        classes=first.classes,
        n_features=first.n_features,
        accepts_missing=first.accepts_missing,
    )
