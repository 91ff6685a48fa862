"""What each method demands of an explanation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from robustcf.thresholds import p_star, robust_threshold


class Method(Protocol):
    """A demand on the forest's score for the target class."""

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
    """Score of at least 1/2: flips the forest that is explained, and promises nothing else.

    >>> Naive().threshold(100)
    0.5
    """

    name = "naive"
    alpha = None
    beta = None

    def threshold(self, n_trees: int) -> float:
        return 0.5


@dataclass(frozen=True)
class DirectSAA:
    """Score of at least p*(N, α) (eq. 6): valid for a retrained forest with probability 1 - α.

    >>> round(DirectSAA(alpha=0.05).threshold(100), 3)
    0.586
    """

    alpha: float
    name = "direct-saa"
    beta = None

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)

    def threshold(self, n_trees: int) -> float:
        return p_star(n_trees, self.alpha)


@dataclass(frozen=True)
class RobustSAA:
    """Direct-SAA with a confidence margin around p* (eq. 7), for difficult data.

    >>> round(RobustSAA(alpha=0.05, beta=0.1).threshold(100), 3)
    0.667
    """

    alpha: float
    beta: float
    variant: str = "agresti-coull"
    name = "robust-saa"

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)
        robust_threshold(100, self.alpha, self.beta, self.variant)  # type: ignore[arg-type]

    def threshold(self, n_trees: int) -> float:
        return robust_threshold(n_trees, self.alpha, self.beta, self.variant)  # type: ignore[arg-type]


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha <= 0.5:
        raise ValueError(f"alpha is {alpha}; it must lie in (0, 1/2]")
