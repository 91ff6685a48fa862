"""Open models that wrap a forest: searches, thresholds, calibration and votes of forests.

A wrapper changes the decision, not the trees. Its decision becomes a cut-off of the forest's own score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline

from robustcf.forest.arrays import ForestError
from robustcf.forest.boosted.read import is_boosted
from robustcf.forest.decision import Decision
from robustcf.forest.forest import Forest
from robustcf.forest.join import join_forests
from robustcf.schema.feature import native
from robustcf.thresholds import Cutoff

Calibration = Callable[[np.ndarray], np.ndarray]  # the second class's score before and after


@dataclass(frozen=True)
class Opened:
    """The parts of a model: its steps before the forest, the forest's own model, and the decision.

    `threshold` is the wrapper's label and cut-off; `calibration` maps the score that it is compared with.
    """

    steps: tuple[tuple[str, Any], ...]
    final: Any
    threshold: tuple[Any, float] | None = None
    calibration: Calibration | None = None
    classes: tuple[Any, ...] | None = None  # the wrapper's labels, if it trained the forest on numbers

    @property
    def scorer(self) -> Any:
        """The model whose `predict_proba` gives the forest's own scores of raw rows."""
        return Pipeline([*self.steps, ("forest", self.final)]) if self.steps else self.final


def opened(model: Any) -> Opened:
    """Take the wrappers off a fitted model.

    Raises
    ------
    ForestError
        If a wrapper's decision is not a cut-off of one forest's score.
    """
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, Pipeline):
        inner = opened(model.steps[-1][1])
        return replace(inner, steps=(*model.steps[:-1], *inner.steps))
    if isinstance(model, FixedThresholdClassifier | TunedThresholdClassifierCV):
        inner = opened(_fitted(model, "estimator_"))
        if inner.threshold is not None:
            raise ForestError(f"a {type(model).__name__} around another threshold is not supported")
        return replace(inner, threshold=_threshold(model))
    if isinstance(model, CalibratedClassifierCV):
        return _calibrated(model)
    encoder = getattr(model, "_preprocessor", None)  # HistGradientBoostingClassifier encodes its categories
    if encoder is not None and is_boosted(model):
        return Opened((("categories", encoder),), model)
    return Opened((), model)


def forest_of(parts: Opened) -> Forest:
    """Return the forest with the decision of its wrappers."""
    forest = _voting(parts.final) if isinstance(parts.final, VotingClassifier) else None
    forest = Forest.from_sklearn(parts.final) if forest is None else forest
    if parts.classes is not None and parts.classes != forest.classes:
        forest = _renamed(forest, parts.classes)
    if parts.threshold is None and parts.calibration is None:
        return forest
    if len(forest.classes) != 2:
        raise ForestError(f"the model has {len(forest.classes)} classes; a wrapped model needs two")
    if parts.calibration is None:
        assert parts.threshold is not None
        label, score = parts.threshold
        return forest.with_decision(Decision(forest.classes[forest.class_index(label)], Cutoff(score, False)))
    cut = least_score(_rule(forest, parts.calibration, parts.threshold))
    return forest.with_decision(Decision(forest.classes[1], Cutoff(cut, strict=False)))


def _rule(
    forest: Forest, calibration: Calibration, threshold: tuple[Any, float] | None
) -> Callable[[float], bool]:
    """Return whether the model decides for the second class, as a function of the forest's score."""

    def decides(s: float) -> bool:
        p = min(float(calibration(np.array([s]))[0]), 1.0)
        if threshold is None:  # the higher probability wins, and the first class on a tie
            return p > 1.0 - p
        label, score = threshold
        return p >= score if forest.class_index(label) == 1 else not 1.0 - p >= score

    return decides


def least_score(decides: Callable[[float], bool]) -> float:
    """Return the least score in (0, 1) at which a rising decision is taken.

    >>> least_score(lambda s: s * s >= 0.25)
    0.5
    """
    low, high = 0.0, 1.0
    if decides(low) or not decides(high):
        raise ForestError("the model decides for the same class at every score; there is nothing to explain")
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high


