"""RobX as a method: a heuristic search for stable points."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from robustcf.methods.base import Method, Setting

if TYPE_CHECKING:
    from robustcf.methods.family import Family


@dataclass(frozen=True)
class RobX(Method):
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
    label = "RobX"
    symbol = "τ"
    needs_training = True
    proves = False
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

    def family(self, setting: Setting) -> Family[Any]:
        from robustcf.methods.robx.family import Stability

        return Stability(setting.thresholds(), setting.rows, setting.seed)

    def family_key(self) -> Hashable:
        return self.name
