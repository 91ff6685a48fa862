"""Signed changes of encoded points, and the row of a trajectory figure."""

from __future__ import annotations

import numpy as np
import pandas as pd

from robustcf.schema.schema import Schema


def feature_values(schema: Schema, encoded: np.ndarray) -> pd.DataFrame:
    """Return encoded rows with one [0, 1] column per feature.

    A category by its index.
    """
    columns = {}
    for j, feature in enumerate(schema.features):
        part = encoded[:, int(schema.column_start[j]) : int(schema.column_start[j + 1])]
        if feature.kind == "categorical" and part.shape[1]:
            index = part.argmax(axis=1) if part.shape[1] > 1 else part[:, 0]
            columns[feature.name] = index / max(len(feature.values) - 1, 1)
        else:
            columns[feature.name] = part[:, 0] if part.shape[1] else np.zeros(len(encoded))
    return pd.DataFrame(columns)


def signed_changes(schema: Schema, before: np.ndarray, after: np.ndarray) -> pd.DataFrame:
    """Return each feature's change on its [0, 1] scale, per row.

    A changed category counts 1.
    """
    moved = feature_values(schema, after) - feature_values(schema, before)
    for feature in schema.features:
        if feature.kind == "categorical":
            moved[feature.name] = (moved[feature.name] != 0).astype(float)
    return moved


def most_telling(rows: pd.DataFrame) -> tuple[int, str] | None:
    """Return the (simulation, instance) whose Direct-SAA path has the most steps.

    Every step must be optimal.
    """
    own = rows[rows["method"] == "direct-saa"]
    proved = own.groupby(["simulation", "instance_id"])["status"].transform(lambda s: (s == "optimal").all())
    own = own[proved]
    if own.empty:
        return None
    steps = own.groupby(["simulation", "instance_id"]).agg(
        steps=("distance", lambda d: d.round(9).nunique()), changed=("n_changed", "max")
    )
    steps = steps.sort_values(["steps", "changed"], ascending=False, kind="stable")
    simulation, instance = steps.index[0]
    return int(simulation), str(instance)
