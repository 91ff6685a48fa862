"""Read scikit-learn's `GradientBoostingClassifier` and `HistGradientBoostingClassifier`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier

from robustcf.forest.arrays import ForestError
from robustcf.forest.boosted.link import Boosting
from robustcf.forest.boosted.trees import Node, Split, split_on_categories


def read_gradient(model: Any) -> tuple[list[Node], Boosting]:
    """Return the trees of a `GradientBoostingClassifier`; it compares float32 numbers by `<=`."""
    if model.init_ != "zero" and not isinstance(model.init_, DummyClassifier):
        raise ForestError(
            f"a GradientBoostingClassifier that starts from a {type(model.init_).__name__} is not a sum of "
            "trees; leave init at None or 'zero'"
        )
    row = np.zeros((1, model.n_features_in_), dtype=np.float32)
    base = float(model._raw_predict_init(row)[0, 0])
    scale = 2.0 if model.loss == "exponential" else 1.0
    roots = [_sklearn_node(stage.tree_, 0, model.learning_rate) for stage in model.estimators_[:, 0]]
    return roots, Boosting(base, scale)


def _sklearn_node(tree: Any, i: int, rate: float) -> Node:
    if tree.children_left[i] < 0:
        return float(rate * tree.value[i, 0, 0])
    left, right = (_sklearn_node(tree, int(c[i]), rate) for c in (tree.children_left, tree.children_right))
    missing = bool(tree.missing_go_to_left[i])
    return Split(int(tree.feature[i]), float(tree.threshold[i]), missing, left, right)


def read_hist(model: Any) -> tuple[list[Node], Boosting]:
    """Return the trees of a `HistGradientBoostingClassifier`, which compares float64 numbers by `<=`.

    Its columns are those after its own encoder, which puts categories first as codes 0, 1, ...
    """
    roots = [_hist_node(model, one, 0) for (one,) in model._predictors]
    return roots, Boosting(float(model._baseline_prediction[0, 0]), wide=True)


def _hist_node(model: Any, predictor: Any, i: int) -> Node:
    node = predictor.nodes[i]
    if node["is_leaf"]:
        return float(node["value"])
    column, missing = int(node["feature_idx"]), bool(node["missing_go_to_left"])
    left, right = (_hist_node(model, predictor, int(node[side])) for side in ("left", "right"))
    if not node["is_categorical"]:
        return Split(column, float(node["num_threshold"]), missing, left, right)
    words = predictor.raw_left_cat_bitsets[int(node["bitset_idx"])]
    known = model._bin_mapper.bin_thresholds_[column]
    codes = range(int(known.max()) + 1)
    goes = [bool(words[k // 32] >> (k % 32) & 1) if k in known else missing for k in codes]
    return split_on_categories(column, goes, missing, left, right)


def hist_scores(model: Any, X: np.ndarray) -> np.ndarray:
    """Return scikit-learn's scores of rows that its own encoder has encoded."""
    raw = np.full((len(X), 1), model._baseline_prediction[0, 0], order="F")
    model._predict_iterations(np.ascontiguousarray(X, dtype=np.float64), model._predictors, raw, False, 1)
    scores: np.ndarray = model._loss.predict_proba(raw)
    return scores
