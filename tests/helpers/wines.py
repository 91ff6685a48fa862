"""A forest of three classes."""

import pandas as pd
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc

Wine = tuple[rc.Forest, rc.Schema, pd.DataFrame]


def three_wines() -> Wine:
    """Three cultivars of wine; only two of the thirteen measurements may change."""
    frame, y = load_wine(return_X_y=True, as_frame=True)
    schema = rc.Schema.from_frame(frame)
    for name in schema.names:
        if name not in ("color_intensity", "flavanoids"):
            schema = schema.replace(name, action="fixed")
    data = rc.datasets.Dataset("wine", frame, y.to_numpy(), schema)
    model = RandomForestClassifier(20, max_depth=3, random_state=0).fit(data.encode(frame), data.y)
    return rc.Forest.from_sklearn(model), schema, frame
