"""Read XGBoost's `XGBClassifier`, in memory or from its JSON format."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from robustcf.forest.arrays import ForestError
from robustcf.forest.boosted.link import Boosting
from robustcf.forest.boosted.trees import Node, Split


def read_xgboost(model: Any) -> tuple[list[Node], Boosting]:
    """Return the trees of an `XGBClassifier`, which compares float32 numbers by `<` and adds float32."""
    missing = getattr(model, "missing", np.nan)
    if missing is not None and not np.isnan(missing):
        raise ForestError(f"an XGBClassifier with missing={missing!r} is not supported, only NaN")
    learner = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]
    objective, booster = learner["objective"]["name"], learner["gradient_booster"]
    if objective != "binary:logistic":
        raise ForestError(
            f"an XGBClassifier with the objective {objective!r} is not supported, only 'binary:logistic'"
        )
    if booster["name"] != "gbtree":
        raise ForestError(
            f"an XGBClassifier with booster={booster['name']!r} is not supported, only 'gbtree'"
        )
    trees = booster["model"]["trees"]
    best = learner["attributes"].get("best_iteration")
    if best is not None:  # after early stopping, predict uses the trees up to the best iteration
        trees = trees[: booster["model"]["iteration_indptr"][int(best) + 1]]
    share = np.float32(learner["learner_model_param"]["base_score"].strip("[]"))
    base = -np.log(np.float32(1) / share - np.float32(1))  # in float32, as XGBoost does
    return [_node(tree, 0) for tree in trees], Boosting(float(base), single=True)


def _node(tree: dict[str, Any], i: int) -> Node:
    condition = np.float32(tree["split_conditions"][i])
    if tree["left_children"][i] < 0:
        return float(condition)
    if tree["split_type"][i]:
        raise ForestError(
            "an XGBClassifier with categorical columns is not supported; encode them in a Pipeline, for "
            "example with a OneHotEncoder"
        )
    left, right = (_node(tree, tree[side][i]) for side in ("left_children", "right_children"))
    below = np.nextafter(condition, np.float32(-np.inf))  # x < t for float32 x is x <= the one below t
    return Split(int(tree["split_indices"][i]), float(below), bool(tree["default_left"][i]), left, right)