def _fitted(model: Any, name: str) -> Any:
    if not hasattr(model, name):
        raise ForestError(f"the {type(model).__name__} is not fitted; call fit first")
    return getattr(model, name)


def _threshold(model: Any) -> tuple[Any, float]:
    """Return the label that a threshold decides for, and the threshold."""
    if isinstance(model, TunedThresholdClassifierCV):
        label, score = model._curve_scorer._get_pos_label(), float(model.best_threshold_)
    else:
        label, score = model.pos_label, 0.5 if model.threshold == "auto" else float(model.threshold)
    label = model.classes_[1] if label is None else label
    if not 0 < score < 1:
        raise ForestError(
            f"the threshold of the {type(model).__name__} is {score:g}; outside (0, 1) it decides for the "
            "same class at every score"
        )
    return native(label), score


def _calibrated(model: CalibratedClassifierCV) -> Opened:
    """Return the parts of a calibrated model whose calibration is one rising function."""
    parts = _fitted(model, "calibrated_classifiers_")
    if len(parts) != 1:
        raise ForestError(
            f"a CalibratedClassifierCV with ensemble=True averages {len(parts)} forests after it calibrates "
            "each, so its decision is no cut-off of one score; fit it with ensemble=False"
        )
    if len(model.classes_) != 2:
        raise ForestError(f"a calibrated model with {len(model.classes_)} classes is not supported, only two")
    part, inner = parts[0], opened(parts[0].estimator)
    if is_boosted(inner.final):
        raise ForestError(
            f"a CalibratedClassifierCV around a {type(inner.final).__name__} is not supported; explain the "
            "boosted model itself, with the cut-off that you use"
        )
    if inner.threshold is not None or inner.calibration is not None:
        raise ForestError("a calibrated model around another wrapper is not supported")
    one = part.calibrators[0]
    if part.method == "sigmoid":
        rises, function = one.a_ < 0, one.predict
    elif part.method == "isotonic":
        rises, function = bool(one.increasing_), one.predict
    elif part.method == "temperature":
        rises = one.beta_ > 0

        def function(s: np.ndarray) -> np.ndarray:
            both: np.ndarray = one.predict(np.stack([1 - s, s], axis=1))
            return both[:, 1]
    else:
        raise ForestError(f"calibration by {part.method!r} is not supported")
    if not rises:
        raise ForestError("the calibration falls where the forest's score rises; it cannot be explained")
    return replace(inner, calibration=function, classes=tuple(native(c) for c in model.classes_))


def _voting(model: VotingClassifier) -> Forest:
    """Return the trees of several forests as one forest."""
    members = [opened(member) for member in _fitted(model, "estimators_")]
    weights = model._weights_not_none or [1.0] * len(members)
    if model.voting != "soft":
        raise ForestError("a VotingClassifier with voting='hard' is not supported; use voting='soft'")
    if any(m.steps or m.threshold or m.calibration for m in members):
        raise ForestError(
            "a VotingClassifier of pipelines or wrapped models is not supported, only of forests"
        )
    if any(is_boosted(m.final) for m in members):
        raise ForestError("a VotingClassifier of boosted models is not supported, only of forests")
    forests = [Forest.from_sklearn(m.final) for m in members]
    shares = {round(w / len(f), 12) for w, f in zip(weights, forests, strict=True)}
    if len(shares) > 1:
        raise ForestError(
            "a VotingClassifier is supported if all its trees count the same: give forests of equal size the "
            "same weight"
        )
    return _renamed(join_forests(forests), tuple(native(c) for c in model.classes_))


def _renamed(forest: Forest, classes: tuple[Any, ...]) -> Forest:
    """Return a forest with the labels of its wrapper, which trained it on their positions."""
    if len(classes) != len(forest.classes):
        raise ForestError(f"the wrapper has {len(classes)} classes, but its forest {len(forest.classes)}")
    return replace(forest, classes=classes)
