"""The convex approximation's finite-sample guarantee (Prop. 5), for one customer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from robustcf.forest.forest import Forest
from robustcf.schema.check import broken_rules
from robustcf.schema.schema import Feature, Schema
from robustcf.thresholds import MAJORITY, Cutoff, as_cutoff, log_delta, trees_needed


@dataclass(frozen=True)
class Guarantee:
    """A point on which every tree agrees is robust with probability at least 1 - δ.

    - `log_delta`: the bound as printed, with α.
    - `log_delta_p_star`: the bound with 1 - p* instead of α, which suffices for robustness (Prop. 1).
    - `trees_needed`, `trees_needed_p_star`: the forest sizes at which each bound reaches `delta`.
    - `convex`: whether the bound applies.

    Only features that this customer can move count. A categorical counts as its encoded columns less one, in
    which a stump is convex.
    """

    alpha: float
    delta: float
    n_trees: int
    n_continuous: int
    n_discrete: int
    convex: bool
    log_delta: float
    log_delta_p_star: float
    trees_needed: int | float
    trees_needed_p_star: int | float

    @property
    def verdict(self) -> str:
        """ "guaranteed", "vacuous" (δ ≥ 1) or "not guaranteed" (the trees are not convex)."""
        if not self.convex:
            return "not guaranteed"
        return "vacuous" if min(self.log_delta, self.log_delta_p_star) >= 0 else "guaranteed"

    def __str__(self) -> str:
        if self.verdict == "not guaranteed":
            return "not guaranteed: the bound holds only for convex learners such as stumps"
        wish = f"δ = {self.delta:g} needs {_count(self.trees_needed_p_star)} trees"
        if self.verdict == "vacuous":
            return f"vacuous: δ ≥ 1 with {self.n_trees} trees; {wish}"
        delta = math.exp(min(self.log_delta, self.log_delta_p_star))
        return f"robust at α = {self.alpha:g} with probability at least 1 - {delta:.2g}; {wish}"


def _count(trees: int | float) -> str:
    return f"{trees:,}" if math.isfinite(trees) else "too many"


def guarantee_of(
    forest: Forest,
    schema: Schema,
    numbers: np.ndarray,
    alpha: float,
    delta: float = 0.05,
    cutoff: float | Cutoff = MAJORITY,
) -> Guarantee:
    """Return the guarantee for one customer (Prop. 5).

    Parameters
    ----------
    forest, schema
        The explained forest and its schema.
    numbers : ndarray
        The customer's row, one number per feature (`encode.read_rows`).
    alpha, delta : float
        Tolerance, and the δ for which the number of trees is computed.
    cutoff : float or Cutoff
        The score at which forests decide for the target.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = np.random.default_rng(0).random((200, 2)), np.arange(200) % 2
    >>> schema = Schema(tuple(Feature(n, "continuous", low=0, high=1) for n in "ab"))
    >>> stumps = Forest.from_sklearn(RandomForestClassifier(200, max_depth=1, random_state=0).fit(X, y))
    >>> str(guarantee_of(stumps, schema, np.array([0.5, 0.5]), alpha=0.05))
    'robust at α = 0.05 with probability at least 1 - 1e-18; δ = 0.05 needs 33 trees'
    """
    k = sum(f.kind == "continuous" and f.allowed is None and f.step is None
            and _can_move(f, x) for f, x in zip(schema.features, numbers, strict=True))  # fmt: skip
    d = sum(_discrete_moves(f, x) for f, x in zip(schema.features, numbers, strict=True))
    n = len(forest)
    return Guarantee(
        alpha=alpha,
        delta=delta,
        n_trees=n,
        n_continuous=k,
        n_discrete=d,
        convex=is_convex(forest),
        log_delta=log_delta(n, alpha, k, d),
        log_delta_p_star=log_delta(n, alpha, k, d, "p-star", cutoff),
        trees_needed=trees_needed(delta, alpha, k, d),
        trees_needed_p_star=_trees_needed(delta, alpha, k, d, as_cutoff(cutoff)),
    )


@lru_cache(maxsize=4096)
def _trees_needed(delta: float, alpha: float, k: int, d: int, cutoff: Cutoff) -> int | float:
    return trees_needed(delta, alpha, k, d, "p-star", cutoff)


def is_convex(forest: Forest) -> bool:
    """Whether every tree is a stump, whose vote is a half-space (eq. 9)."""
    return bool((np.diff(forest.tree_start) <= 3).all()) and len(forest.classes) == 2


def _discrete_moves(feature: Feature, number: float) -> int:
    """Return how many integer variables a feature's moves need.

    A feature that is continuous or cannot move needs none.
    """
    if feature.kind == "continuous" and feature.allowed is None and feature.step is None:
        return 0
    if feature.kind == "categorical" and feature.n_columns:
        own = int(number)
        others = [c for c in range(len(feature.values)) if c != own and _allows(feature, number, float(c))]
        return len(others)
    return int(_can_move(feature, number))


def _can_move(feature: Feature, number: float) -> bool:
    """Whether the schema allows any value other than the customer's own."""
    if np.isnan(number) or not feature.n_columns:
        return False
    if feature.kind != "continuous" or feature.allowed is not None:
        listed = feature.values if feature.kind != "continuous" else feature.allowed or ()
        return any(_allows(feature, number, feature.number(v)) for v in listed)
    low, high = feature.span
    low = low if feature.lower is None else feature.lower
    high = high if feature.upper is None else feature.upper
    step = feature.step
    if step is None:
        beside = (math.nextafter(number, -math.inf), math.nextafter(number, math.inf))
        return any(_allows(feature, number, float(x)) for x in (low, high, *beside))
    ends = [math.ceil(low / step), math.floor(high / step)]
    near = [math.floor(number / step) + i for i in (-1, 0, 1, 2)]
    return any(_allows(feature, number, float(m * step)) for m in ends + near)


def _allows(feature: Feature, old: float, new: float) -> bool:
    return new != old and not broken_rules(Schema((feature,)), np.array([old]), np.array([new]))
