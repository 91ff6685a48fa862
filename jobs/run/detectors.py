"""The isolation forests in a run folder; `robustcf verify` uses them again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from robustcf import Forest
from robustcf.methods.isolation.method import IsolationForest

from .folder import RunFolder
from .question import Question


def detector_name(unit: str, contamination: float | str, n_trees: int, target: int) -> str:
    """Return the file name of one isolation forest.

    `unit` is the name of a sweep's unit, empty in an audit. `target` is the position of a class.

    >>> detector_name("", 0.1, 50, 1)
    'detectors/contamination-0.1-trees-50-class-1.npz'
    """
    prefix = f"{unit}-" if unit else ""
    return f"detectors/{prefix}contamination-{contamination}-trees-{n_trees}-class-{target}.npz"


def store_detectors(
    run: RunFolder, question: Question, forest: Forest, X: np.ndarray, y: np.ndarray, unit: str = ""
) -> dict[str, str]:
    """Fit and publish the methods' isolation forests; return their files' SHA-256."""
    stored: dict[str, str] = {}
    for contamination, n_trees in _isolation_settings(question):
        from robustcf.methods.isolation.family import fit_model
        from robustcf.methods.isolation.files import pack_isolation

        for position, label in enumerate(forest.classes):
            if question.target is None or label == question.target:
                model = fit_model(X[y == label], contamination, n_trees, question.seed)
                name = detector_name(unit, contamination, n_trees, position)
                stored[name] = run.publish(name, pack_isolation(model)).digest
    return stored


def _isolation_settings(question: Question) -> Iterator[tuple[float | str, int]]:
    yield from dict.fromkeys(
        (m.contamination, m.n_trees) for m in question.methods if isinstance(m, IsolationForest)
    )


def uses_isolation(question: Question) -> bool:
    return any(True for _ in _isolation_settings(question))


def store_from(run: RunFolder, question: Question, forest: Forest, training: Any) -> dict[str, str]:
    """Fit and publish the isolation forests of an audit.

    This runs as a task, so that the training rows never pass through the driver.
    """
    return store_detectors(run, question, forest, training.X[training.first], training.y[training.first])
