"""A certificate: what fresh forests say about one point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from robustcf.certificate.bounds import hard_vote_bound, lower_bound, soft_vote_bound
from robustcf.certificate.fresh import FreshForests
from robustcf.forest.forest import Label, Voting

Test = Literal["forests", "trees", "trees-asymptotic"]


@dataclass(frozen=True)
class Certificate:
    """The outcome of testing one point on the certification forests.

    Attributes
    ----------
    certified : bool
        Whether the claim is made.
    agree, forests : int
        How many of the certification forests predict the target at the point.
    lower_bound : float
        Lower bound of the share that agrees, at confidence 1 - `delta`. It describes this point alone. The
        claim is 1 - `alpha` and not this bound, because the level was selected by looking at such bounds.
    alpha, delta : float
        `delta` after its division among simultaneous certificates.
    tests : int
        The number of certificates that hold together with confidence 1 - `tests` · `delta`.
    scenario : str
    n_trees : int
        Size of a retrained forest.
    test : str
        `forests` and `trees` are exact; `trees-asymptotic` is an approximation.
    level : float
        The threshold τ at which the point is the nearest; NaN for points made elsewhere.
    pool_score, pool_trees
        The score that the pool gives the point, and the number of its trees. Without fresh trees, the pool
        is the explained forest.
    """

    certified: bool
    agree: int
    forests: int
    lower_bound: float
    alpha: float
    delta: float
    scenario: str
    n_trees: int
    test: Test = "forests"
    level: float = float("nan")
    pool_score: float = float("nan")
    pool_trees: int = 0
    tests: int = 1

    def __str__(self) -> str:
        if self.certified:
            return claim(self.alpha, self.delta, self.scenario, self.n_trees, self.test, self.tests)
        return (
            f"not certified: {self.agree} of {self.forests} certification forests agree; at confidence "
            f"{1 - self.delta:.4g} this shows only a probability of at least {self.lower_bound:.3g}"
        )


_ROWS = {"evolving": "on the data with later rows added", "bootstrap": "on a bootstrap of the data"}


def claim(
    alpha: float,
    delta: float,
    scenario: str,
    n_trees: int | None,
    test: Test = "forests",
    tests: int = 1,
) -> str:
    """Return the claim of a certificate in one sentence; `n_trees` None means any model.

    `delta` is one certificate's share among `tests` certificates that hold together.

    >>> claim(0.05, 0.05, "same-data", 100)[:76]
    'with confidence 0.95 over the certification forests, a forest retrained on t'
    >>> claim(0.05, 0.05 / 1000, "same-data", 100, tests=1000)[-69:]
    'least 0.95; all 1,000 certificates hold together with confidence 0.95'
    """
    rows = _ROWS.get(scenario, "on the same data")
    judges, model = "certification forests", f"a forest retrained {rows} with {n_trees} trees"
    if n_trees is None:
        judges, model = "refitted models", f"a model refitted {rows}"
    text = (
        f"with confidence {1 - delta:.6g} over the {judges}, {model} accepts this point with probability "
        f"at least {1 - alpha:g}"
    )
    text += " (asymptotic test)" if test == "trees-asymptotic" else ""
    return text + (f"; {together(delta, tests)}" if tests > 1 else "")


def together(delta: float, tests: int) -> str:
    """Return what holds for all certificates together, given one certificate's share of δ.

    >>> together(0.05 / 1000, 1000)
    'all 1,000 certificates hold together with confidence 0.95'
    """
    return f"all {tests:,} certificates hold together with confidence {1 - tests * delta:.6g}"


def judge_point(
    fresh: FreshForests,
    point: np.ndarray,
    target: Label,
    voting: Voting,
    alpha: float,
    delta: float,
    test: Test,
) -> Certificate:
    """Test one encoded point on the certification forests."""
    agree = int(fresh.certification.agree(point, target, voting).sum())
    if test == "forests":
        bound = lower_bound(agree, len(fresh.certification), delta)
    else:
        values, cutoff = fresh.certification.values(point, target, voting), fresh.cutoff(target)
        if test == "trees":
            bound = hard_vote_bound(int(values.sum()), len(values), fresh.n_trees, delta, cutoff)
        else:
            bound = soft_vote_bound(values, fresh.n_trees, delta, cutoff.score)
    return Certificate(
        bound >= 1 - alpha,
        agree,
        len(fresh.certification),
        bound,
        alpha,
        delta,
        fresh.design.scenario,
        fresh.n_trees,
        test,
    )
