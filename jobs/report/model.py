"""What a report says about the model of its run: how it decides, and how its trees were grown."""

from __future__ import annotations

from typing import Any

from robustcf.forest.sklearn import fully_grown
from robustcf.support.documents import parse_json

from ..inputs.errors import BadInput
from ..run.folder import RunFolder


def _head(run: RunFolder) -> Any:
    """Return what is stored of the run's forest besides its trees; None for a sweep."""
    if not run.exists("forest/forest.json"):
        return None
    try:
        return parse_json(run.read("forest/forest.json").decode())
    except ValueError:
        raise BadInput(f"{run.showing('forest/forest.json')}: does not describe a forest") from None


def is_fully_grown(run: RunFolder) -> bool:
    """Whether no parameter limits the growth of the forest's trees, as in scikit-learn's default forest."""
    head = _head(run)
    estimator = head.get("estimator") if isinstance(head, dict) else None
    return isinstance(estimator, dict) and fully_grown(estimator)


def decision_of(run: RunFolder) -> str | None:
    """Return how the run's forest decides, as a sentence; None for the majority of two classes.

    A sweep stores no forest. It has two classes and no cut-off.
    """
    head = _head(run)
    if head is None:
        return None
    try:
        classes, stored = head["classes"], head.get("decision")
        if stored is None and len(classes) > 2:
            return (
                f"The model decides for the one of {len(classes)} classes with the highest score (plurality)."
            )
        if stored is None:
            return None
        label, words = classes[stored["class"]][1], "more than" if stored["strict"] else "at least"
        rule = " (one against rest)" if len(classes) > 2 else ""
        return f"The model decides for {label} at a score of {words} {stored['cutoff']:g}{rule}."
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise BadInput(f"{run.showing('forest/forest.json')}: does not describe a forest") from None
