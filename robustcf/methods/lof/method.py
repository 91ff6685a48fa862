"""The local outlier factor as a method: a penalty on distant points."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robustcf.methods.base import Method, Setting, check_threshold_method
from robustcf.methods.thresholds import Naive
from robustcf.thresholds import MAJORITY, Cutoff

if TYPE_CHECKING:
    from robustcf.methods.family import Family


@dataclass(frozen=True)
class LocalOutlierFactor(Method):
    """The score of `method` at the least distance plus `weight` times the 1-LOF.

    The penalty is λ · lrd(xᵢ) · max(Δ(xᵢ), f(x, xᵢ)). Here xᵢ is the row nearest to x among the customer's
    `neighbours` nearest training rows that the forest predicts as the target (see `neighbours.py`).

    Parameters
    ----------
    weight : float
        λ, at least 0.
    method : Naive, DirectSAA or RobustSAA
        Sets the threshold.
    neighbours : int
        Number of training rows to consider.
    gap : float
        Relative gap at which the search stops with the status `feasible`; 0 proves the optimum.
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
    label = "Local outlier factor"
    symbol = "λ"
    needs_training = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"weight is {self.weight}; it must be a finite number of at least 0")
        if self.neighbours < 1:
            raise ValueError(f"neighbours is {self.neighbours}; it must be at least 1")
        if not 0 <= self.gap < 1:
            raise ValueError(f"gap is {self.gap}; it must lie in [0, 1)")
        check_threshold_method(self.method)

    @property
    def alpha(self) -> float | None:
        return self.method.alpha

    @property
    def beta(self) -> float | None:
        return self.method.beta

    @property
    def parameter(self) -> float:
        return self.weight

    def threshold(self, n_trees: int, cutoff: float | Cutoff = MAJORITY) -> float:
        return self.method.threshold(n_trees, cutoff)

    def family(self, setting: Setting) -> Family[Any]:
        from robustcf.methods.lof.family import Outlier

        return Outlier(setting.thresholds(), setting.rows)

    def family_key(self) -> Hashable:
        return self.name
