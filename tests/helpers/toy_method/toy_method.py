"""A method of another package: a fixed threshold. This file and one entry point are all it takes."""

from dataclasses import dataclass

import robustcf as rc


@dataclass(frozen=True)
class FixedThreshold(rc.Method):
    """Ask for a fixed score."""

    score: float = 0.6
    name = "fixed-threshold"
    label = "Fixed threshold"
    symbol = "score"
    alpha = None
    beta = None

    @property
    def parameter(self) -> float:
        return self.score

    def threshold(self, n_trees: int) -> float:
        return self.score
