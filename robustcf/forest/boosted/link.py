"""From leaf values to a score: the margin of a boosted model, and how exactly a library computes it.

A boosted model of two classes adds up one leaf value per tree and a base value. The sum is the *margin* m of
the second class, and its score is 1 / (1 + exp(-scale · m)). The first class has the margin -m. So a score
reaches a cut-off c exactly where the margin reaches logit(c) / scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robustcf.forest.arrays import ForestError
from robustcf.support.jit import compiled
from robustcf.support.tolerances import TIE_MARGIN

LARGEST = 2.0**20  # margins are summed in fixed point with 2**-40; an int64 holds sums up to 2**23


@dataclass(frozen=True)
class Boosting:
    """How a boosted model turns the sum of its leaf values into a score.

    Attributes
    ----------
    base : float
        What the sum starts from.
    scale : float
        The margin is multiplied by it before the logistic function.
    single : bool
        Whether the library adds float32 numbers (XGBoost).
    wide : bool
        Whether splits compare the row's float64 numbers instead of their float32.
    """

    base: float
    scale: float = 1.0
    single: bool = False
    wide: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.base) and math.isfinite(self.scale) and self.scale > 0):
            raise ForestError(f"a boosted model with base {self.base} and scale {self.scale} has no score")

    def margins(self, leaf_values: np.ndarray) -> np.ndarray:
        """Return each row's margin: the base and the trees' values, added in the library's order."""
        if self.single:
            values = np.ascontiguousarray(leaf_values, dtype=np.float32)
            return _added(values, np.float32(self.base)).astype(np.float64)
        return _added(np.ascontiguousarray(leaf_values), np.float64(self.base))

    def scores(self, margins: np.ndarray) -> np.ndarray:
        """Return the scores of both classes, shape (rows, 2)."""
        with np.errstate(over="ignore"):
            if self.single:
                m = np.asarray(margins, dtype=np.float32)
                second = (np.float32(1) / (np.float32(1) + np.exp(-m))).astype(np.float64)
            else:
                second = 1 / (1 + np.exp(-self.scale * np.asarray(margins, dtype=np.float64)))
        return np.stack([1 - second, second], axis=-1)

    def margin(self, score: float) -> float:
        """Return the margin at which a class has a score; infinite outside (0, 1)."""
        if score <= 0:
            return -math.inf
        return math.inf if score >= 1 else (math.log(score) - math.log1p(-score)) / self.scale

    def rounding(self, leaf_values: np.ndarray, n_trees: int) -> float:
        """Return how far a margin as the library computes it may lie from the exact sum.

        `leaf_values` has the largest absolute value of each tree.
        """
        unit = 2.0**-24 if self.single else 2.0**-53
        return (n_trees + 2) * unit * (float(leaf_values.sum()) + abs(self.base))

    def band(self, cutoff: float, rounding: float) -> float:
        """Return the margin beyond a cut-off that the library's own decision surely sees.

        The library compares rounded scores; a score near c moves by c(1 - c) times the margin.
        """
        unit = 2.0**-24 if self.single else 2.0**-53
        return TIE_MARGIN + rounding + 8 * unit / (self.scale * cutoff * (1 - cutoff))

    def score_rounding(self, rounding: float) -> float:
        """Return how far a score as the library computes it may lie from the exact one."""
        return self.scale * rounding / 4 + (2.0**-22 if self.single else 2.0**-50)


@compiled
def _added(values: np.ndarray, base: np.floating) -> np.ndarray:
    total = np.full(values.shape[0], base, dtype=values.dtype)
    for i in range(values.shape[0]):
        for t in range(values.shape[1]):
            total[i] += values[i, t]
    return total
