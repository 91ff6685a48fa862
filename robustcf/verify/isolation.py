"""Read or refit an isolation forest, and check whether it accepts a point.

scikit-learn calls a point an inlier if -2^(-mean path length / c(ψ)) ≥ offset, which is

    Σ_t length_t(x) ≥ -log2(-offset) · N · c(ψ).
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from robustcf.support.tolerances import CHECKED_COLUMN, CHECKED_ZERO
from robustcf.verify.trees import Trees

MOST_BYTES = 2**30  # of all uncompressed arrays
_ARRAYS: dict[str, str] = {
    "tree_start": "iu",
    "left": "iu",
    "right": "iu",
    "feature": "iu",
    "threshold": "f",
    "missing_left": "b",
    "length": "f",
    "offset": "f",
    "max_samples": "iu",
    "n_features": "iu",
}


class Isolation:
    """The trees, the nodes' path lengths, and the bound on their sum."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays = dict(arrays)
        kept = {k: arrays[k] for k in ("tree_start", "left", "right", "feature", "threshold", "missing_left")}
        self.length = arrays["length"]
        self.trees = Trees(
            SimpleNamespace(
                **kept,
                classes=(),
                fingerprint="",
                n_features=int(arrays["n_features"][0]),
                accepts_missing=True,
                probabilities=self.length[:, None],
            )
        )
        scale = len(self.trees) * average_path(int(arrays["max_samples"][0]))
        self.bound = -scale * math.log2(-float(arrays["offset"][0])) if scale else -math.inf

    def margin(self, X: np.ndarray) -> np.ndarray:
        """Return by how much each row's path lengths exceed the bound.

        The result is negative for outliers.
        """
        if not len(X):
            return np.zeros(0)
        total: np.ndarray = self.length[self.trees.leaves(X)].sum(axis=1)
        return np.asarray(total - self.bound)

    def same_as(self, other: Isolation) -> bool:
        """Whether two isolation forests have the same trees, path lengths and bound."""
        mine, theirs = self.arrays, other.arrays
        exact = all(np.array_equal(mine[k], theirs[k]) for k in _ARRAYS if k not in ("length", "offset"))
        return exact and all(
            mine[k].shape == theirs[k].shape
            and np.allclose(mine[k], theirs[k], rtol=CHECKED_COLUMN, atol=CHECKED_ZERO)
            for k in ("length", "offset")
        )


def read_isolation(content: bytes, n_features: int) -> Isolation:
    """Read a file of `pack_isolation`; raise `ValueError` for any other content."""
    arrays: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(info.file_size for info in archive.infolist()) > MOST_BYTES:
                raise ValueError("the arrays are too large")
            for name in _ARRAYS:
                with archive.open(f"{name}.npy") as file:
                    arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
    except (zipfile.BadZipFile, KeyError, EOFError, OSError, NotImplementedError) as error:
        raise ValueError(f"not an isolation forest: {error}") from None
    _check(arrays, n_features)
    return Isolation(arrays)


def _check(arrays: Mapping[str, np.ndarray], n_features: int) -> None:
    for name, kinds in _ARRAYS.items():
        if arrays[name].ndim != 1 or arrays[name].dtype.kind not in kinds:
            raise ValueError(f"array {name!r} has the wrong shape or type")
    nodes, start = len(arrays["left"]), arrays["tree_start"]
    if any(len(arrays[k]) != nodes for k in ("right", "feature", "threshold", "missing_left", "length")):
        raise ValueError("the arrays differ in length")
    if len(start) < 2 or start[0] != 0 or start[-1] != nodes or (np.diff(start) <= 0).any():
        raise ValueError("tree_start does not match the arrays")
    inner = arrays["left"] >= 0
    own = np.arange(nodes)[inner]
    end = start[np.searchsorted(start, own, side="right")] if len(own) else own
    for side in ("left", "right"):
        child = arrays[side][inner]
        if (child <= own).any() or (child >= end).any():
            raise ValueError(f"array {side!r} points outside its tree")
    column = arrays["feature"][inner]
    if (column < 0).any() or (column >= n_features).any() or arrays["n_features"].tolist() != [n_features]:
        raise ValueError(f"the isolation forest does not have {n_features} columns")
    if (
        not np.isfinite(arrays["length"]).all()
        or len(arrays["offset"]) != 1
        or not -1 <= arrays["offset"][0] < 0
    ):
        raise ValueError("lengths must be finite, and offset must be one number in [-1, 0)")
    if len(arrays["max_samples"]) != 1 or arrays["max_samples"][0] < 1:
        raise ValueError("max_samples must be one positive integer")


def fit_isolation(rows: np.ndarray, contamination: float | str, n_trees: int, seed: int) -> Isolation:
    """Refit the isolation forest on the rows labelled with the target, as documented."""
    from sklearn.ensemble import IsolationForest

    model: Any = IsolationForest(n_estimators=n_trees, contamination=contamination, random_state=seed)
    model.fit(rows)
    parts: dict[str, list[np.ndarray]] = {k: [] for k in list(_ARRAYS)[1:7]}
    start = 0
    for estimator, columns in zip(model.estimators_, model.estimators_features_, strict=True):
        tree = estimator.tree_
        inner = tree.children_left >= 0
        depth = np.zeros(tree.node_count)
        for node in np.flatnonzero(inner):  # parents come before their children
            depth[[tree.children_left[node], tree.children_right[node]]] = depth[node] + 1
        length = depth + np.array([average_path(int(n)) for n in tree.n_node_samples])
        for name, values in (
            ("left", np.where(inner, tree.children_left + start, -1)),
            ("right", np.where(inner, tree.children_right + start, -1)),
            ("feature", np.where(inner, np.asarray(columns)[np.maximum(tree.feature, 0)], -1)),
            ("threshold", np.where(inner, tree.threshold, 0.0)),
            ("missing_left", inner & tree.missing_go_to_left.astype(bool)),
            ("length", length),
        ):
            parts[name].append(values)
        start += tree.node_count
    sizes = [len(p) for p in parts["left"]]
    return Isolation(
        {
            **{name: np.concatenate(values) for name, values in parts.items()},
            "tree_start": np.concatenate([[0], np.cumsum(sizes)]),
            "offset": np.array([model.offset_], dtype=np.float64),
            "max_samples": np.array([model.max_samples_]),
            "n_features": np.array([rows.shape[1]]),
        }
    )


def average_path(n: int) -> float:
    """Return c(n), the mean path of an unsuccessful search in a tree of n samples.

    >>> average_path(1), average_path(2), round(average_path(256), 2)
    (0.0, 1.0, 10.24)
    """
    if n <= 2:
        return 1.0 if n == 2 else 0.0
    return 2.0 * (math.log(n - 1.0) + float(np.euler_gamma)) - 2.0 * (n - 1.0) / n
