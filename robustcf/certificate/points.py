"""Certify points made by any tool, for any classifier that can be refitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from robustcf.certificate.bounds import enough_forests, forests_needed, lower_bound
from robustcf.certificate.certificate import claim
from robustcf.forest.arrays import ForestError
from robustcf.forest.forest import Forest, Label, Voting
from robustcf.schema.encode import Row, encode, read_rows
from robustcf.schema.schema import Schema
from robustcf.validate import Scenario, build_estimator, derive_seed, training_rows

PROBES = 1000  # training rows on which refitted models are compared with each other
COMPARED = 5  # so many refitted models that predict alike are taken for deterministic


def certify(
    points: Any,
    model: Any,
    schema: Schema | None = None,
    *,
    training: tuple[Any, Any],
    target: Label | Sequence[Label],
    alpha: float = 0.05,
    delta: float = 0.05,
    forests: int = 100,
    scenario: str = "same-data",
    later: tuple[Any, Any] | None = None,
    voting: Voting = "soft",
    tests: int = 1,
    joint: bool = False,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> pd.DataFrame:
    """Test whether refitted models accept points made by any tool, one exact test per point.

    The claim for a certified point: with confidence 1 - δ over the refitted models, a model refitted in the
    same way predicts the target with probability at least 1 - α. It holds for points that were found without
    the models refitted here.

    Parameters
    ----------
    points : DataFrame, array or rows
        The points to test: with a schema, rows in original units, for example `cf.point`; without one, rows
        in the form that `model.predict` takes.
    model : Forest or classifier
        A forest, or any scikit-learn classifier or pipeline that can be cloned. Only its predictions
        are used.
    schema : Schema, optional
        Encodes the points.
    training : (rows, labels)
        The training rows in the form that the model was fitted on; for a `Forest`, encoded.
    target : label or sequence of labels
        The class that each point should have.
    alpha, delta : float
        The model may reject a point with probability `alpha`; a certificate may be wrong with probability
        `delta`.
    forests : int
        Number of refitted models.
    scenario : str
        "same-data", "bootstrap", "evolving" (with `later`) or "trees-N".
    later : (rows, labels), optional
        Rows collected since the model was trained.
    voting : {"soft", "hard"}
        How a `Forest` decides. Other models decide by their `predict`.
    tests : int
        Number of certificates that hold together with confidence 1 - δ.
    joint : bool
        Whether the certificates of all points hold together; `tests` is then the number of points.
    seed : int
    progress : callable, optional
        Called with the number of models refitted so far.

    Returns
    -------
    DataFrame
        One line per point: `certified, agree, forests, lower_bound, level, alpha, delta, scenario, claim`, as
        in `Certificate`. The claim is empty if the point is not certified.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X = np.random.default_rng(0).random((300, 2)); y = (X[:, 0] > 0.5).astype(int)
    >>> model = RandomForestClassifier(10, random_state=0)
    >>> table = certify([[0.9, 0.5], [0.5, 0.5]], model, training=(X, y), target=1, forests=60)
    >>> table["certified"].tolist()
    [True, False]
    """
    if joint and tests != 1:
        raise ValueError(f"joint sets the number of tests, but tests is {tests}; leave one out")
    tested = points if schema is None else encoded_points(points, schema, model)
    tests = max(len(tested), 1) if joint else tests
    _check(alpha, delta, forests, tests)
    chosen = Scenario.parse(scenario)
    rows, labels, first = _all_rows(*training, later, chosen)
    wanted = _targets(target, len(tested))
    agree = np.zeros(len(tested), dtype=np.int64)
    alike = Alike(_take(rows, first[:PROBES]))
    for k in range(forests):
        own_seed = derive_seed(seed, "certify", scenario, k)
        refitted = reseeded(model, own_seed, chosen)
        chosen_rows = training_rows(chosen, first, labels, own_seed)
        refitted.fit(_take(rows, chosen_rows), labels[chosen_rows])
        if k < COMPARED:
            alike.add(refitted)
            alike.refuse_if_all_equal(min(forests, COMPARED), scenario)
        agree += _decisions(model, refitted, tested, voting) == wanted
        if progress is not None:
            progress(k + 1)
    each = delta / tests
    bounds = [lower_bound(int(a), forests, each) for a in agree]
    certified = [bound >= 1 - alpha for bound in bounds]
    n_trees = (chosen.n_trees or len(model)) if isinstance(model, Forest) else None
    text = claim(alpha, each, scenario, n_trees, tests=tests)
    return pd.DataFrame(
        {
            "certified": certified,
            "agree": agree,
            "forests": forests,
            "lower_bound": bounds,
            "level": np.nan,  # nobody asked for a score
            "alpha": alpha,
            "delta": each,
            "scenario": scenario,
            "claim": [text if held else "" for held in certified],
        }
    )


def encoded_points(points: pd.DataFrame | Iterable[Row], schema: Schema, model: Any) -> np.ndarray:
    """Return points in original units as the model sees them; name the first that cannot be read."""
    listed = points if isinstance(points, pd.DataFrame) else list(points)
    if not isinstance(listed, pd.DataFrame):
        for k, point in enumerate(listed):
            if point is None:
                raise ValueError(f"point {k} is None: its customer has no point; leave it out")
    missing = isinstance(model, Forest) and model.accepts_missing
    read = read_rows(schema, listed, missing=missing)
    for k, reason in enumerate(read.reasons):
        if reason is not None:
            raise ValueError(f"point {k}: {reason}")
    return encode(schema, read.numbers)


def _decisions(model: Any, refitted: Any, points: Any, voting: Voting) -> np.ndarray:
    """Return what a refitted model decides on each point; a forest keeps its cut-off and voting."""
    if not isinstance(model, Forest):
        return np.asarray(refitted.predict(points))
    if model.decision is None and voting == "soft":
        return np.asarray(refitted.predict(points))
    again = Forest.from_sklearn(refitted)
    if model.decision is not None:
        again = again.with_decision(model.decision)
    return np.asarray(np.array(again.classes, dtype=object)[again.predict(np.asarray(points), voting)])


def _check(alpha: float, delta: float, forests: int, tests: int) -> None:
    for name, value in (("alpha", alpha), ("delta", delta)):
        if not 0 < value < 1:
            raise ValueError(f"{name} is {value}; it must lie strictly between 0 and 1")
    if tests < 1:
        raise ValueError(f"tests is {tests}; it must be at least 1")
    if forests < (needed := forests_needed(alpha, delta / tests)):
        shared = f" shared by {tests:,} tests" if tests > 1 else ""
        more = f"; {enough_forests(alpha, delta / tests)}" if tests > 1 else ""
        raise ValueError(
            f"forests is {forests}; at alpha = {alpha:g} and delta = {delta:g}{shared}, at least "
            f"{needed} are needed{more}"
        )


def _all_rows(
    X: Any, y: Any, later: tuple[Any, Any] | None, scenario: Scenario
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return all rows and labels, and the positions of the first training rows."""
    labels = np.asarray(y)
    if len(X) != len(labels):
        raise ValueError(f"{len(X)} training rows but {len(labels)} labels")
    first = np.arange(len(labels))
    if scenario.rows != "all":
        return X, labels, first
    if later is None:
        raise ValueError(f"scenario {scenario.name!r} needs the rows collected since; pass later=(X, y)")
    more = pd.concat([X, later[0]]) if isinstance(X, pd.DataFrame) else np.vstack([X, later[0]])
    return more, np.concatenate([labels, np.asarray(later[1])]), first


