"""What each method demands of an explanation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from robustcf.forest.forest import Voting
from robustcf.thresholds import p_star, robust_threshold


class Method(Protocol):
    """A demand on the forest's score for the target class, and perhaps on the point's plausibility."""

    @property
    def name(self) -> str: ...

    @property
    def alpha(self) -> float | None: ...

    @property
    def beta(self) -> float | None: ...

    def threshold(self, n_trees: int) -> float:
        """τ(N, α): the score that the explained forest must give."""
        ...


@dataclass(frozen=True)
class Naive:
    """Score of at least 1/2 for the target class against the rest; promises nothing of a retrained forest.

    With two classes, that is what `predict` asks for. With three or more it is enough for `predict`, and more
    than it needs: the class with most votes wins, also with fewer than half. `optimal` and `no_recourse` then
    speak of the score of 1/2; a nearer point may be predicted as the target, or one where none has the score.

    >>> Naive().threshold(100)
    0.5
    """

    name = "naive"
    alpha = None
    beta = None
    parameter = None

    def threshold(self, n_trees: int) -> float:
        return 0.5


@dataclass(frozen=True)
class DirectSAA:
    """Score of at least p*(N, α) (eq. 7): valid for a retrained forest with probability 1 - α.

    >>> round(DirectSAA(alpha=0.05).threshold(100), 3)
    0.586
    """

    alpha: float
    name = "direct-saa"
    beta = None
    parameter = None

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)

    def threshold(self, n_trees: int) -> float:
        return p_star(n_trees, self.alpha)


@dataclass(frozen=True)
class RobustSAA:
    """Direct-SAA with a confidence margin around p* (eq. 8), for difficult data.

    >>> round(RobustSAA(alpha=0.05, beta=0.1).threshold(100), 3)
    0.667
    """

    alpha: float
    beta: float
    variant: str = "agresti-coull"
    name = "robust-saa"
    parameter = None

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)
        robust_threshold(100, self.alpha, self.beta, self.variant)  # type: ignore[arg-type]

    def threshold(self, n_trees: int) -> float:
        return robust_threshold(n_trees, self.alpha, self.beta, self.variant)  # type: ignore[arg-type]


@dataclass(frozen=True)
class ConvexApproximation:
    """Every tree must agree (eq. 10): τ = 1, always on hard votes, whatever the explainer's voting.

    Each answer carries the finite-sample guarantee of Prop. 5 at `alpha` (`Counterfactual.guarantee`)
    and the number of trees that the wished `delta` would need.

    >>> ConvexApproximation(alpha=0.05).threshold(100)
    1.0
    """

    alpha: float = 0.05
    delta: float = 0.05
    name = "convex-approximation"
    beta = None
    parameter = None
    voting: Voting = "hard"

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is {self.delta}; it must lie strictly between 0 and 1")
        if self.voting != "hard":
            raise ValueError(
                "the convex approximation counts hard votes; soft ones are infeasible nearly everywhere"
            )

    def threshold(self, n_trees: int) -> float:
        return 1.0


@dataclass(frozen=True)
class IsolationForest:
    """The score of `method`, at a point that an isolation forest of the target class accepts.

    The isolation forest (scikit-learn's, 50 trees) is fitted on the training rows labelled with the
    target class; its own `predict` is 1 at every point returned. Where no point has both, the score
    is kept and the plausibility relaxed as little as possible (`relaxed`). Points within rounding of
    the isolation forest's threshold do not count as accepted.

    Parameters
    ----------
    contamination : float in (0, 0.5] or "auto"
        Share of the training rows that count as outliers: the higher, the stricter.
    method : Naive, DirectSAA or RobustSAA
        Sets the threshold.

    Examples
    --------
    >>> IsolationForest(0.1, DirectSAA(0.05)).alpha
    0.05
    """

    contamination: float | Literal["auto"] = 0.1
    method: Method = Naive()
    n_trees: int = 50
    name = "isolation-forest"

    def __post_init__(self) -> None:
        c = self.contamination
        if c != "auto" and not (isinstance(c, int | float) and 0 < c <= 0.5):
            raise ValueError(f"contamination is {c!r}; it must lie in (0, 1/2] or be 'auto'")
        if self.n_trees < 1:
            raise ValueError(f"n_trees is {self.n_trees}; an isolation forest needs at least one tree")
        _check_threshold_method(self.method)

    @property
    def alpha(self) -> float | None:
        return self.method.alpha

    @property
    def beta(self) -> float | None:
        return self.method.beta

    @property
    def parameter(self) -> float | None:
        return None if self.contamination == "auto" else float(self.contamination)

    def threshold(self, n_trees: int) -> float:
        return self.method.threshold(n_trees)


@dataclass(frozen=True)
class LocalOutlierFactor:
    """The score of `method`, at least distance plus `weight` times the point's 1-LOF.

    The penalty is λ · lrd(xᵢ) · max(Δ(xᵢ), f(x, xᵢ)), where xᵢ is the nearest to x of the customer's
    ten nearest training rows among those that the forest predicts as the target (see `outlier.py`).

    Parameters
    ----------
    weight : float
        λ, at least 0.
    method : Naive, DirectSAA or RobustSAA
        Sets the threshold.
    neighbours : int
        How many training rows are considered.
    gap : float
        Relative gap at which the search stops and says `feasible`; 0 proves the optimum.
        The paper uses 0.1 on Online News for λ ≥ 0.1.

    Examples
    --------
    >>> LocalOutlierFactor(0.1).parameter
    0.1
    """

    weight: float = 0.1
    method: Method = Naive()
    neighbours: int = 10
    gap: float = 0.0
    name = "local-outlier-factor"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"weight is {self.weight}; it must be a number of at least 0")
        if self.neighbours < 1:
            raise ValueError(f"neighbours is {self.neighbours}; at least one is needed")
        if not 0 <= self.gap < 1:
            raise ValueError(f"gap is {self.gap}; it must lie in [0, 1)")
        _check_threshold_method(self.method)

    @property
    def alpha(self) -> float | None:
        return self.method.alpha

    @property
    def beta(self) -> float | None:
        return self.method.beta

    @property
    def parameter(self) -> float:
        return self.weight

    def threshold(self, n_trees: int) -> float:
        return self.method.threshold(n_trees)


@dataclass(frozen=True)
class RobX:
    """The naive explanation, moved towards stable training rows until it is stable itself.

    A heuristic (Dutta et al. 2022): nothing is proved. See `robx.py` for what it does on features
    that are not continuous, and where nothing stable is found.

    Parameters
    ----------
    tau : float
        Stability that is asked for, in [0, 1].
    k, sigma : int, float
        Number and standard deviation of the perturbations that stability is measured with.
    neighbours : int
        Stable training rows that are tried.
    step : float
        Share of the way from the naive explanation to a stable row, per step.
    on : {"class", "score"}
        What is perturbed: the predicted class, as in the paper's experiments, or the score.

    Examples
    --------
    >>> RobX(tau=0.5).threshold(100)
    0.5
    """

    tau: float = 0.5
    k: int = 1000
    sigma: float = 0.1
    neighbours: int = 10
    step: float = 0.05
    on: Literal["class", "score"] = "class"
    name = "robx"
    alpha = None
    beta = None

    def __post_init__(self) -> None:
        if not 0 <= self.tau <= 1:
            raise ValueError(f"tau is {self.tau}; a stability lies in [0, 1]")
        if self.k < 1 or self.neighbours < 1:
            raise ValueError(f"k is {self.k} and neighbours is {self.neighbours}; both must be at least 1")
        if not (math.isfinite(self.sigma) and self.sigma > 0):
            raise ValueError(f"sigma is {self.sigma}; it must be a positive number")
        if not 0 < self.step <= 1:
            raise ValueError(f"step is {self.step}; it must lie in (0, 1]")
        if self.on not in ("class", "score"):
            raise ValueError(f"on is {self.on!r}; choose 'class' or 'score'")

    @property
    def parameter(self) -> float:
        return self.tau

    def threshold(self, n_trees: int) -> float:
        return 0.5


def needs_training(method: Method) -> bool:
    """Whether a method looks at training rows.

    >>> needs_training(Naive()), needs_training(RobX())
    (False, True)
    """
    return isinstance(method, IsolationForest | LocalOutlierFactor | RobX)


def _check_threshold_method(method: Method) -> None:
    if needs_training(method) or isinstance(method, ConvexApproximation):
        raise ValueError(f"{type(method).__name__} sets no threshold; combine Naive, DirectSAA or RobustSAA")


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha <= 0.5:
        raise ValueError(f"alpha is {alpha}; it must lie in (0, 1/2]")
