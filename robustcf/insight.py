"""Analyse explanations: features changed, importance, and trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from robustcf.counterfactual import Counterfactual
from robustcf.explain import Explainer
from robustcf.forest.forest import Forest, Label, Voting
from robustcf.methods.thresholds import DirectSAA
from robustcf.schema.schema import Schema


def features_changed(answers: Iterable[Counterfactual]) -> pd.DataFrame:
    """Return the average number of features changed per method and level (Fig. 5).

    Every answer with a point counts, including points that only reach the best score.

    Returns
    -------
    DataFrame
        `method, alpha, beta, parameter, robustness` (1 - α), `n, changed, distance`, by increasing
        robustness.

    Examples
    --------
    >>> from robustcf.methods import Naive
    >>> features_changed([Counterfactual("timeout", Naive())]).empty
    True
    """
    rows = [
        {
            "method": a.method.name,
            "alpha": a.method.alpha,
            "beta": a.method.beta,
            "parameter": a.method.parameter,
            "changed": a.n_changed,
            "distance": a.distance,
        }
        for a in answers
        if a.point is not None
    ]
    keys = ["method", "alpha", "beta", "parameter"]
    frame = pd.DataFrame(rows, columns=[*keys, "changed", "distance"])
    frame[["alpha", "beta", "parameter"]] = frame[["alpha", "beta", "parameter"]].astype(float)
    summary = frame.groupby(keys, dropna=False, sort=False).agg(
        n=("changed", "size"), changed=("changed", "mean"), distance=("distance", "mean")
    )
    table = summary.reset_index()
    table.insert(4, "robustness", 1.0 - table["alpha"])
    return table.sort_values(["method", "robustness"], kind="stable", ignore_index=True)


def permutation_importance(
    forest: Forest,
    schema: Schema,
    X: np.ndarray,
    y: np.ndarray,
    *,
    repeats: int = 8,
    seed: int = 0,
    voting: Voting = "soft",
) -> pd.Series:
    """Return the loss of accuracy when a feature is shuffled (Breiman 2001).

    The encoded columns of a categorical are shuffled together, because it is one feature.

    Parameters
    ----------
    forest, schema
        The explained forest and its schema.
    X, y : ndarray
        Encoded rows and labels to measure accuracy on.
    repeats, seed : int
        Number of shuffles per feature, and their seed.

    Returns
    -------
    Series
        Mean loss per feature, in schema order.
    """
    rng = np.random.default_rng(seed)
    codes = np.array([forest.class_index(label) for label in _plain(y)])
    accuracy = float((forest.predict(X, voting) == codes).mean())
    losses = {}
    for j, feature in enumerate(schema.features):
        columns = slice(int(schema.column_start[j]), int(schema.column_start[j + 1]))
        loss = 0.0
        if feature.n_columns:
            for _ in range(repeats):
                shuffled = X.copy()
                shuffled[:, columns] = X[rng.permutation(len(X)), columns]
                loss += accuracy - float((forest.predict(shuffled, voting) == codes).mean())
        losses[feature.name] = loss / repeats
    return pd.Series(losses, name="importance")


def _plain(labels: np.ndarray) -> list[Label]:
    return [v.item() if isinstance(v, np.generic) else v for v in labels]


def average_change(schema: Schema, answers: Iterable[Counterfactual]) -> pd.Series:
    """Return each feature's average absolute change on the [0, 1] scale, unweighted.

    A changed category counts as 1.
    """
    total, n = dict.fromkeys(schema.names, 0.0), 0
    for answer in answers:
        if answer.point is None:
            continue
        n += 1
        for change in answer.changes:
            feature = schema[change.feature]
            if feature.kind == "categorical":
                total[feature.name] += 1.0
            else:
                ends = np.array([feature.number(change.before), feature.number(change.after)])
                total[feature.name] += float(np.abs(np.diff(feature.scaled(ends)))[0])
    return pd.Series(total, name="change") / max(n, 1)


def importance_beside_change(importance: pd.Series, change: pd.Series) -> pd.DataFrame:
    """Return both measures, each normalised to a sum of 1 (the paper's last figures).

    >>> importance_beside_change(pd.Series({"a": 0.3, "b": -0.1}), pd.Series({"a": 1.0, "b": 1.0}))
       importance  change
    a         1.0     0.5
    b         0.0     0.5
    """
    kept = importance.clip(lower=0.0)
    parts = {"importance": kept / (kept.sum() or 1.0), "change": change / (change.sum() or 1.0)}
    return pd.DataFrame(parts).sort_values("importance", ascending=False, kind="stable")


def important_features(importance: pd.Series, share: float = 0.05) -> int:
    """Return how many features have at least `share` of the total importance.

    >>> important_features(pd.Series({"a": 0.5, "b": 0.4, "c": 0.01}))
    2
    """
    if not 0 < share <= 1:
        raise ValueError(f"share is {share}; it must lie in (0, 1]")
    kept = importance.clip(lower=0.0)
    return int((kept >= share * kept.sum()).sum()) if kept.sum() > 0 else 0


def importance_and_validity(importances: dict[str, pd.Series], validities: dict[str, float]) -> pd.DataFrame:
    """Return each data set's number of important features and naive validity.

    This is the paper's fourth contribution.

    >>> importance_and_validity({"x": pd.Series({"a": 1.0})}, {"x": 0.9})
      dataset  important  validity
    0       x          1       0.9
    """
    rows = [
        {"dataset": name, "important": important_features(importances[name]), "validity": validities[name]}
        for name in importances
        if name in validities
    ]
    table = pd.DataFrame(rows, columns=["dataset", "important", "validity"])
    return table.sort_values(["important", "dataset"], kind="stable", ignore_index=True)


def trajectory(
    forest: Forest,
    schema: Schema,
    row: Any,
    alphas: Sequence[float] = (0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.01),
    **settings: Any,
) -> pd.DataFrame:
    """Return one row's Direct-SAA explanations at increasing 1 - α (Fig. 2).

    Parameters
    ----------
    forest, schema, row
        As for `Explainer` and its `explain`.
    alphas : sequence of float
    **settings
        Further arguments of `Explainer` (`target`, `voting`, `solver`, `time_limit`, ...).

    Returns
    -------
    DataFrame
        One line per 1 - α, in increasing order: `robustness, status, threshold, score, distance`, and a
        column per feature with its change on the [0, 1] scale (a changed category is 1).
    """
    explainer = Explainer(forest, schema, [DirectSAA(a) for a in alphas], **settings)
    return trajectory_of(schema, explainer.explain_grid(row))


def trajectory_of(schema: Schema, answers: Iterable[Counterfactual]) -> pd.DataFrame:
    """Return the table of `trajectory` from existing answers.

    An answer whose point does not work has no changes.
    """
    lines = []
    for answer in answers:
        line: dict[str, Any] = {
            "robustness": 1.0 - float(answer.method.alpha or 0.0),
            "status": answer.status,
            "threshold": answer.threshold,
            "score": answer.score,
            "distance": answer.distance,
        }
        moved = dict.fromkeys(schema.names, 0.0)
        for change in answer.changes if answer.works else ():
            feature = schema[change.feature]
            ends = np.array([feature.number(change.before), feature.number(change.after)])
            signed = float(np.diff(feature.scaled(ends))[0]) if feature.ordered else 1.0
            moved[feature.name] = signed
        lines.append(line | moved)
    return pd.DataFrame(lines).sort_values("robustness", kind="stable", ignore_index=True)
