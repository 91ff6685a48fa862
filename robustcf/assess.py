"""Assess points of any origin against thresholds and against retrained forests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from robustcf.forest.forest import Forest, Label, Voting
from robustcf.methods.base import Method, keyed_title
from robustcf.methods.thresholds import DirectSAA, Naive
from robustcf.robustness import Calibration, predicted_validity
from robustcf.schema.encode import Row, as_frame, encode, read_rows
from robustcf.schema.schema import Schema
from robustcf.support.tolerances import SCORE_ROUNDING, TIE_MARGIN, reached
from robustcf.validate import validity


def assess_points(
    forest: Forest,
    schema: Schema,
    points: pd.DataFrame | Iterable[Row],
    targets: Label | Sequence[Label],
    *,
    methods: Sequence[Method] = (Naive(), DirectSAA(0.05)),
    retrained: Sequence[Forest] = (),
    calibration: Calibration | None = None,
    voting: Voting = "soft",
) -> pd.DataFrame:
    """Test whether raw points pass each threshold and survive retraining.

    Parameters
    ----------
    forest : Forest
        The forest that the points explain.
    schema : Schema
    points : DataFrame or rows
        In original units.
    targets : label or sequence of labels
        The target class of each point.
    methods : sequence of methods
        The methods whose thresholds are tested. Each has a column `passes <name>`, with α if it has one.
    retrained : sequence of Forest
        Retrained forests (`robustcf.validate.retrain`). Without any, nothing is measured.
    calibration : Calibration, optional
        Corrects the optimistic prediction by what retraining showed.
    voting : {"soft", "hard"}

    Returns
    -------
    DataFrame
        One line per point, in order: `target, reason, score, valid_now, passes ..., predicted,
        predicted_low, predicted_high` (optimistic in-sample figures), `calibrated` if a calibration was
        given, and `measured, measured_low, measured_high` (Wilson, 95 %) over the retrained forests. A
        point that cannot be read has only its `reason`.

    Examples
    --------
    >>> import robustcf as rc
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> data = rc.datasets.synthetic_credit(n=300, seed=0)
    >>> X = data.encode(data.X)
    >>> model = RandomForestClassifier(20, max_depth=3, random_state=0).fit(X, data.y)
    >>> forest = rc.Forest.from_sklearn(model)
    >>> again = [rc.validate.retrain(forest, X, data.y, seed) for seed in (1, 2)]
    >>> two = data.X.iloc[[0, 6]]
    >>> assess_points(forest, data.schema, two, 1, retrained=again)[["score", "measured"]].round(2)
       score  measured
    0   0.83       1.0
    1   0.31       0.0
    """
    frame = as_frame(points)
    wanted = [targets] * len(frame) if isinstance(targets, str | int | float | bool) else list(targets)
    if len(wanted) != len(frame):
        raise ValueError(f"{len(frame)} points but {len(wanted)} targets")
    read = read_rows(schema, frame, missing=forest.accepts_missing)
    table = pd.DataFrame({"target": wanted, "reason": read.reasons})
    usable = np.array([reason is None for reason in read.reasons], dtype=bool)
    encoded = encode(schema, read.numbers[usable])
    goals = [target for target, use in zip(wanted, usable, strict=True) if use]
    columns = assess_encoded(forest, encoded, goals, methods, voting)
    if calibration is not None:
        columns["calibrated"] = calibration(columns["predicted"])
    if len(retrained) and len(encoded):
        held = validity(list(retrained), encoded, goals, voting)
        ends = [binomtest(int(k), held.shape[1]).proportion_ci(method="wilson") for k in held.sum(axis=1)]
        columns["measured"] = held.mean(axis=1)
        columns["measured_low"] = np.array([e.low for e in ends])
        columns["measured_high"] = np.array([e.high for e in ends])
    for name, values in columns.items():
        table[name] = pd.Series(values, index=np.flatnonzero(usable)).reindex(table.index)
    return table


def assess_encoded(
    forest: Forest, encoded: np.ndarray, goals: Sequence[Label], methods: Sequence[Method], voting: Voting
) -> dict[str, np.ndarray]:
    """Return the columns of `assess_points` that need only the explained forest.

    A point passes a method if the forest decides for the target, if the score reaches the threshold up to
    rounding, and if soft votes are not tied.
    """
    n = len(encoded)
    names = [_name(method) for method in methods]
    columns: dict[str, np.ndarray] = {"score": np.full(n, np.nan), "valid_now": np.zeros(n, dtype=bool)}
    columns |= {f"passes {name}": np.zeros(n, dtype=bool) for name in names}
    columns |= {name: np.full(n, np.nan) for name in ("predicted", "predicted_low", "predicted_high")}
    for target in dict.fromkeys(goals):
        mine = np.array([goal == target for goal in goals])
        scores, label = forest.judged_scores(encoded[mine], voting)
        c = forest.class_index(target)
        score, flipped = scores[:, c], label == c
        # The engine demands the same margin beyond the cut-off; its fixed-point votes round by less.
        least = np.zeros(len(score))
        if voting == "soft":
            rivals = np.delete(scores, c, axis=1).max(axis=1)
            least = rivals if forest.by_plurality else least + forest.winning(target).score
            least = least + TIE_MARGIN - 2 * SCORE_ROUNDING
        columns["score"][mine], columns["valid_now"][mine] = score, flipped
        for name, method in zip(names, methods, strict=True):
            high_enough = reached(score, forest.demanded(method.threshold, target), len(forest))
            columns[f"passes {name}"][mine] = flipped & (score >= least) & high_enough
        ahead = predicted_validity(forest, encoded[mine], target, voting)
        columns["predicted"][mine] = ahead.estimate
        columns["predicted_low"][mine], columns["predicted_high"][mine] = ahead.low, ahead.high
    return columns


def _name(method: Method) -> str:
    return keyed_title(method.name, method.alpha, method.beta)
