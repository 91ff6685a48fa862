"""Methods that demand only a score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from robustcf.forest.forest import Label, Voting
from robustcf.methods.base import Method, Setting, check_alpha
from robustcf.thresholds import MAJORITY, Cutoff, as_cutoff, p_star, robust_threshold

if TYPE_CHECKING:
    from robustcf.guarantee import Guarantee


@dataclass(frozen=True)
class Naive(Method):
    """What flips the decision (eq. 2b), without robustness.

    With a cut-off (1/2 for two classes), this is a score of at least the cut-off. With three or more classes,
    the default is what `predict` does: the target's score must be above that of every other class, which is
    possible from 1/classes on. With a cut-off of its own (`Explainer(..., decision="one-against-rest")`), one
    of several classes also needs the cut-off.

    >>> Naive().threshold(100)
    0.5
    """

    name = "naive"
    label = "Naive"
    alpha = None
    beta = None
    parameter = None

    def threshold(self, n_trees: int, cutoff: float | Cutoff = MAJORITY) -> float:
        return as_cutoff(cutoff).least


@dataclass(frozen=True)
class Margin(Method):
    """Score of at least a number that you choose, and what flips the decision.

    Nothing is promised about retrained models. It is for models whose trees are not trained independently
    (boosting), and for a margin of your own.

    >>> Margin(0.7).threshold(100), Margin(0.7).threshold(100, 0.8)
    (0.7, 0.8)
    """

    score: float
    name = "margin"
    label = "Margin"
    symbol = "score"
    alpha = None
    beta = None

    def __post_init__(self) -> None:
        if not 0 < self.score <= 1:
            raise ValueError(f"score is {self.score}; it must lie in (0, 1]")

    @property
    def parameter(self) -> float:
        return self.score

    def threshold(self, n_trees: int, cutoff: float | Cutoff = MAJORITY) -> float:
        return max(self.score, as_cutoff(cutoff).least)


@dataclass(frozen=True)
class DirectSAA(Method):
    """Score of at least p*(N, α, c) (eq. 7), where c is the cut-off.

    If single trees vote for the target with probability p*, a retrained forest reaches the cut-off with
    probability 1 - α (Prop. 1).

    >>> round(DirectSAA(alpha=0.05).threshold(100), 3), round(DirectSAA(alpha=0.05).threshold(100, 0.7), 3)
    (0.586, 0.766)
    """

    alpha: float
    name = "direct-saa"
    label = "Direct-SAA"
    promises = True
    independent = True
    beta = None
    parameter = None

    def __post_init__(self) -> None:
        check_alpha(self.alpha)

    def threshold(self, n_trees: int, cutoff: float | Cutoff = MAJORITY) -> float:
        return p_star(n_trees, self.alpha, cutoff)


@dataclass(frozen=True)
class RobustSAA(Method):
    """Direct-SAA with a confidence margin above p* (eq. 8).

    >>> round(RobustSAA(alpha=0.05, beta=0.1).threshold(100), 3)
    0.667
    """

    alpha: float
    beta: float
    variant: str = "agresti-coull"
    name = "robust-saa"
    label = "Robust-SAA"
    promises = True
    independent = True
    parameter = None

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        robust_threshold(100, self.alpha, self.beta, self.variant)  # type: ignore[arg-type]

    def threshold(self, n_trees: int, cutoff: float | Cutoff = MAJORITY) -> float:
        return robust_threshold(n_trees, self.alpha, self.beta, self.variant, cutoff)  # type: ignore[arg-type]


@dataclass(frozen=True)
class ConvexApproximation(Method):
    """Every tree must agree (eq. 10): τ = 1, always on hard votes.

    Each answer has the finite-sample guarantee of Prop. 5 at `alpha` (`Counterfactual.guarantee`), with the
    number of trees that `delta` would need.

    >>> ConvexApproximation(alpha=0.05).threshold(100)
    1.0
    """

    alpha: float = 0.05
    delta: float = 0.05
    name = "convex-approximation"
    label = "Convex approximation"
    promises = True
    independent = True
    beta = None
    parameter = None
    voting: Voting = "hard"

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is {self.delta}; it must lie strictly between 0 and 1")
        if self.voting != "hard":
            raise ValueError(
                f"voting is {self.voting!r}; the convex approximation needs 'hard', "
                "because soft votes are infeasible nearly everywhere"
            )

    def threshold(self, n_trees: int, cutoff: float | Cutoff = MAJORITY) -> float:
        return 1.0

    def guarantee(self, setting: Setting, numbers: np.ndarray, target: Label) -> Guarantee:
        from robustcf.guarantee import guarantee_of

        return guarantee_of(
            setting.forest, setting.schema, numbers, self.alpha, self.delta, setting.forest.cutoff(target)
        )
