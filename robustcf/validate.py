"""Retrain forests, and measure whether points stay valid under them.

Points may come from any tool: `validity` takes encoded rows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from joblib import parallel_config
from sklearn.base import BaseEstimator

from robustcf.forest.arrays import ForestError
from robustcf.forest.boosted.read import FURTHER, LIBRARY_CLASSES, estimator_class, refits_identically
from robustcf.forest.forest import Forest, Label, Voting
from robustcf.forest.sklearn import SUPPORTED

SCENARIOS = ("same-data", "evolving", "bootstrap", "trees-N")
_CLASSES = {c.__name__: c for c in SUPPORTED}
_PLAIN = ("missing", "callbacks")  # of XGBoost: NaN, which JSON cannot hold, and what no model depends on
_CHUNK = 16_384  # rows scored at a time, to limit memory
_MOST_DRAWS = 1000


def derive_seed(run_seed: int, *keys: str | int) -> int:
    """Return a 32-bit seed that depends only on the run's seed and the keys.

    >>> derive_seed(0, "forest", 3), derive_seed(0, "forest", 4)
    (3171750324, 119403028)
    """
    text = json.dumps([run_seed, *keys], separators=(",", ":"), ensure_ascii=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


@dataclass(frozen=True)
class Scenario:
    """How a forest is retrained.

    Attributes
    ----------
    name : str
        `same-data` (only the seed differs), `evolving` (later rows are added), `bootstrap` (a resample of
        the first rows), or `trees-N` (same data, N trees).
    rows : {"first", "all", "bootstrap"}
        The training rows.
    n_trees : int, optional
        Number of trees, if it differs from the explained forest's.

    Examples
    --------
    >>> Scenario.parse("trees-400")
    Scenario(name='trees-400', rows='first', n_trees=400)
    """

    name: str
    rows: Literal["first", "all", "bootstrap"]
    n_trees: int | None = None

    @classmethod
    def parse(cls, name: str) -> Scenario:
        """Return the scenario with this name; an unknown name raises a ValueError."""
        if name in ("same-data", "evolving", "bootstrap"):
            rows: dict[str, Literal["first", "all", "bootstrap"]] = {
                "same-data": "first",
                "evolving": "all",
                "bootstrap": "bootstrap",
            }
            return cls(name, rows[name])
        if re.fullmatch(r"trees-[1-9][0-9]{0,5}", name):
            return cls(name, "first", int(name.removeprefix("trees-")))
        raise ValueError(f"unknown scenario {name!r}; choose among {', '.join(SCENARIOS)}")


def first_rows(n: int, share: float, seed: int) -> np.ndarray:
    """Return the first forest's training rows: a random share of all, in order.

    >>> first_rows(10, 0.8, seed=1).tolist()
    [0, 1, 2, 3, 5, 7, 8, 9]
    """
    if not 0 < share <= 1:
        raise ValueError(f"the share of first rows is {share}; it must lie in (0, 1]")
    size = min(n, max(1, round(share * n)))
    return np.sort(np.random.default_rng(seed).choice(n, size, replace=False))


def training_rows(scenario: Scenario, first: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Return the positions of the rows that a retrained forest is trained on.

    Parameters
    ----------
    scenario : Scenario
    first : ndarray of int
        Rows that the explained forest was trained on.
    y : ndarray
        Labels of all rows, including later ones.
    seed : int
        Seed of the resampling. A resample that lacks a class is drawn again.
    """
    if scenario.rows == "first":
        return first
    if scenario.rows == "all":
        return np.arange(len(y))
    rng = np.random.default_rng(seed)
    wanted = len(np.unique(y[first]))
    for _ in range(_MOST_DRAWS):
        drawn = np.sort(rng.choice(first, len(first), replace=True))
        if len(np.unique(y[drawn])) == wanted:
            return drawn
    raise ForestError(f"{_MOST_DRAWS} bootstraps of the training rows each lack a class; a class is too rare")


def build_estimator(
    metadata: Mapping[str, Any], seed: int, n_trees: int | None = None, threads: int = 1
) -> BaseEstimator:
    """Return an unfitted estimator with the class and parameters of a forest.

    Parameters
    ----------
    metadata : mapping
        `Forest.estimator`.
    seed : int
        The estimator's `random_state`.
    n_trees : int, optional
        Another number of trees.
    threads : int
        The estimator's `n_jobs`, if it has this parameter. The trees do not depend on it.

    Raises
    ------
    ForestError
        If the class is unknown, or a parameter is not stored with the forest.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> forest = Forest.from_sklearn(DecisionTreeClassifier(max_depth=2).fit([[0.0], [1.0]], [0, 1]))
    >>> build_estimator(forest.estimator, seed=7)
    DecisionTreeClassifier(max_depth=2, random_state=7)
    """
    estimator = _construct(metadata)
    known = estimator.get_params(deep=False)
    changes: dict[str, Any] = {"random_state": seed}
    if "n_jobs" in known:
        changes["n_jobs"] = threads
    if known.get("warm_start"):
        changes["warm_start"] = False
    if n_trees is not None:
        size = next((name for name in ("n_estimators", "max_iter") if name in known), None)
        if size is None:
            raise ForestError(f"a {metadata['class']} is a single tree; it cannot have {n_trees} trees")
        changes[size] = n_trees
    return estimator.set_params(**changes)


