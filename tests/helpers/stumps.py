"""Random stumps on one feature x: a stump accepts x if x exceeds a random threshold."""

from __future__ import annotations

import numpy as np

import robustcf as rc

SCHEMA = rc.Schema((rc.Feature("x", "continuous", low=0.0, high=1.0),))


def stumps(rng: np.random.Generator, n: int, low: float = 0.0, high: float = 1.0) -> rc.Forest:
    """Return n stumps that accept a number above a random threshold."""
    leaf = np.full(n, -1)
    first = 3 * np.arange(n)
    return rc.Forest(
        tree_start=3 * np.arange(n + 1),
        left=np.stack([first + 1, leaf, leaf], axis=1).ravel(),
        right=np.stack([first + 2, leaf, leaf], axis=1).ravel(),
        feature=np.tile([0, -1, -1], n),
        threshold=np.stack([rng.uniform(low, high, n), np.zeros(n), np.zeros(n)], axis=1).ravel(),
        missing_left=np.zeros(3 * n, dtype=bool),
        probabilities=np.tile([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], (n, 1)),
        classes=(0, 1),
        n_features=1,
    )
