"""What brute force says about isolation-forest and 1-LOF problems on small worlds; it knows no cells."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest

import robustcf as rc
from robustcf.forest.forest import Forest
from robustcf.methods.isolation.family import _trees_of
from robustcf.schema.check import broken_rules, distance
from robustcf.schema.encode import encode, read_rows
from robustcf.solve import get_engine
from tests.helpers.by_hand import candidates_of, flips, keeping_rules
from tests.helpers.values import multiples
from tests.helpers.worlds import Score, World, random_rows, scores_by_model

MOST_POINTS = 20_000
TREES = 3


def training_of(world: World, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    read = read_rows(world.schema, random_rows(rng, world.schema, 14))
    X = encode(world.schema, read.numbers[[r is None for r in read.reasons]])
    y = np.array(world.forest.classes, dtype=object)[rng.integers(len(world.forest.classes), size=len(X))]
    y[: len(world.forest.classes)] = world.forest.classes
    return X, y


def wanted(world: World) -> Any:
    return (
        world.target if world.target is not None else next(c for c in world.forest.classes if c != world.own)
    )


def answers_of(
    world: World, methods: list[Any], training: tuple[np.ndarray, np.ndarray], solvers: tuple[str, ...]
) -> dict[str, list[rc.Counterfactual]]:
    explainer = rc.Explainer(
        world.forest, world.schema, methods, target=world.target, voting=world.voting, training=training
    )
    found = {}
    for solver in solvers:
        explainer.engine = get_engine(solver)
        explainer._best.clear()
        found[solver] = explainer.explain_grid(world.row)
    return found


def product(candidates: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    grids = np.meshgrid(*[numbers for numbers, _ in candidates], indexing="ij")
    prices = np.meshgrid(*[costs for _, costs in candidates], indexing="ij")
    return np.stack([g.ravel() for g in grids], axis=1), np.sum([c.ravel() for c in prices], axis=0)


def with_more_trees(forest: Forest, model: Any) -> Forest:
    """The forest with an isolation forest's trees beside it: only its splits matter to brute force."""
    trees, n = _trees_of(model), len(forest.left)
    leaf = trees.left < 0
    uniform = np.where(leaf[:, None], 1.0 / len(forest.classes), 0.0) * np.ones(len(forest.classes))
    return Forest(
        tree_start=np.concatenate([forest.tree_start, trees.tree_start[1:] + n]),
        left=np.concatenate([forest.left, np.where(leaf, -1, trees.left + n)]).astype(np.int32),
        right=np.concatenate([forest.right, np.where(leaf, -1, trees.right + n)]).astype(np.int32),
        feature=np.concatenate([forest.feature, trees.feature]),
        threshold=np.concatenate([forest.threshold, trees.threshold]),
        missing_left=np.concatenate([forest.missing_left, trees.missing_left]),
        probabilities=np.vstack([forest.probabilities, uniform]),
        classes=forest.classes,
        n_features=forest.n_features,
        accepts_missing=forest.accepts_missing,
    )


@dataclass(frozen=True)
class Expected:
    """What is true of one threshold: the status, and what belongs to it.

    `objective` is a range, because scores and lengths that differ in the last bits count as one.
    """

    tau: float
    status: str
    objective: tuple[float, float] = (math.nan, math.nan)
    best_score: float = math.nan
    relaxation: float = math.nan


@dataclass(frozen=True)
class Question:
    """A world, the methods asked for it, their training rows, and what is true of each of them."""

    world: World
    methods: list[Any]
    training: tuple[np.ndarray, np.ndarray]
    expected: list[Expected]


def isolation_by_hand(world: World, seed: int) -> Question | None:
    """The question of an isolation forest, if brute force can answer it."""
    if world.own == wanted(world):
        return None
    X, y = training_of(world, seed)
    target, contamination = wanted(world), [0.1, 0.3, 0.5, "auto"][seed % 4]
    model = IsolationForest(n_estimators=TREES, contamination=contamination, random_state=0).fit(
        X[y == target]
    )
    candidates = candidates_of(replace(world, forest=with_more_trees(world.forest, model)))
    if math.prod(len(numbers) for numbers, _ in candidates) > MOST_POINTS:
        return None
    points, cost = product(candidates)
    kept = keeping_rules(world, points)
    if not kept.any():
        return None
    points, cost = points[kept], cost[kept]
    encoded = encode(world.schema, points)
    c = world.forest.classes.index(target)
    scores = scores_by_model(world.forest.judge, encoded, world.voting)
    n = int((y == target).sum())
    average = {1: 0.0, 2: 1.0}.get(n, 2 * (math.log(max(n - 1, 1)) + np.euler_gamma) - 2 * (n - 1) / n)
    length = -TREES * average * np.log2(-model.score_samples(encoded))
    bound = -TREES * average * math.log2(-model.offset_)
    plausible = length >= bound + 1e-9 if average else np.ones(len(points), dtype=bool)
    expected = []
    for tau in world.taus:
        reached = flips(scores, tau, c, len(world.forest), world.voting)
        if (reached & plausible).any():
            least = float(cost[reached & plausible].min())
            expected.append(Expected(tau, "optimal", (least, least)))
        elif reached.any():
            most = length[reached].max()
            ways = [float(cost[reached & (length >= most - slack)].min()) for slack in (1e-8, 1e-13)]
            short = float(bound - most) / (TREES * average)
            expected.append(Expected(tau, "relaxed", (ways[0], ways[1]), relaxation=short))
        else:
            expected.append(Expected(tau, "no_recourse", best_score=float(scores[:, c].max())))
    methods = [rc.IsolationForest(contamination, Score(tau), n_trees=TREES) for tau in world.taus]
    return Question(world, methods, (X, y), expected)