def _construct(metadata: Mapping[str, Any]) -> BaseEstimator:
    name, parameters = metadata.get("class"), metadata.get("parameters")
    if name in LIBRARY_CLASSES and isinstance(parameters, Mapping):
        return _constructed(estimator_class(str(name)), str(name), parameters)
    if name not in _CLASSES or name is None or not isinstance(parameters, Mapping):
        raise ForestError(
            f"the forest cannot be retrained: its class {name!r} is unknown, or its parameters are missing"
        )
    return _constructed(_CLASSES[name], name, parameters)


def _constructed(kind: Any, name: str, parameters: Mapping[str, Any]) -> BaseEstimator:
    known = kind().get_params(deep=False)
    further = FURTHER if name in LIBRARY_CLASSES else frozenset[str]()
    for odd in sorted(parameters.keys() - known.keys() - further):
        raise ForestError(f"{odd!r} is not a parameter of {name}")
    for lost in sorted(known.keys() - parameters.keys() - {"random_state", *_PLAIN}):
        raise ForestError(f"the forest cannot be retrained: its parameter {lost!r} is not stored")
    given = {key: _parameter(key, value) for key, value in parameters.items()}
    made: BaseEstimator = kind(**given)
    return made


def _parameter(key: str, value: Any) -> Any:
    if key == "estimator" and isinstance(value, Mapping):
        return _construct(value)
    if key == "class_weight" and isinstance(value, list):
        return dict(value)
    return value


def retrain(
    forest: Forest, X: np.ndarray, y: np.ndarray, seed: int, n_trees: int | None = None, threads: int = 1
) -> Forest:
    """Train a forest of the same kind, with the same decision, on the given rows with another seed.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = np.array([[0.0], [1.0]] * 10), np.array(["no", "yes"] * 10)
    >>> forest = Forest.from_sklearn(RandomForestClassifier(5, random_state=0).fit(X, y))
    >>> again = retrain(forest, X, y, seed=1, n_trees=7)
    >>> len(again), again.classes
    (7, ('no', 'yes'))
    """
    if X.ndim != 2 or X.shape[1] != forest.n_features:
        raise ForestError(
            f"training rows have shape {X.shape}, but the forest takes {forest.n_features} columns"
        )
    model: Any = build_estimator(forest.estimator, seed, n_trees, threads)
    with parallel_config("threading"):  # otherwise a bagging would start processes
        model.fit(X, y)
    again = Forest.from_sklearn(model)
    if forest.decision is not None:
        again = again.with_decision(forest.decision)
    if again.classes != forest.classes:
        labels, known = list(again.classes), list(forest.classes)
        raise ForestError(f"the training labels are {labels}, but the forest's classes are {known}")
    return again


def check_scenario(forest: Forest, scenario: str) -> None:
    """Raise a ForestError if a scenario would train the explained model again and again."""
    if Scenario.parse(scenario).rows == "first" and refits_identically(forest.estimator):
        name = forest.estimator["class"]
        raise ForestError(
            f"scenario {scenario!r} measures nothing: a {name} with these parameters is the same model after "
            "each training on the same rows; use the scenario bootstrap or evolving, or subsample"
        )


def validity(
    forests: Sequence[Forest], points: np.ndarray, targets: Sequence[Label], voting: Voting = "soft"
) -> np.ndarray:
    """Return whether each forest predicts each point's target.

    Parameters
    ----------
    forests : sequence of Forest
    points : ndarray of shape (n, columns)
        Encoded rows, from any tool.
    targets : sequence of n labels
    voting : {"soft", "hard"}

    Returns
    -------
    ndarray of bool, shape (n, len(forests))
    """
    valid = np.empty((len(points), len(forests)), dtype=bool)
    for k, forest in enumerate(forests):
        place = {target: forest.class_index(target) for target in set(targets)}
        wanted = np.array([place[target] for target in targets], dtype=np.int64)
        for part in _chunks(len(points)):
            valid[part, k] = forest.predict(points[part], voting) == wanted[part]
    return valid


def _chunks(n: int) -> Iterator[slice]:
    return (slice(start, start + _CHUNK) for start in range(0, n, _CHUNK))
