"""Join forests into one, tree after tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robustcf.forest.arrays import ForestError, join_trees
from robustcf.forest.forest import Forest

NODES = ("left", "right", "feature", "threshold", "missing_left", "probabilities")


def join_forests(forests: Sequence[Forest]) -> Forest:
    """Return one forest with the trees of all forests, in order.

    The forests must have the same classes and columns. The result decides as the first, and cannot be
    retrained.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = Forest.from_sklearn(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]))
    >>> len(join_forests([tree, tree, tree]))
    3
    """
    first = forests[0]
    for other in forests:
        if other.classes != first.classes or other.n_features != first.n_features:
            raise ForestError("forests with different classes or columns cannot be joined")
    nodes: dict[str, Any] = dict(
        join_trees([{name: getattr(forest, name) for name in NODES} for forest in forests])
    )
    offsets = nodes.pop("tree_start")
    starts = [f.tree_start[:-1] + o for f, o in zip(forests, offsets[:-1], strict=True)]
    return Forest(
        tree_start=np.concatenate([*starts, offsets[-1:]]),
        **nodes,
        classes=first.classes,
        n_features=first.n_features,
        accepts_missing=first.accepts_missing,
        decision=first.decision,
    )
