"""What changes, how it follows importance, and one row's path."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance as by_sklearn

import robustcf as rc
from robustcf import insight

DATA = rc.datasets.synthetic_credit(n=400, seed=0)
X = DATA.encode(DATA.X)
FOREST = rc.Forest.from_sklearn(RandomForestClassifier(20, max_depth=3, random_state=0).fit(X, DATA.y))


def test_features_changed_per_level() -> None:
    methods = [rc.Naive(), rc.DirectSAA(0.3), rc.DirectSAA(0.05)]
    answers = rc.Explainer(FOREST, DATA.schema, methods, target=1).explain_many(DATA.X.head(30))
    table = insight.features_changed(answers)
    reached = [a for a in answers if a.point is not None]
    assert table.n.sum() == len(reached)
    direct = table[table.method == "direct-saa"]
    assert direct.robustness.tolist() == pytest.approx([0.7, 0.95])
    mine = [a.n_changed for a in reached if a.method == rc.DirectSAA(0.05)]
    assert direct.changed.iloc[1] == pytest.approx(np.mean(mine))
    assert direct.distance.is_monotonic_increasing


def test_importance_is_scikit_learns_where_a_feature_is_one_column() -> None:
    mine = insight.permutation_importance(FOREST, DATA.schema, X, DATA.y, repeats=30)
    theirs = by_sklearn(FOREST.judge, X, DATA.y, n_repeats=30, random_state=0).importances_mean
    assert list(mine.index) == list(DATA.schema.names)
    for j, f in enumerate(DATA.schema.features):
        if f.n_columns == 1:
            assert mine[f.name] == pytest.approx(theirs[DATA.schema.column_start[j]], abs=0.02)


def test_importance_beside_change_and_count() -> None:
    answers = rc.Explainer(FOREST, DATA.schema, rc.DirectSAA(0.5), target=1).explain_many(DATA.X.head(60))
    change = insight.average_change(DATA.schema, answers)
    importance = insight.permutation_importance(FOREST, DATA.schema, X, DATA.y, repeats=3)
    table = insight.importance_beside_change(importance, change)
    assert table.sum().tolist() == pytest.approx([1.0, 1.0])
    fixed = [f.name for f in DATA.schema.features if f.action == "fixed"]
    assert (table.change[fixed] == 0).all()
    assert 1 <= insight.important_features(importance) <= len(DATA.schema)
    pair = insight.importance_and_validity(
        {"b": importance, "a": pd.Series({"x": 1.0})}, {"a": 0.9, "b": 0.4}
    )
    assert pair.dataset.tolist()[0] == "a"
    with pytest.raises(ValueError, match="share"):
        insight.important_features(importance, 0.0)


def test_the_trajectory_of_one_row() -> None:
    declined = np.flatnonzero(FOREST.predict(X) == 0)
    path = insight.trajectory(FOREST, DATA.schema, DATA.X.iloc[declined[0]], (0.05, 0.5, 0.2), target=1)
    assert path.robustness.tolist() == pytest.approx([0.5, 0.8, 0.95])
    reached = path[path.status == "optimal"]
    assert reached.distance.is_monotonic_increasing
    assert set(DATA.schema.names) <= set(path.columns)
    assert ((path[list(DATA.schema.names)] != 0).sum(axis=1) >= 1).all()
