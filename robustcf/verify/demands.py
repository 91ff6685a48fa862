"""The threshold of each method, computed from its definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from scipy.stats import binom, norm

from robustcf.methods.base import Method, keyed_title
from robustcf.support.tolerances import TIE_MARGIN, WHOLE_VOTES
from robustcf.thresholds import Cutoff
from robustcf.verify.trees import Bar, Verdict

NO_PROOF = {"heuristic": "robx", "relaxed": "isolation-forest"}  # the only method that may have the status
HALF = Bar()
PENALISED = ("local-outlier-factor",)  # objective = distance + penalty


@dataclass(frozen=True)
class Demand:
    """One method of a run with its parameters, as in the tables."""

    name: str
    alpha: float | None
    beta: float | None
    parameter: float | None
    voting: str
    variant: str = "agresti-coull"
    isolation_trees: int = 0
    neighbours: int = 0
    gap: float = 0.0
    foreign: Method | None = None  # a method of another package, whose word on its threshold is taken

    @property
    def key(self) -> tuple[str, float | None, float | None, float | None]:
        return self.name, self.alpha, self.beta, self.parameter

    def __str__(self) -> str:
        return keyed_title(*self.key)


@lru_cache(maxsize=1024)
def threshold(demand: Demand, n_trees: int, bar: Bar = HALF) -> float:
    """Return a method's threshold τ: the cut-off, p*, p* with a margin, or 1.

    >>> round(threshold(Demand("direct-saa", 0.05, None, None, "soft"), 100), 3)
    0.586
    >>> round(threshold(Demand("robust-saa", 0.05, 0.1, None, "soft"), 100), 3)
    0.667
    >>> round(threshold(Demand("robust-saa", 0.05, 0.1, None, "soft", "one-sided"), 100), 3)
    0.654
    """
    if demand.foreign is not None:
        if bar.majority and not bar.plurality:
            return float(demand.foreign.threshold(n_trees))
        return float(demand.foreign.threshold(n_trees, Cutoff(bar.score, bar.strict, bar.classes)))
    if demand.name == "convex-approximation":
        return 1.0
    if demand.name == "certified":
        return bar.score
    if demand.name == "margin" and demand.parameter is not None:
        return max(demand.parameter, bar.least)
    if demand.alpha is None:
        return bar.least
    n, p = n_trees, least_share(n_trees, demand.alpha, bar)
    if demand.beta is None:
        return p
    if demand.variant == "one-sided":  # the lowest score whose lower confidence limit reaches p*
        z = NormalDist().inv_cdf(1 - demand.beta)
        centre = _root(lambda c: c - z * math.sqrt(c * (1 - c) / n) - p, p, 1.0)
        return ((n + 4) * centre - 2) / n
    rho = (n * p + 2) / (n + 4)
    return p + NormalDist().inv_cdf(1 - demand.beta / 2) * math.sqrt(rho * (1 - rho) / n)


def needed_score(demand: Demand, n_trees: int, bar: Bar) -> float:
    """Return the score that a point needs.

    It is the threshold, or more if the decision needs more.
    """
    return score_at(threshold(demand, n_trees, bar), n_trees, demand.voting, bar)


def score_at(tau: float, n_trees: int, voting: str, bar: Bar) -> float:
    """Return the score that reaches a threshold and decides for the target.

    By plurality, a threshold below one half decides nothing: the lead over other classes is checked apart.
    """
    if bar.boosting is not None:
        return float(bar.boosting.scores(np.array([bar.margin(tau)]))[0, 1]) if tau < 1 else math.inf
    if bar.plurality and tau < bar.score:
        return math.ceil(n_trees * tau - WHOLE_VOTES) / n_trees if voting == "hard" else tau
    if voting == "hard":  # whole votes
        return max(bar.votes(n_trees), math.ceil(n_trees * tau - WHOLE_VOTES)) / n_trees
    return max(tau, bar.score + TIE_MARGIN)


def least_share(n_trees: int, alpha: float, bar: Bar = HALF) -> float:
    """Return p*: at this tree probability, N trees miss the cut-off with chance α."""
    needed = bar.votes(n_trees, strict=True) if bar.majority else bar.votes(n_trees)
    return _root(lambda p: alpha - float(binom.cdf(needed - 1, n_trees, p)), 0.0, 1.0)


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) >= 0 else (middle, high)
    return high


def predicted(verdict: Verdict, bars: Sequence[Bar], n_trees: int, voting: str) -> np.ndarray:
    """Return the optimistic probability that a retrained forest agrees.

    `bars` has the bar of each row's target. Hard votes are binomial; for soft votes, and for leads over other
    classes, the mean is approximately normal.
    """
    excess, spread = verdict.edge, verdict.spread
    deviation = np.where(spread > 0, spread, 1.0) / math.sqrt(n_trees)
    likely = np.where(spread > 0, norm.cdf(excess / deviation), 0.5 + 0.5 * np.sign(excess))
    if voting == "soft":
        return likely
    needed = np.array([bar.votes(n_trees) for bar in bars], dtype=np.float64)
    counted = binom.sf(needed - 1, n_trees, np.clip(verdict.score, 0, 1))
    return np.where([bar.plurality for bar in bars], likely, counted)
