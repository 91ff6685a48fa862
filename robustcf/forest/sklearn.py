"""Read scikit-learn ensembles into arrays, rebuild them, and score rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier
from sklearn.tree._tree import Tree
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from robustcf.forest.arrays import ForestError, join_trees
from robustcf.forest.boosted.read import LIBRARY_CLASSES, is_boosted, read_boosted

if TYPE_CHECKING:
    from robustcf.forest.forest import Forest, Voting

SUPPORTED = (RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier, DecisionTreeClassifier)


def read_model(model: Any) -> dict[str, Any]:
    """Return the arguments of `Forest` for a fitted ensemble."""
    if is_boosted(model):
        return read_boosted(model)
    if not isinstance(model, SUPPORTED):
        raise ForestError(unsupported(type(model).__name__))
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise ForestError(f"the {type(model).__name__} is not fitted; call fit first") from None
    if getattr(model, "n_outputs_", 1) != 1:
        raise ForestError("the model has several outputs; explain one at a time")
    if len(model.classes_) < 2:
        raise ForestError(
            f"the model knows only the class {model.classes_.tolist()[0]!r}; it needs at least two classes"
        )
    trees = members(model)
    columns = getattr(model, "estimators_features_", [np.arange(model.n_features_in_)] * len(trees))
    return join_trees(
        [_read_tree(tree, cols, len(model.classes_)) for tree, cols in zip(trees, columns, strict=True)]
    ) | {
        "classes": tuple(c.item() if isinstance(c, np.generic) else c for c in model.classes_),
        "n_features": int(model.n_features_in_),
        "accepts_missing": bool(get_tags(trees[0]).input_tags.allow_nan),
        "estimator": {"class": type(model).__name__, "parameters": _storable_parameters(model)},
    }


def unsupported(name: str) -> str:
    """Return the message about a model that cannot be explained: what it is, and what to use instead."""
    names = ", ".join([*(c.__name__ for c in SUPPORTED), *LIBRARY_CLASSES])
    return (
        f"cannot explain a {name}; supported models are {names}, alone, as the last step of a Pipeline, or "
        "inside a threshold, calibration or search; train one of these (see docs/your-own-model.md)"
    )


def members(model: Any) -> list[DecisionTreeClassifier]:
    """Return the trees of an ensemble."""
    trees = [model] if isinstance(model, DecisionTreeClassifier) else list(model.estimators_)
    for tree in trees:
        if not isinstance(tree, DecisionTreeClassifier):
            raise ForestError(f"the ensemble's members are {type(tree).__name__}, not decision trees")
    return trees


def _read_tree(model: DecisionTreeClassifier, columns: np.ndarray, n_classes: int) -> dict[str, np.ndarray]:
    tree = model.tree_
    leaf = tree.children_left < 0
    probabilities = np.zeros((tree.node_count, n_classes))
    # A tree that has not seen every class numbers only the classes it has seen.
    known = np.arange(n_classes) if model.n_classes_ == n_classes else np.asarray(model.classes_, dtype=int)
    probabilities[:, known] = tree.value[:, 0, :]
    return {
        "left": tree.children_left,
        "right": tree.children_right,
        "feature": np.where(leaf, -1, np.asarray(columns)[np.where(leaf, 0, tree.feature)]),
        "threshold": np.where(leaf, 0.0, tree.threshold),
        "missing_left": np.where(leaf, False, tree.missing_go_to_left.astype(bool)),
        "probabilities": np.where(leaf[:, None], probabilities, 0.0),
    }


def _storable_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters that JSON can hold.

    The base tree of a bagging becomes a nested entry.
    """
    storable: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, DecisionTreeClassifier):
            storable[name] = {"class": type(value).__name__, "parameters": _storable_parameters(value)}
        elif value is None or isinstance(value, str | int | float | bool):
            storable[name] = value
        elif isinstance(value, np.generic):
            storable[name] = value.item()
        elif isinstance(value, dict) and all(isinstance(v, int | float) for v in value.values()):
            storable[name] = [[k.item() if isinstance(k, np.generic) else k, v] for k, v in value.items()]
    return storable


