"""What brute force says about a small world.

It knows no cells: it tries raw values one by one, asks `check` whether a move is allowed, and lets the
scikit-learn model score the product of all candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from robustcf.schema.check import broken_across, broken_rules, distance
from robustcf.schema.encode import encode
from robustcf.schema.schema import Feature, Schema
from tests.helpers.values import around, beside, multiples
from tests.helpers.worlds import World, scores_by_model


@dataclass
class Truth:
    """Brute force's answer: per tau the least distance (None: out of reach), and the best score."""

    own: Any
    target: Any
    distances: dict[float, float | None] = field(default_factory=dict)
    best_score: float = math.nan
    best_distances: tuple[float, float] = (math.nan, math.nan)


def candidates_of(world: World) -> list[tuple[np.ndarray, np.ndarray]]:
    """Per feature: allowed numbers and their costs, one (the cheapest) of those the model sees alike."""
    before, inner = world.numbers, world.forest.left >= 0
    result = []
    for j, f in enumerate(world.schema.features):
        first = world.schema.column_start[j]
        mine = inner & (world.forest.feature >= first) & (world.forest.feature < first + f.n_columns)
        thresholds = np.unique(world.forest.threshold[mine])
        numbers = [before[j]]
        if f.kind != "continuous":
            numbers += [f.number(v) for v in f.values]
        elif f.allowed is not None:
            numbers += [f.number(v) for v in f.allowed]
        else:
            ends = [*f.span, *(x for x in (f.lower, f.upper) if x is not None), *ends_from(f, before[j])]
            if f.step is None:
                near = beside if world.forest.wide else around
                numbers += ends + near(f, thresholds).tolist()
            else:
                numbers += multiples(f.step, min(*ends, before[j]), max(*ends, before[j]))
        alone, old = Schema((f,)), before[j : j + 1]
        tried = [x for x in dict.fromkeys(numbers) if not broken_rules(alone, old, np.array([x]))]
        columns = encode(alone, np.array(tried)[:, None]).astype(world.forest.floats)
        seen = np.concatenate(
            [
                (columns.astype(np.float64)[:, :, None] <= thresholds).reshape(len(tried), -1),
                np.isnan(columns),
            ],
            axis=1,
        )
        kept: dict[tuple[bytes, bool, bool], tuple[float, float]] = {}
        for number, sees in zip(tried, seen, strict=True):
            cost = distance(alone, old, np.array([number]))
            rules = world.schema.has_rules  # which see whether a value moved, and where to
            key = (sees.tobytes(), rules and number > before[j], rules and number < before[j])
            if key not in kept or cost < kept[key][1]:
                kept[key] = (number, cost)
        result.append((np.array([n for n, _ in kept.values()]), np.array([c for _, c in kept.values()])))
    return result


def ends_from(f: Feature, own: float) -> list[float]:
    """How far the customer may go, in exact fractions of the numbers as they are written."""
    if math.isnan(own):
        return []
    x, ends = Fraction(repr(float(own))), []
    for up, key in ((1, "at_most_up"), (-1, "at_most_down")):
        absolute, percent = getattr(f, key), getattr(f, f"{key}_percent")
        ends += [] if absolute is None else [float(x + up * Fraction(repr(absolute)))]
        ends += [] if percent is None else [float(x + up * abs(x) * Fraction(repr(percent)) / 100)]
    return ends


def keeping_rules(world: World, points: np.ndarray) -> np.ndarray:
    """Which points break no rule across features."""
    if not world.schema.has_rules:
        return np.ones(len(points), dtype=bool)
    before = world.numbers
    return np.array([not broken_across(world.schema, before, p) for p in points])


def reaches(score: np.ndarray, tau: float, n: int, voting: str, first: bool) -> np.ndarray:
    """Whether scores reach τ: a margin of 1e-9 beyond the tie for soft votes, integer votes for hard ones."""
    if voting == "soft":
        return score >= max(tau, 0.5 + 1e-9) - 1e-12
    votes = np.rint(score * n).astype(int)
    majority = 2 * votes >= n if first else 2 * votes > n
    return majority & (votes >= n * tau - 1e-9)


