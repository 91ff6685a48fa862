"""What moves: signed changes of encoded points, one row's path over rising targets, average change."""

from __future__ import annotations

import numpy as np
import pandas as pd

from robustcf.schema.schema import Schema


def feature_values(schema: Schema, encoded: np.ndarray) -> pd.DataFrame:
    """Encoded rows with one column per feature on its [0, 1] scale; a category by its place."""
    columns = {}
    for j, feature in enumerate(schema.features):
        part = encoded[:, int(schema.column_start[j]) : int(schema.column_start[j + 1])]
        if feature.kind == "categorical" and part.shape[1]:
            place = part.argmax(axis=1) if part.shape[1] > 1 else part[:, 0]
            columns[feature.name] = place / max(len(feature.values) - 1, 1)
        else:
            columns[feature.name] = part[:, 0] if part.shape[1] else np.zeros(len(encoded))
    return pd.DataFrame(columns)


def signed_changes(schema: Schema, before: np.ndarray, after: np.ndarray) -> pd.DataFrame:
    """Change of each feature on its [0, 1] scale, row by row; a changed category counts as 1."""
    moved = feature_values(schema, after) - feature_values(schema, before)
    for feature in schema.features:
        if feature.kind == "categorical":
            moved[feature.name] = (moved[feature.name] != 0).astype(float)
    return moved


def most_telling(rows: pd.DataFrame) -> tuple[int, str] | None:
    """The (simulation, instance) whose Direct-SAA path takes the most steps, all of them optimal."""
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