def listed(world: World, rng: np.random.Generator) -> World:
    """The world with a few allowed values in place of every open range."""
    schema = world.schema
    for f in schema.features:
        if f.kind == "continuous" and f.allowed is None and f.step is None:
            low, high = f.span
            schema = schema.replace(f.name, allowed=tuple(float(v) for v in rng.uniform(low, high, 5)))
    return replace(world, schema=schema)


def all_numbers(world: World, j: int) -> np.ndarray:
    """Every allowed number of a listed feature."""
    f, x = world.schema.features[j], world.numbers[j]
    if f.kind != "continuous" or f.allowed is not None:
        numbers = [f.number(v) for v in f.values or f.allowed or ()]
    else:
        ends = [*f.span, *(e for e in (f.lower, f.upper) if e is not None), x]
        numbers = multiples(f.step, min(ends), max(ends))
    alone = rc.Schema((f,))
    return np.array([x, *(v for v in dict.fromkeys(numbers) if v != x
                     and not broken_rules(alone, np.array([x]), np.array([v])))])  # fmt: skip


def lof_by_hand(world: World, X: np.ndarray, target: Any, points: np.ndarray, k: int) -> np.ndarray | None:
    """1-LOF of every point, from the appendix's words and the encoded rows alone."""
    schema, own = world.schema, world.numbers
    if np.isnan(own).any():
        return None
    unit = [f.span[1] - f.span[0] if f.ordered and f.scaling == "none" else 1.0 for f in schema.features]
    weights = np.repeat(
        [f.cost_weight / (u or 1.0) for f, u in zip(schema.features, unit, strict=True)],
        [f.n_columns for f in schema.features],
    )
    label = scores_by_model(world.forest.judge, X, world.voting).argmax(axis=1)
    rows = np.unique((X * weights)[label == world.forest.classes.index(target)], axis=0)
    if len(rows) < 2:
        return None
    apart = np.abs(rows[:, None, :] - rows[None, :, :]).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    delta = apart.min(axis=1)
    lrd = 1 / np.maximum(delta, delta[apart.argmin(axis=1)])
    home = np.abs(rows - encode(schema, own[None, :]) * weights).sum(axis=1)
    if len(rows) > k and np.diff(np.sort(home)).min() < 1e-9:
        return None  # which rows are the nearest is a toss-up
    near = np.argsort(home)[:k]
    reach = np.abs((encode(schema, points) * weights)[:, None, :] - rows[near][None, :, :]).sum(axis=2)
    factor = lrd[near] * np.maximum(delta[near], reach)
    return np.where(reach <= reach.min(axis=1, keepdims=True) + 1e-8, factor, np.inf).min(axis=1)


def lof_question(world: World, seed: int) -> Question | None:
    """The question of a 1-LOF penalty, every open range made a list, if brute force can answer it."""
    rng = np.random.default_rng(seed)
    world = listed(world, rng)
    if world.own == wanted(world):
        return None
    numbers = [all_numbers(world, j) for j in range(len(world.schema))]
    if math.prod(map(len, numbers)) > MOST_POINTS:
        return None
    X, y = training_of(world, seed)
    grids = np.meshgrid(*numbers, indexing="ij")
    points = np.stack([g.ravel() for g in grids], axis=1)
    points = points[keeping_rules(world, points)]
    if not len(points):
        return None
    k, weight = int(rng.choice([1, 3, 10])), float(rng.choice([0.0, 0.01, 0.1, 1.0, 10.0]))
    target = wanted(world)
    factor = lof_by_hand(world, X, target, points, k)
    if factor is None:
        return None
    cost = np.array([distance(world.schema, world.numbers, p) for p in points]) + weight * factor
    c = world.forest.classes.index(target)
    scores = scores_by_model(world.forest.judge, encode(world.schema, points), world.voting)
    methods = [rc.LocalOutlierFactor(weight, Score(tau), neighbours=k) for tau in world.taus]
    if world.target is None and any(
        lof_by_hand(world, X, t, points[:1], k) is None for t in world.forest.classes
    ):
        return None
    expected = []
    for tau in world.taus:
        reached = flips(scores, tau, c, len(world.forest), world.voting)
        if reached.any():
            least = float(cost[reached].min())
            expected.append(Expected(tau, "optimal", (least, least)))
        else:
            expected.append(Expected(tau, "no_recourse", best_score=float(scores[:, c].max())))
    return Question(world, methods, (X, y), expected)
