"""A run's claims about all points, and the check of points that refute them.

Only a *witness* refutes a claim: an allowed point in the customer's own units that contradicts it. This
module checks witnesses with this package's trees, rules and costs. So the modules that propose
witnesses (`attack`, `full`) need not be trusted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robustcf.schema.schema import Schema
from robustcf.support.tolerances import CHEAPER, PATH_BLUR, SCORE_ROUNDING
from robustcf.verify.demands import needed_score, score_at
from robustcf.verify.plausible import ISOLATION, OUTLIER
from robustcf.verify.reading import broken, costs, encode, encode_rows, weight_of
from robustcf.verify.sheet import ShardQuestion
from robustcf.verify.trees import Trees


@dataclass(frozen=True)
class Claim:
    """A row's claim about all points.

    `least` is the claimed minimum cost of every point: the objective of an `optimal` row, else the
    lower bound. It is infinite if the row claims that no point exists. A certified row's claim is about the
    points to which a pool of `pool_trees` trees gives the score `level`, and which the forest accepts.
    """

    name: str
    customer: str
    method: int
    target: int
    status: str
    least: float
    level: float | None = None
    pool_trees: int = 0

    @property
    def kind(self) -> tuple[int, int, bool, float | None, int]:
        """What a point must satisfy to refute the claim; equal for many claims."""
        return self.method, self.target, self.status != "no_recourse", self.level, self.pool_trees

    @property
    def words(self) -> str:
        if math.isinf(self.least):
            return "relaxed for lack of a plausible point" if self.status == "relaxed" else "no_recourse"
        return f"{self.status} with a bound of {self.least:.9g}"


@dataclass(frozen=True)
class Verdicts:
    """Each point's cost and score.

    `good` tells whether it is allowed and reaches the demand.
    """

    good: np.ndarray
    objective: np.ndarray
    score: np.ndarray
    blur: np.ndarray

    def refutes(self, least: np.ndarray | float) -> np.ndarray:
        """Return which points refute the claim that no point costs less than `least`."""
        bound = np.where(np.isinf(least), np.inf, np.asarray(least) * (1 - CHEAPER))
        return np.asarray(self.good & (self.objective + self.blur < bound))


def pool_of(asked: ShardQuestion, method: int, pool_trees: int) -> Trees | None:
    """Return the pool of a certified row; None if it is not available."""
    if pool_trees == len(asked.trees):
        return asked.trees
    terms = asked.terms.get(method)
    pooled = None if terms is None else terms.pooled
    return pooled if pooled is not None and len(pooled) == pool_trees else None


def judge(asked: ShardQuestion, claim: Claim, own: np.ndarray, points: np.ndarray) -> Verdicts:
    """Judge points of customers with rows `own`, for all claims of the same kind.

    Unless the claim is `no_recourse`, the isolation forest must accept the point, the 1-LOF penalty is added,
    and the pool must give the score of a certified row's level. A point within rounding of a demand does not
    count as reaching it.
    """
    method, target, plausible, level, pool_trees = claim.kind
    demand, trees, features = asked.demands[method], asked.trees, asked.schema.features
    encoded, bar = encode_rows(features, points), trees.bar(target)
    verdict = trees.judge(encoded, np.full(len(points), target), demand.voting)
    good = allowed_moves(asked.schema, own, points) & (
        verdict.score >= needed_score(demand, len(trees), bar) + rounding_of(len(trees), demand.voting)
    )
    good &= ~verdict.denied(demand.voting)
    if plausible and level is not None:
        pool = pool_of(asked, method, pool_trees)
        if pool is None:
            good &= False
        else:
            at = np.flatnonzero(good)
            score = pool.judge(encoded[at], np.full(len(at), target), demand.voting).score
            good[at] = score >= score_at(level, pool_trees, demand.voting, bar) + rounding_of(
                pool_trees, demand.voting
            )
    objective = move_costs(asked.schema, own, points)
    tools = asked.plausible
    if plausible and demand.name == ISOLATION:
        isolation = None if tools is None else tools.isolation.get((method, target))
        good &= False if isolation is None else isolation.margin(encoded) > PATH_BLUR
    if plausible and demand.name == OUTLIER:
        neighbours = None if tools is None else tools.neighbours.get(target)
        if neighbours is None:
            good &= False
        else:
            at = np.flatnonzero(good)
            worst = neighbours.factors(own[at], points[at], demand.neighbours)[1]
            objective[at] += float(demand.parameter or 0.0) * worst
    return Verdicts(good, objective, verdict.score, float32_blur(asked.schema, own, points))


def rounding_of(n_trees: int, voting: str) -> float:
    """Return the margin of a score test: half a vote, or the rounding of a mean."""
    return -0.5 / n_trees if voting == "hard" else 2 * SCORE_ROUNDING * (n_trees + 1)


def float32_blur(schema: Schema, own: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return how much float32 rounding can add to the cost of each move.

    Answers use float32 numbers in the model's columns, so adjacent numbers may be equivalent.
    """
    total = np.zeros(len(points))
    for j, feature in enumerate(schema.features):
        if (
            feature.kind == "continuous"
            and feature.allowed is None
            and feature.step is None
            and feature.n_columns
        ):
            low, high = encode(feature, np.array(feature.span))[:, 0]
            size = np.maximum(np.abs(encode(feature, points[:, j])[:, 0]), np.abs(high))
            moved = own[:, j] != points[:, j]
            grain = size * 2.0**-23 / (high - low) if high > low else np.zeros(len(points))
            total += np.where(moved & ~np.isnan(grain), weight_of(feature) * grain, 0.0)
    return total


def move_costs(schema: Schema, own: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the cost from one row of numbers to another.

    The result is infinite from or to a missing value.
    """
    total = np.zeros(len(points))
    for j, feature in enumerate(schema.features):
        old, new = own[:, j], points[:, j]
        stays = (old == new) | (np.isnan(old) & np.isnan(new))
        price = costs(feature, old, new)
        total += np.where(stays, 0.0, np.where(np.isnan(price), np.inf, price))
    return total


def allowed_moves(schema: Schema, own: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return whether each move satisfies every rule of the schema."""
    fine = np.ones(len(points), dtype=bool)
    direction = np.zeros(points.shape, dtype=np.int64)
    for j, feature in enumerate(schema.features):
        old, new = own[:, j], points[:, j]
        moved = ~((old == new) | (np.isnan(old) & np.isnan(new)))
        fine &= ~(moved & (np.isnan(old) | np.isnan(new)))  # a missing value stays missing
        direction[:, j] = np.sign(np.nan_to_num(new - old))
        at = np.flatnonzero(moved & ~np.isnan(old) & ~np.isnan(new))
        for wrong, _ in broken(feature, old[at], new[at]):
            fine[at[wrong]] = False
    if schema.max_changes is not None:
        fine &= (direction != 0).sum(axis=1) <= schema.max_changes
    words = np.array(["same", "up", "down"])  # at 0, 1 and -1
    for link in schema.links:
        when, then = (
            np.isin(words[direction[:, schema.names.index(c.feature)]], c.moves)
            for c in (link.when, link.then)
        )
        fine &= ~when | then
    return fine
