"""RobX as a method: a heuristic search for stable points."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from robustcf.methods.base import Method, Setting
from robustcf.thresholds import MAJORITY, Cutoff, as_cutoff

if TYPE_CHECKING:
    from robustcf.methods.family import Family


@dataclass(frozen=True)
class RobX(Method):
    """The naive explanation, moved towards stable training rows until it is stable.

    This is a heuristic (Dutta et al. 2022) and proves nothing. `robx/family.py` describes how it handles
    features that are not continuous, and what it returns if nothing stable is found.

    Parameters
    ----------
    tau : float
        Required stability, in [0, 1].
    k, sigma : int, float
        Number and standard deviation of the perturbations that measure stability.
    neighbours : int
        Number of stable training rows to try.
    step : float
        Share of the way from the naive explanation to a stable row, per step.
    on : {"class", "score"}
        Whether stability is measured on the predicted class, as in the paper's experiments, or on
        the score.

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
    label = "RobX"
    symbol = "τ"
    needs_training = True
    proves = False
    keepable = False
    alpha = None
    beta = None

    def __post_init__(self) -> None:
        if not 0 <= self.tau <= 1:
            raise ValueError(f"tau is {self.tau}; it must lie in [0, 1]")
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

    def threshold(self, n_trees: int, cutoff: float | Cutoff = MAJORITY) -> float:
        return as_cutoff(cutoff).least

    def family(self, setting: Setting) -> Family[Any]:
        from robustcf.methods.robx.family import Stability

        return Stability(setting.thresholds(), setting.rows, setting.seed)

    def family_key(self) -> Hashable:
        return self.name
