"""Five columns of every kind, customers in them, and a forest that decides on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc

SCHEMA = rc.Schema(
    (
        rc.Feature("age", "discrete", "increase", values=tuple(range(18, 71))),
        rc.Feature("income", "continuous", low=0.0, high=5000.0, step=1.0, unit="EUR"),
        rc.Feature("rate", "continuous", low=0.0, high=1.0),
        rc.Feature("job", "categorical", values=("clerk", "cook", "pilot")),
        rc.Feature("citizen", "binary", "fixed", values=("no", "yes")),
    )
)


def rows(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 71, n),
            "income": rng.integers(0, 5001, n),
            "rate": rng.random(n),
            "job": rng.choice(["clerk", "cook", "pilot"], n),
            "citizen": rng.choice(["no", "yes"], n),
        }
    )


def labels(frame: pd.DataFrame) -> np.ndarray:
    value = (
        frame["income"] / 5000
        + frame["age"] / 70
        + (frame["job"] == "pilot")
        + 0.3 * (frame["citizen"] == "yes")
    )
    return np.where(value > 1.5, "good", "bad")


def trained(y: Callable[[pd.DataFrame], np.ndarray] = labels, n_trees: int = 20) -> rc.Forest:
    frame = rows(300)
    read = rc.datasets.Dataset("rows", frame, np.zeros(len(frame), dtype=int), SCHEMA)
    model = RandomForestClassifier(n_trees, max_depth=4, random_state=0)
    return rc.Forest.from_sklearn(model.fit(read.encode(frame), y(frame)))
