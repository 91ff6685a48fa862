"""Read LightGBM's `LGBMClassifier`, in memory or from its text format."""

from __future__ import annotations

from typing import Any

from robustcf.forest.arrays import ForestError
from robustcf.forest.boosted.link import Boosting
from robustcf.forest.boosted.trees import Node, Split


def read_lightgbm(model: Any) -> tuple[list[Node], Boosting]:
    """Return the trees of an `LGBMClassifier`, which compares float64 numbers by `<=`."""
    found = model.booster_.dump_model()
    objective, *settings = str(found.get("objective", "")).split()
    if objective != "binary" or found["num_tree_per_iteration"] != 1:
        raise ForestError(
            f"an LGBMClassifier with the objective {objective!r} is not supported, only 'binary'"
        )
    if found["average_output"]:
        raise ForestError("an LGBMClassifier with boosting_type='rf' is not supported")
    options = dict(setting.split(":", 1) for setting in settings if ":" in setting)
    scale = float(options.get("sigmoid", 1.0))
    return [_node(tree["tree_structure"]) for tree in found["tree_info"]], Boosting(0.0, scale, wide=True)


def _node(node: dict[str, Any]) -> Node:
    if "leaf_value" in node:
        return float(node["leaf_value"])
    if node["decision_type"] != "<=":
        raise ForestError(
            "an LGBMClassifier with categorical columns is not supported; encode them in a Pipeline, for "
            "example with a OneHotEncoder"
        )
    kind, threshold = node["missing_type"], float(node["threshold"])
    if kind == "Zero":
        raise ForestError(
            "an LGBMClassifier with zero_as_missing=True is not supported; use NaN for missing values"
        )
    # Where training saw no missing value, LightGBM reads one as 0.
    missing_left = bool(node["default_left"]) if kind == "NaN" else threshold >= 0.0
    left, right = (_node(node[side]) for side in ("left_child", "right_child"))
    return Split(int(node["split_feature"]), threshold, missing_left, left, right)
