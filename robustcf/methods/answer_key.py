"""The key of an answer: one digest of everything that determines it.

Two answers to the same customer row answer the same question if and only if their keys are equal. An earlier
answer may be copied, and a stopped run may be resumed, only where the keys agree.

Time limits are not part of the key, because a proof does not depend on the time it took. The other methods of
the run are not part of it either. They only affect which of several equally near points is returned.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from robustcf.forest.forest import Label
from robustcf.methods.base import Method

OWN_SOLVERS = ("auto", "engine", "oracle")  # these use no random numbers
VERSIONS = ("robustcf", "numpy", "scikit-learn")  # an upgrade may fix a wrong proof or change a detector


def answer_key(
    method: Method,
    *,
    forest: str,
    schema: str,
    target: Label | None,
    voting: str,
    solver: str,
    seed: int,
    training: str | None,
    versions: Mapping[str, str],
    alternatives: int = 1,
    levers: Sequence[tuple[str, Sequence[str]]] = (),
) -> str:
    """Return the SHA-256 of everything that determines a method's answers.

    Parameters
    ----------
    method : Method
        Every field counts, also those of a nested method.
    forest, schema : str
        Fingerprints.
    target : label
        The target class; None means the class that the row does not have.
    voting, solver : str
        As given to `Explainer`.
    seed : int
        Counts only if the method or its solver draws random numbers.
    training : str, optional
        `training_digest` of the explained forest's training rows. Counts only for methods that use them.
    versions : mapping
        Version of each package in `VERSIONS`.
    alternatives : int
        Number of answers. Counts only if the method has alternatives, and so do the levers.
    levers : sequence of (name, features)
        Groups of features that count as one.

    Examples
    --------
    >>> from robustcf.methods import DirectSAA, Naive
    >>> facts = dict(forest="f", schema="s", target=1, voting="soft", solver="auto", training=None)
    >>> versions = {"robustcf": "0.2.0"}
    >>> one = answer_key(DirectSAA(0.1), seed=0, versions=versions, **facts)
    >>> one == answer_key(DirectSAA(0.1), seed=5, versions=versions, **facts)
    True
    >>> one == answer_key(Naive(), seed=0, versions=versions, **facts)
    False
    """
    looks_at_rows = method.needs_training
    draws = looks_at_rows or solver not in OWN_SOLVERS
    determines: dict[str, Any] = {
        "method": method_value(method),
        "forest": forest,
        "schema": schema,
        "target": [type(target).__name__, str(target)],
        "voting": voting,
        "solver": solver,
        "seed": seed if draws else None,
        "training": training if looks_at_rows else None,
        "versions": {name: versions.get(name) for name in VERSIONS},
    }
    if alternatives > 1 and method.has_alternatives:  # otherwise the key is that of older versions
        determines["alternatives"] = [alternatives, [[name, list(features)] for name, features in levers]]
    return hashlib.sha256(json.dumps(determines, sort_keys=True).encode()).hexdigest()


def method_value(method: Any) -> Any:
    """Return a method with all its fields as a JSON value.

    Fields that only decide another field do not count.

    >>> from robustcf.methods import IsolationForest
    >>> method_value(IsolationForest(0.1))["method"]
    {'class': 'Naive', 'name': 'naive'}
    """
    if not is_dataclass(method):
        return method
    named = {"class": type(method).__name__, "name": getattr(method, "name", None)}
    counted = [f.name for f in fields(method) if "decides" not in f.metadata]
    return named | {field: method_value(getattr(method, field)) for field in counted}


def training_digest(X: np.ndarray, y: np.ndarray) -> str:
    """Return the SHA-256 of encoded rows and their labels, in the given order.

    >>> X, y = np.zeros((2, 1)), np.array(["a", "b"])
    >>> training_digest(X, y) == training_digest(X, y[::-1])
    False
    """
    digest = hashlib.sha256(f"{X.shape}".encode())
    digest.update(np.ascontiguousarray(X, dtype="<f8").tobytes())
    digest.update(json.dumps([[type(v).__name__, str(v)] for v in y.tolist()]).encode())
    return digest.hexdigest()
