"""The authors' draw: rows, column order and seeds of their published script.

With the same draw, our numbers and theirs can differ only by library versions, solver tolerances,
ties and mistakes, not by chance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from robustcf.counterfactual import Counterfactual
from robustcf.datasets.dataset import Dataset
from robustcf.explain import Explainer
from robustcf.forest.forest import Forest
from robustcf.methods.thresholds import Naive
from robustcf.schema.check import distance
from robustcf.schema.encode import read_rows
from robustcf.schema.schema import Feature, Schema

DEPTH = 4
NUDGES = 4  # searches for equally near points, each with slightly changed weights
SAME = 1e-9


def in_their_columns(data: Dataset) -> Dataset:
    """Return the data set in the form of the authors' reader.

    Categorical features come last. In a binary feature of words, the first value in the file is 0.
    (Mirrored columns would give other forests.)

    >>> from robustcf.datasets import synthetic_credit
    >>> in_their_columns(synthetic_credit(20)).schema.names[-3:]
    ('marital_status', 'employment', 'housing')
    """
    features = sorted(data.schema.features, key=lambda f: f.kind == "categorical")
    schema = Schema(tuple(_first_is_zero(f, data) for f in features))
    return Dataset(data.name, data.X[list(schema.names)], data.y, schema)


def _first_is_zero(feature: Feature, data: Dataset) -> Feature:
    if feature.kind != "binary" or feature.is_number:
        return feature
    return replace(feature, values=tuple(dict.fromkeys(data.X[feature.name].tolist())))


def same_draw(
    data: Dataset, simulation: int, n_trees: int, simulations: int, rows: int = 5, time_limit: float = 60.0
) -> list[dict[str, Any]]:
    """Explain the rows of one of their simulations; check on their second forest.

    Parameters
    ----------
    data : Dataset
        The data set from `in_their_columns`.
    simulation : int
        Seed of the rows and of the first forest; the second forest's is this plus `simulations`.
    n_trees, simulations : int
        The size of their forests and the number of their simulations.
    rows : int
        How many of the five rows to explain.
    time_limit : float
        Seconds per row.

    Returns
    -------
    list of dict
        One per row, with the columns that `tables` reads. Often several points are equally near, and
        solvers may choose different ones. `ties` is the number of such points found. `valid_least` and
        `valid_most` say whether the second forest agrees with the worst and the best of them.
    """
    X = data.encoded
    rest, left_out = train_test_split(np.arange(len(X)), test_size=5, random_state=simulation)
    first, second = (
        RandomForestClassifier(n_trees, max_depth=DEPTH, random_state=seed).fit(X[rest], data.y[rest])
        for seed in (simulation, simulations + simulation)
    )
    forest, chosen = Forest.from_sklearn(first), data.X.iloc[left_out[:rows]]
    nearest = Explainer(forest, data.schema, Naive(), time_limit=time_limit).explain_many(chosen)
    found = []
    for cf, points in zip(nearest, _equally_near(forest, data, chosen, nearest, time_limit), strict=True):
        agrees = second.predict(points) == cf.target if len(points) else np.array([np.nan])
        found.append(
            {
                "dataset": data.name,
                "simulation": simulation,
                "instance_id": str(left_out[cf.row]),
                "method": "naive",
                "alpha": np.nan,
                "beta": np.nan,
                "parameter": np.nan,
                "voting": "soft",
                "n_trees": n_trees,
                "status": cf.status,
                "reason": cf.reason,
                "distance": cf.distance,
                "gap": cf.gap,
                "n_changed": cf.n_changed,
                "seconds": cf.seconds,
                "predicted_validity": cf.predicted_validity,
                "valid": float(agrees[0]),
                "valid_least": float(agrees.min()),
                "valid_most": float(agrees.max()),
                "ties": len(points),
                "forests": 1,
            }
        )
    return found


def _equally_near(
    forest: Forest, data: Dataset, rows: pd.DataFrame, nearest: list[Counterfactual], time_limit: float
) -> list[np.ndarray]:
    """Return each row's point and other equally near points.

    The others are optimal for slightly changed weights.
    """
    before = read_rows(data.schema, rows).numbers
    points = [{} if cf.encoded is None else {cf.encoded.tobytes(): cf.encoded} for cf in nearest]
    for k in range(NUDGES):
        nudges = 1 + 1e-5 * np.random.default_rng(k).random(len(data.schema))
        features = [
            replace(f, weight=f.cost_weight * u) for f, u in zip(data.schema.features, nudges, strict=True)
        ]
        again = Explainer(forest, Schema(tuple(features)), Naive(), time_limit=time_limit)
        for i, cf in enumerate(again.explain_many(rows)):
            if cf.point is not None and cf.encoded is not None:
                after = read_rows(data.schema, cf.point).numbers[0]
                if abs(distance(data.schema, before[i], after) - nearest[i].distance) < SAME:
                    points[i].setdefault(cf.encoded.tobytes(), cf.encoded)
    return [np.array(list(p.values())) for p in points]
