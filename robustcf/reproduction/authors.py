"""The authors' own draw: the rows, column order and seeds of their published script.

With it, chance no longer separates our numbers from theirs: what is left are library versions, solver
tolerances and mistakes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from robustcf.datasets.dataset import Dataset
from robustcf.explain import Explainer
from robustcf.forest import Forest
from robustcf.methods import Naive
from robustcf.schema import Feature, Schema

DEPTH = 4


def in_their_columns(data: Dataset) -> Dataset:
    """The data set as their reader leaves it: categorical features behind the others, and of a binary
    feature in words the value that comes first is 0. (Mirrored columns would draw other forests.)

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
    """Naive explanations of one of their simulations, and whether their second forest agrees.

    Parameters
    ----------
    data : Dataset
        In their columns, see `in_their_columns`.
    simulation : int
        Seed of the rows and of the first forest; the second forest's is this plus `simulations`.
    n_trees, simulations : int
        Their forests' size, and how many simulations they made of it.
    rows : int
        How many of the five rows are explained.
    time_limit : float
        Seconds per row.

    Returns
    -------
    list of dict
        One per row, with the columns that `tables` reads.
    """
    X = data.encode(data.X)
    rest, left_out = train_test_split(np.arange(len(X)), test_size=5, random_state=simulation)
    first, second = (
        RandomForestClassifier(n_trees, max_depth=DEPTH, random_state=seed).fit(X[rest], data.y[rest])
        for seed in (simulation, simulations + simulation)
    )
    explainer = Explainer(Forest.from_sklearn(first), data.schema, Naive(), time_limit=time_limit)
    chosen = left_out[:rows]
    found = []
    for i, cf in zip(chosen, explainer.explain_many(data.X.iloc[chosen]), strict=True):
        valid = np.nan if cf.encoded is None else float(second.predict(cf.encoded[None])[0] == cf.target)
        found.append(
            {
                "dataset": data.name,
                "simulation": simulation,
                "instance_id": str(i),
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
                "valid": valid,
                "forests": 1,
            }
        )
    return found
