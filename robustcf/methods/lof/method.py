"""The local outlier factor as a method: a penalty on points far from training rows."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robustcf.methods.base import Method, Setting, check_threshold_method
from robustcf.methods.thresholds import Naive

if TYPE_CHECKING:
    from robustcf.methods.family import Family


@dataclass(frozen=True)
class LocalOutlierFactor(Method):
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
    label = "Local outlier factor"
    symbol = "λ"
    needs_training = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"weight is {self.weight}; it must be a number of at least 0")
        if self.neighbours < 1:
            raise ValueError(f"neighbours is {self.neighbours}; at least one is needed")
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

    def threshold(self, n_trees: int) -> float:
        return self.method.threshold(n_trees)

    def family(self, setting: Setting) -> Family[Any]:
        from robustcf.methods.lof.family import Outlier

        return Outlier(setting.thresholds(), setting.rows)

    def family_key(self) -> Hashable:
        return self.name