def _targets(targets: Label | Sequence[Label], n: int) -> Any:
    if isinstance(targets, str | int | float | bool):
        return targets
    if len(targets) != n:
        raise ValueError(f"{n} points but {len(targets)} targets")
    return np.asarray(targets)


def _take(rows: Any, positions: np.ndarray) -> Any:
    return rows.iloc[positions] if isinstance(rows, pd.DataFrame) else np.asarray(rows)[positions]


def reseeded(model: Any, seed: int, scenario: Scenario) -> Any:
    """Return an unfitted copy of a model with other seeds.

    Raises
    ------
    ValueError
        If the model has no `random_state` to set, or no number of trees to change.
    """
    if isinstance(model, Forest):
        return build_estimator(model.estimator, seed, scenario.n_trees)
    copy = clone(model)
    parameters = copy.get_params(deep=True)
    seeds = sorted(name for name in parameters if name.split("__")[-1] == "random_state")
    if not seeds and scenario.rows != "bootstrap":
        raise ValueError(
            f"{type(model).__name__} has no random_state, so refitting it on the same rows changes nothing; "
            "choose scenario 'bootstrap'"
        )
    copy.set_params(**{name: derive_seed(seed, name) for name in seeds})
    if scenario.n_trees is not None:
        sizes = [name for name in parameters if name.split("__")[-1] == "n_estimators"]
        if len(sizes) != 1:
            raise ValueError(f"scenario {scenario.name!r}: {type(model).__name__} has no single n_estimators")
        copy.set_params(**{sizes[0]: scenario.n_trees})
    return copy


class Alike:
    """Detects models that a refit does not change; a certificate of such models is vacuous."""

    def __init__(self, probes: Any) -> None:
        self.probes = probes
        self.seen: list[np.ndarray] = []

    def add(self, model: Any) -> None:
        predicted = model.predict_proba if hasattr(model, "predict_proba") else model.predict
        self.seen.append(np.asarray(predicted(self.probes)))

    def refuse_if_all_equal(self, enough: int, scenario: str) -> None:
        if len(self.seen) == enough > 1 and all(np.array_equal(self.seen[0], s) for s in self.seen):
            raise ForestError(
                f"{enough} refitted models predict the same for every training row, so a certificate for "
                f"scenario {scenario!r} would say nothing; choose scenario 'bootstrap'"
            )
