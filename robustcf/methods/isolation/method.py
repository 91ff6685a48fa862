"""The isolation forest as a method: only plausible points."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from robustcf.methods.base import Method, Setting, check_threshold_method
from robustcf.methods.thresholds import Naive
from robustcf.thresholds import MAJORITY, Cutoff

if TYPE_CHECKING:
    from robustcf.methods.family import Family


@dataclass(frozen=True)
class IsolationForest(Method):
    """The score of `method`, at a point that an isolation forest accepts.

    The isolation forest (scikit-learn's, 50 trees) is fitted on the training rows labelled with the target
    class. Its own `predict` is 1 at every point returned. If no point satisfies both conditions, the score is
    kept and plausibility is relaxed as little as possible (status `relaxed`). Points within rounding of the
    isolation forest's threshold do not count as accepted.

    Parameters
    ----------
    contamination : float in (0, 0.5] or "auto"
        Share of the training rows that count as outliers; a higher share is stricter.
    method : Naive, DirectSAA or RobustSAA
        Sets the threshold.

    Examples
    --------
    >>> from robustcf.methods import DirectSAA
    >>> IsolationForest(0.1, DirectSAA(0.05)).alpha
    0.05
    """

    contamination: float | Literal["auto"] = 0.1
    method: Method = Naive()
    n_trees: int = 50
    name = "isolation-forest"
    label = "Isolation forest"
    symbol = "contamination"
    needs_training = True

    def __post_init__(self) -> None:
        c = self.contamination
        if c != "auto" and not (isinstance(c, int | float) and 0 < c <= 0.5):
            raise ValueError(f"contamination is {c!r}; it must lie in (0, 1/2] or be 'auto'")
        if self.n_trees < 1:
            raise ValueError(f"n_trees is {self.n_trees}; an isolation forest needs at least one tree")
        check_threshold_method(self.method)

    @property
    def alpha(self) -> float | None:
        return self.method.alpha

    @property
    def beta(self) -> float | None:
        return self.method.beta

    @property
    def parameter(self) -> float | None:
        return None if self.contamination == "auto" else float(self.contamination)

    def threshold(self, n_trees: int, cutoff: float | Cutoff = MAJORITY) -> float:
        return self.method.threshold(n_trees, cutoff)

    def family(self, setting: Setting) -> Family[Any]:
        from robustcf.methods.isolation.family import Isolation

        return Isolation(setting.thresholds(), setting.rows, self.contamination, self.n_trees, setting.seed)

    def family_key(self) -> Hashable:
        return (self.name, self.contamination, self.n_trees)