def flips(scores: np.ndarray, tau: float, c: int, n: int, voting: str) -> np.ndarray:
    """Whether scores of all classes decide for class c and reach τ."""
    if scores.shape[1] > 2:
        return wins(scores, tau, c, n, voting)
    return reaches(scores[:, c], tau, n, voting, c == 0)


def wins(scores: np.ndarray, tau: float, c: int, n: int, voting: str) -> np.ndarray:
    """Whether class c has the most votes (the first class on a tie) and a score of τ.

    From τ = 1/2 on, the score alone must decide, as with two classes.
    """
    if tau >= 0.5:
        return reaches(scores[:, c], tau, n, voting, c == 0)
    if voting == "soft":
        lead = scores[:, c] - np.delete(scores, c, axis=1).max(axis=1)
        return (lead >= 1e-9 - 1e-12) & (scores[:, c] >= tau - 1e-12)
    votes = np.rint(scores * n).astype(int)
    ahead = (votes[:, [c]] > votes[:, :c]).all(axis=1) & (votes[:, [c]] >= votes[:, c + 1 :]).all(axis=1)
    return ahead & (votes[:, c] >= n * tau - 1e-9)


@dataclass
class Everything:
    """Every allowed point that the model can tell apart, with its cost and its score for each class."""

    own: Any
    target: Any
    points: np.ndarray
    cost: np.ndarray
    scores: np.ndarray
    place: int  # of the target among the classes

    @property
    def score(self) -> np.ndarray:
        return self.scores[:, self.place]

    def reaching(self, world: World, tau: float) -> np.ndarray:
        """Which points reach a threshold and flip the decision."""
        forest = world.forest
        n = len(forest)
        if world.cut is None:
            return flips(self.scores, tau, self.place, n, world.voting)
        if world.voting == "soft":
            return self.score >= max(tau, world.cut.least(self.target) + 1e-9) - 1e-12
        ok = world.cut.reached(self.scores, self.target, forest.classes, n)
        return ok & (np.rint(self.score * n) >= n * tau - 1e-9)


def everything_by_hand(world: World) -> Everything:
    """Every product of candidates, scored by the real model; no points if the decision is favourable."""
    forest, schema = world.forest, world.schema
    own = world.own
    target = world.target if world.target is not None else next(c for c in forest.classes if c != own)
    k, place = len(forest.classes), forest.classes.index(target)
    if own == target:
        return Everything(own, target, np.zeros((0, len(schema))), np.zeros(0), np.zeros((0, k)), place)
    candidates = candidates_of(world)
    grids = np.meshgrid(*[numbers for numbers, _ in candidates], indexing="ij")
    prices = np.meshgrid(*[costs for _, costs in candidates], indexing="ij")
    points = np.stack([g.ravel() for g in grids], axis=1)
    cost = np.sum([c.ravel() for c in prices], axis=0)
    kept = keeping_rules(world, points)
    points, cost = points[kept], cost[kept]
    if not len(points):
        return Everything(own, target, points, cost, np.zeros((0, k)), place)
    scores = scores_by_model(forest.judge, encode(schema, points), world.voting)
    return Everything(own, target, points, cost, scores, place)


def solve_by_hand(world: World) -> Truth:
    """The least distances, and the best score, among all points."""
    found = everything_by_hand(world)
    truth = Truth(found.own, found.target)
    if found.own == found.target:
        return truth
    if not len(found.points):
        truth.distances = dict.fromkeys(world.taus)
        return truth
    for tau in world.taus:
        ok = found.reaching(world, tau)
        truth.distances[tau] = float(found.cost[ok].min()) if ok.any() else None
    truth.best_score = float(found.score.max())
    near = [float(found.cost[found.score >= truth.best_score - slack].min()) for slack in (2e-9, 1e-13)]
    truth.best_distances = (near[0], near[1])  # scores that differ in the last bits are one score
    return truth
