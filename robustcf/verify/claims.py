"""A run's claims, and what refutes one: an allowed point that does what the claim says no point does.

A claim is refuted by a *witness* alone: a point in the customer's own units, checked here by the walk
over the trees, the rules and the costs of this package. Whoever proposes witnesses (`attack`, `full`)
need not be trusted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robustcf.schema.schema import Schema
from robustcf.verify.demands import needed_score
from robustcf.verify.isolation import BLUR
from robustcf.verify.plausible import ISOLATION, OUTLIER
from robustcf.verify.reading import broken, costs, encode, encode_rows, weight_of
from robustcf.verify.sheet import Asked

NEARER = (
    1e-6  # relative: a witness must beat a claimed cost by more than this, and by more than float32 blurs
)


@dataclass(frozen=True)
class Claim:
    """One row of the table that claims something about all points.

    `least` is what the claim says every point costs at least (`optimal`: its objective, else its
    bound); infinite where it says that there is no such point at all.
    """

    name: str
    customer: str
    method: int
    target: int
    status: str
    least: float

    @property
    def words(self) -> str:
        if math.isinf(self.least):
            return "relaxed for lack of a plausible point" if self.status == "relaxed" else "no_recourse"
        return f"{self.status} with a bound of {self.least:.9g}"


@dataclass(frozen=True)
class Verdicts:
    """Of points: which are allowed and reach what the method demands, what they cost, what they score."""

    good: np.ndarray
    objective: np.ndarray
    score: np.ndarray
    blur: np.ndarray

    def refutes(self, least: np.ndarray | float) -> np.ndarray:
        """Which points refute a claim that nothing costs less than `least`."""
        bound = np.where(np.isinf(least), np.inf, np.asarray(least) * (1 - NEARER))
        return np.asarray(self.good & (self.objective + self.blur < bound))


def judge(
    asked: Asked, method: int, target: int, own: np.ndarray, points: np.ndarray, plausible: bool
) -> Verdicts:
    """Judge points (rows of numbers) of customers whose own rows are `own`, for one method and target.

    `plausible` asks for the method's plausibility too: the isolation forest's word, the 1-LOF penalty.
    Points within rounding of a demand do not count as reaching it.
    """
    demand, trees, features = asked.demands[method], asked.trees, asked.schema.features
    encoded = encode_rows(features, points)
    verdict = trees.ask(encoded, np.full(len(points), target), demand.voting)
    rounding = -0.5 / len(trees) if demand.voting == "hard" else 2e-12 * (len(trees) + 1)
    good = allowed_moves(asked.schema, own, points) & (
        verdict.score >= needed_score(demand, len(trees), target) + rounding
    )
    good &= ~verdict.denied(demand.voting)
    objective = move_costs(asked.schema, own, points)
    tools = asked.plausible
    if plausible and demand.name == ISOLATION:
        isolation = None if tools is None else tools.isolation.get((method, target))
        good &= False if isolation is None else isolation.margin(encoded) > BLUR
    if plausible and demand.name == OUTLIER:
        neighbours = None if tools is None else tools.neighbours.get(target)
        if neighbours is None:
            good &= False
        else:
            at = np.flatnonzero(good)
            worst = neighbours.factors(own[at], points[at], demand.neighbours)[1]
            objective[at] += float(demand.parameter or 0.0) * worst
    return Verdicts(good, objective, verdict.score, float32_blur(asked.schema, own, points))


def float32_blur(schema: Schema, own: np.ndarray, points: np.ndarray) -> np.ndarray:
    """What the float32 grid may add to the cost of each move.

    Answers end on float32 numbers of the model's column; a number beside one may count as the same.
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
    """What it costs to go from one row of numbers to another; infinite from or to a missing value."""
    total = np.zeros(len(points))
    for j, feature in enumerate(schema.features):
        old, new = own[:, j], points[:, j]
        stays = (old == new) | (np.isnan(old) & np.isnan(new))
        price = costs(feature, old, new)
        total += np.where(stays, 0.0, np.where(np.isnan(price), np.inf, price))
    return total


def allowed_moves(schema: Schema, own: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether each move keeps every rule of the schema."""
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