def fully_grown(estimator: Mapping[str, Any]) -> bool:
    """Whether nothing limits the growth of the trees of a stored estimator, as by default.

    >>> fully_grown({"class": "RandomForestClassifier", "parameters": {"max_depth": None}})
    True
    >>> fully_grown({"class": "RandomForestClassifier", "parameters": {"max_depth": 4}})
    False
    """
    if estimator.get("class") not in {kind.__name__ for kind in SUPPORTED}:
        return False
    given = estimator.get("parameters")
    given = given if isinstance(given, dict) else {}
    if estimator["class"] == "BaggingClassifier" and isinstance(inner := given.get("estimator"), dict):
        return fully_grown(inner)
    return all(given.get(name, free) == free for name, free in _UNLIMITED.items())


_UNLIMITED = {
    "max_depth": None,
    "max_leaf_nodes": None,
    "min_samples_leaf": 1,
    "min_samples_split": 2,
    "min_impurity_decrease": 0.0,
    "min_weight_fraction_leaf": 0.0,
    "ccp_alpha": 0.0,
}


def build_model(forest: Forest) -> RandomForestClassifier:
    """Build a scikit-learn model with exactly these trees."""
    model = RandomForestClassifier(n_estimators=len(forest))
    model.classes_ = np.array(forest.classes)
    model.n_classes_, model.n_outputs_, model.n_features_in_ = len(forest.classes), 1, forest.n_features
    model.estimator_ = DecisionTreeClassifier()
    model.estimators_ = [_build_tree(forest, t) for t in range(len(forest))]
    return model


def _build_tree(forest: Forest, t: int) -> DecisionTreeClassifier:
    start, end = int(forest.tree_start[t]), int(forest.tree_start[t + 1])
    n_classes = len(forest.classes)
    tree = Tree(forest.n_features, np.array([n_classes], dtype=np.intp), 1)
    leaf = forest.left[start:end] < 0
    nodes = np.zeros(end - start, dtype=tree.__getstate__()["nodes"].dtype)
    nodes["left_child"] = np.where(leaf, -1, forest.left[start:end] - start)
    nodes["right_child"] = np.where(leaf, -1, forest.right[start:end] - start)
    nodes["feature"] = np.where(leaf, -2, forest.feature[start:end])
    nodes["threshold"] = np.where(leaf, -2.0, forest.threshold[start:end])
    nodes["missing_go_to_left"] = forest.missing_left[start:end]
    nodes["n_node_samples"] = nodes["weighted_n_node_samples"] = 1
    tree.__setstate__(
        {
            "max_depth": end - start,
            "node_count": end - start,
            "nodes": nodes,
            "values": np.ascontiguousarray(forest.probabilities[start:end, None, :]),
        }
    )
    model = DecisionTreeClassifier()
    model.tree_, model.n_features_in_, model.n_outputs_ = tree, forest.n_features, 1
    model.n_classes_, model.classes_ = n_classes, np.arange(n_classes)
    return model


FEW_ROWS = 64  # for fewer rows, the ensemble's thread pool takes longer than its trees


def judge_rows(model: Any, X: np.ndarray, voting: Voting) -> np.ndarray:
    """Return scikit-learn's score of every class.

    For many rows, soft votes come from the model's `predict_proba`. For few rows, they are the sum of
    the trees' own `predict_proba` in the same order. Both give the same bits.
    """
    if voting == "soft" and (len(X) >= FEW_ROWS or isinstance(model, DecisionTreeClassifier)):
        names = getattr(model, "feature_names_in_", None)
        scores: np.ndarray = model.predict_proba(X if names is None else pd.DataFrame(X, columns=names))
        return scores
    trees = members(model)
    columns = getattr(model, "estimators_features_", [slice(None)] * len(trees))
    X32 = X.astype(np.float32)
    total = np.zeros((len(X), len(model.classes_)))
    for tree, mine in zip(trees, columns, strict=True):
        proba = tree.predict_proba(X32[:, mine], check_input=False)
        if voting == "hard":
            proba = np.eye(proba.shape[1])[proba.argmax(axis=1)]
        if proba.shape[1] == total.shape[1]:
            total += proba
        else:  # a tree that has not seen every class
            total[:, np.asarray(tree.classes_, dtype=int)] += proba
    return total / len(trees)
