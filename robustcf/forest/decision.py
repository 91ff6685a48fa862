"""The decision that scores lead to: the class with the highest score, or a cut-off of one class's score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np

from robustcf.thresholds import Cutoff

Voting = Literal["soft", "hard"]
Label = str | int | float | bool
Rule = Literal["plurality", "one-against-rest"]  # how one of several classes wins
RULES: tuple[str, ...] = get_args(Rule)


def rule_of(name: str | None) -> Rule | None:
    """Return a name from a file or the command line as a rule; another name raises a ValueError."""
    if name is None or name in RULES:
        return cast("Rule | None", name)
    raise ValueError(f"decision is {name!r}; choose among {', '.join(RULES)}")


@dataclass(frozen=True)
class Decision:
    """The model decides for `label` where the label's score reaches the cut-off.

    Elsewhere it decides for the other class (of several others, for that with the highest score).

    >>> from robustcf.thresholds import as_cutoff
    >>> repaid = Decision("repaid", as_cutoff(0.7))
    >>> repaid.for_class("repaid", 2), repaid.for_class("default", 2)
    (Cutoff(score=0.7, strict=False, classes=2), Cutoff(score=0.3, strict=True, classes=2))
    """

    label: Label
    cutoff: Cutoff

    def for_class(self, target: Label, n_classes: int) -> Cutoff:
        """Return the score at which the model decides for a class."""
        if target == self.label:
            return self.cutoff
        if n_classes == 2:
            return self.cutoff.opposite
        raise ValueError(
            f"the cut-off is that of class {self.label!r}; with {n_classes} classes it says nothing about "
            f"{target!r}"
        )


def winners(
    scores: np.ndarray, voting: Voting, n_trees: int, own: int = 0, cutoff: Cutoff | None = None
) -> np.ndarray:
    """Return the position of the class that each row's scores decide for.

    Parameters
    ----------
    scores : ndarray of shape (rows, classes)
    voting : {"soft", "hard"}
        Hard scores are shares of `n_trees` votes, which are counted as integers.
    own, cutoff
        Position of the class that has a cut-off, and the cut-off. Without one the highest score wins, and
        the first class on a tie.
    """
    if cutoff is None:
        highest: np.ndarray = scores.argmax(axis=1)
        return highest
    mine = scores[:, own]
    if voting == "hard":
        reaches = np.rint(mine * n_trees) >= cutoff.votes(n_trees)
    else:
        reaches = mine > cutoff.score if cutoff.strict else mine >= cutoff.score
    rest = scores.copy()
    rest[:, own] = -np.inf
    return np.where(reaches, own, rest.argmax(axis=1))
