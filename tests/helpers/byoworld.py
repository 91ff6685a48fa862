"""A user's own files: a pipeline trained on raw columns and stored with skops, customers, training rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import skops.io
import tomli_w
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import robustcf as rc


def pipeline(trees: int = 20, depth: int = 4) -> Pipeline:
    """What many people would write: words filled and one-hot, numbers standardised."""
    words = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="unknown"), OneHotEncoder(handle_unknown="ignore")
    )
    prepare = ColumnTransformer(
        [
            ("words", words, make_column_selector(dtype_exclude=np.number)),
            ("numbers", StandardScaler(), make_column_selector(dtype_include=np.number)),
        ]
    )
    return Pipeline(
        [("prepare", prepare), ("forest", RandomForestClassifier(trees, max_depth=depth, random_state=0))]
    )


def synthetic() -> tuple[pd.DataFrame, np.ndarray]:
    """The embedded data, in which some do not say where they live."""
    data = rc.datasets.synthetic_credit(400, seed=0)
    X = data.X.copy()
    X.loc[::11, "housing"] = None
    return X, data.y


def paper_set(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """German Credit or Adult in raw columns, categories as words."""
    data = rc.datasets.load(name)
    X = data.X.copy()
    for feature in data.schema.features:
        if feature.kind == "categorical":
            X[feature.name] = [v if isinstance(v, str) else f"{feature.name} {v}" for v in X[feature.name]]
    return X, data.y


def write_files(folder: Path, X: pd.DataFrame, y: np.ndarray, customers: int, **changes: Any) -> Pipeline:
    """model.skops, training.csv, customers.csv and audit.toml, and the model itself."""
    held = np.arange(len(X)) % 5 == 0
    model = pipeline().fit(X[~held], y[~held])
    skops.io.dump(model, folder / "model.skops")
    X[~held].assign(good=y[~held]).to_csv(folder / "training.csv", index=False)
    table = X[held].head(customers).reset_index(drop=True)
    table.insert(0, "customer", [f"c{i}" for i in range(len(table))])
    table.to_csv(folder / "customers.csv", index=False)
    config: dict[str, Any] = {
        "output": "run",
        "model": {"file": "model.skops", "favourable": 1},
        "customers": {"data": "customers.csv", "id": "customer"},
        "method": [{"name": "naive"}, {"name": "direct-saa", "alpha": 0.1}],
        "training": {"data": "training.csv", "label": "good"},
        "validation": {"forests": 2},
        "shard": {"rows": 64},
    }
    kept = {key: value for key, value in (config | changes).items() if value is not None}
    (folder / "audit.toml").write_text(tomli_w.dumps(kept), encoding="utf-8")
    return model
