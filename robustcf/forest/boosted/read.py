"""Read a boosted model of any of the four libraries; none of them needs to be installed for the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from robustcf.forest.arrays import ForestError
from robustcf.forest.boosted.gradient import hist_scores, read_gradient, read_hist
from robustcf.forest.boosted.lgbm import read_lightgbm
from robustcf.forest.boosted.link import LARGEST, Boosting
from robustcf.forest.boosted.trees import Node, flattened
from robustcf.forest.boosted.xgb import read_xgboost

if TYPE_CHECKING:
    from robustcf.forest.forest import Forest

# Class → its reader, and the attribute that a fitted model has.
READERS: Mapping[str, tuple[Callable[[Any], tuple[list[Node], Boosting]], str]] = {
    "GradientBoostingClassifier": (read_gradient, "estimators_"),
    "HistGradientBoostingClassifier": (read_hist, "_predictors"),
    "XGBClassifier": (read_xgboost, "classes_"),
    "LGBMClassifier": (read_lightgbm, "booster_"),
    "StoredXGBoost": (read_xgboost, "classes_"),
    "StoredLightGBM": (read_lightgbm, "booster_"),
}
LIBRARY_CLASSES = tuple(name for name in READERS if not name.startswith("Stored"))
# Parameters of which any value but these makes the fit depend on the seed.
SURE: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "GradientBoostingClassifier": {"subsample": (1.0,), "max_features": (None,)},
    "HistGradientBoostingClassifier": {"max_features": (1.0,), "early_stopping": (False,)},
    "XGBClassifier": dict.fromkeys(
        ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode"), (None, 1, 1.0)
    ),
    "LGBMClassifier": {"subsample_freq": (0,), "colsample_bytree": (1.0,), "boosting_type": ("gbdt",)},
}
# Training parameters that the libraries take besides those of their classifiers: no files, no hosts.
FURTHER = frozenset(
    [
        "bagging_fraction",
        "bagging_freq",
        "bagging_seed",
        "cat_smooth",
        "data_random_seed",
        "deterministic",
        "eta",
        "extra_trees",
        "feature_fraction",
        "feature_fraction_bynode",
        "feature_fraction_seed",
        "force_col_wise",
        "force_row_wise",
        "is_unbalance",
        "lambda",
        "lambda_l1",
        "lambda_l2",
        "linear_tree",
        "max_bin",
        "max_delta_step",
        "min_data_in_bin",
        "min_data_in_leaf",
        "min_gain_to_split",
        "min_sum_hessian_in_leaf",
        "num_iterations",
        "path_smooth",
        "pos_bagging_fraction",
        "neg_bagging_fraction",
        "scale_pos_weight",
        "seed",
        "sigmoid",
        "verbose",
        "verbosity",
    ]
)
NAN_FREE = ("GradientBoostingClassifier",)  # its `predict` refuses missing values


def is_boosted(model: Any) -> bool:
    """Whether a model is a boosted classifier that can be read, by the name of its class."""
    return type(model).__name__ in READERS


def read_boosted(model: Any) -> dict[str, Any]:
    """Return the arguments of `Forest` for a fitted boosted model of two classes."""
    name = type(model).__name__
    reader, fitted = READERS[name]
    try:
        getattr(model, fitted)
    except Exception:  # each library has an error of its own
        raise ForestError(f"the {name} is not fitted; call fit first") from None
    classes = tuple(c.item() if isinstance(c, np.generic) else c for c in model.classes_)
    if len(classes) != 2:
        raise ForestError(
            f"the {name} has {len(classes)} classes; boosting is supported for two. Use a random forest"
        )
    roots, boosting = reader(model)
    if not roots:
        raise ForestError(f"the {name} has no tree")
    return flattened(roots) | {
        "classes": classes,
        "n_features": int(model.n_features_in_),
        "accepts_missing": name not in NAN_FREE,
        "boosting": boosting,
        "estimator": {"class": name, "parameters": _parameters(model)},
    }


def _parameters(model: Any) -> dict[str, Any]:
    """Return the parameters that JSON can hold."""
    kept = {}
    for name, value in model.get_params(deep=False).items():
        plain = value.item() if isinstance(value, np.generic) else value
        with suppress(TypeError, ValueError):
            json.dumps(plain, allow_nan=False)
            kept[name] = plain
    if hasattr(model, "do_early_stopping_"):  # "auto" depends on the number of rows
        kept["early_stopping"] = bool(model.do_early_stopping_)
    if getattr(model, "_preprocessor", None) is not None:  # encoded rows have the categories first
        kept["categorical_features"] = [bool(one) for one in model._is_categorical_remapped]
    return kept


def estimator_class(name: str) -> Any:
    """Return the class of a boosted model by name, or raise a ForestError that says what to install."""
    import sklearn.ensemble

    if hasattr(sklearn.ensemble, name):
        return getattr(sklearn.ensemble, name)
    package = "xgboost" if name == "XGBClassifier" else "lightgbm"
    try:
        return getattr(__import__(package), name)
    except ImportError:
        raise ForestError(f"a {name} needs {package}: install robustcf[boosting]") from None


def refits_identically(estimator: Mapping[str, Any]) -> bool:
    """Whether a boosted model trained again on the same rows is the same model, whatever its seed.

    >>> refits_identically({"class": "XGBClassifier", "parameters": {"subsample": 0.8}})
    False
    >>> refits_identically({"class": "XGBClassifier", "parameters": {"subsample": None}})
    True
    """
    sure, given = SURE.get(str(estimator.get("class"))), estimator.get("parameters", {})
    return sure is not None and all(given.get(name, values[0]) in values for name, values in sure.items())


def library_scores(model: Any, X: np.ndarray) -> np.ndarray:
    """Return the scores of both classes by the library's own code."""
    if getattr(model, "_preprocessor", None) is not None:  # scikit-learn's histograms with categories
        return hist_scores(model, X)
    names = getattr(model, "feature_names_in_", None)
    scores: np.ndarray = model.predict_proba(X if names is None else pd.DataFrame(X, columns=names))
    return scores.astype(np.float64)


def check_margins(forest: Forest) -> None:
    """Raise a ForestError unless the leaves hold the margins of two classes."""
    p = forest.probabilities
    if p.shape[1] != 2 or not np.isfinite(p).all() or not np.array_equal(p[:, 0], -p[:, 1]):
        raise ForestError("the leaves of a boosted model do not hold the margins of two classes")
    if float(largest_leaves(forest).sum()) > LARGEST:
        raise ForestError(f"the leaf values of the boosted model add up to more than {LARGEST:,.0f}")


def largest_leaves(forest: Forest) -> np.ndarray:
    """Return the largest absolute leaf value of each tree."""
    largest: np.ndarray = np.maximum.reduceat(np.abs(forest.probabilities[:, 1]), forest.tree_start[:-1])
    return largest
