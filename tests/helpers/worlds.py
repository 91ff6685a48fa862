"""Small random worlds: schema, forest, customer, demands. `by_hand.py` solves them by brute force."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from robustcf.forest.forest import Forest
from robustcf.methods.base import Method
from robustcf.schema.encode import encode, read_rows
from robustcf.schema.links import Clause, Link
from robustcf.schema.schema import Feature, Schema, SchemaError
from tests.helpers.values import around, multiples

MOST_POINTS = 3000
ARRAYS = ("tree_start", "left", "right", "feature", "threshold", "missing_left", "probabilities")


@dataclass(frozen=True)
class Score(Method):
    """A method that demands any score."""

    tau: float
    name = "score"
    label = "Score"
    alpha = None
    beta = None
    parameter = None

    def threshold(self, n_trees: int, cutoff: object = None) -> float:
        return self.tau


@dataclass(frozen=True)
class Cut:
    """A decision written down by hand: `label` where its score is at least c (more than c, if strict)."""

    label: Any
    c: float
    strict: bool = False

    def reached(
        self, scores: np.ndarray, label: Any, classes: tuple[Any, ...], votes: int | None
    ) -> np.ndarray:
        """Which rows of scores decide for a class; `votes` is the number of hard votes, None for soft."""
        mine = scores[:, classes.index(self.label)]
        if votes is not None:
            exact = Fraction(str(self.c)) * votes
            counted = [Fraction(round(float(share) * votes)) for share in mine]
            wins = np.array([v > exact if self.strict else v >= exact for v in counted])
        else:
            wins = mine > self.c if self.strict else mine >= self.c
        return wins if label == self.label else ~wins

    def least(self, label: Any) -> float:
        """The score at which the decision is for a class."""
        return self.c if label == self.label else float(1 - Fraction(str(self.c)))


@dataclass(frozen=True)
class World:
    """One customer's question, in the terms of the public API."""

    schema: Schema
    forest: Forest
    row: dict[str, Any]
    voting: str
    target: Any
    taus: tuple[float, ...]
    cut: Cut | None = None

    @property
    def numbers(self) -> np.ndarray:
        read = read_rows(self.schema, self.row, missing=self.forest.accepts_missing)
        assert read.reasons == [None], read.reasons
        return read.numbers[0]

    @property
    def own(self) -> Any:
        """What the forest predicts for the customer."""
        scores = scores_by_model(self.forest.judge, encode(self.schema, self.numbers[None, :]), self.voting)
        if self.cut is None:
            return self.forest.classes[int(scores[0].argmax())]
        votes = None if self.voting == "soft" else len(self.forest)
        if self.cut.reached(scores, self.cut.label, self.forest.classes, votes)[0]:
            return self.cut.label
        others = [k for k, c in enumerate(self.forest.classes) if c != self.cut.label]
        return self.forest.classes[max(others, key=lambda k: (scores[0, k], -k))]


def make_many_classes(seed: int, n: int = 3) -> list[World]:
    """Worlds with 3 to 5 classes: by plurality, one against rest, and one at a cut-off in turn."""
    rng = np.random.default_rng([seed, 3])
    worlds = [_constrained(rng, w, True) if rng.random() < 0.3 else w for w in _worlds(rng, n, many=True)]
    for i, world in enumerate(worlds):
        taus = tuple(0.3 if rng.random() < 0.3 else tau for tau in world.taus)  # below half: a weak demand
        world = replace(world, taus=(0.0, *taus))  # 0: the decision alone, as `Naive`
        if (seed + i) % 3 == 1:
            decided = world.forest.deciding(world.target, rule="one-against-rest")
            world = replace(world, forest=decided, cut=Cut(world.target, 0.5, strict=True))
        elif (seed + i) % 3 == 2:
            c = float(rng.choice([0.2, 0.34, 0.4, 0.7]))
            world = replace(world, forest=world.forest.decided_at(world.target, c), cut=Cut(world.target, c))
        worlds[i] = world
    return worlds


def make_worlds(seed: int, n: int = 2, *, rules: bool = True, cutoffs: bool = False) -> list[World]:
    """Worlds around one random forest; the same seed gives the same ones.

    Half of them have constraints that depend on the customer's own values, and (with `rules`) rules
    across features; with `cutoffs`, half of them decide at a cut-off. These are drawn apart, so that forests
    and customers are the same with and without them.
    """
    rng, other = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    third = np.random.default_rng([seed, 2])
    worlds = [_constrained(other, w, rules) if other.random() < 0.5 else w for w in _worlds(rng, n)]
    return [_decided(third, w) if cutoffs and third.random() < 0.5 else w for w in worlds]


def roomy_world(seed: int) -> World:
    """A world in which several sets of features can flip the decision, with constraints in half of them."""
    rng = np.random.default_rng([seed, 3])
    while True:
        features = [random_feature(rng, f"f{i}") for i in range(rng.integers(4, 7))]
        schema = Schema(tuple(replace(f, action="free", allowed=None, lower=None) for f in features))
        if any(f.n_columns == 0 for f in features):
            continue
        frame = random_rows(rng, schema, 60)
        X = encode(schema, read_rows(schema, frame, missing=True).numbers)
        spread = X.std(axis=0)
        value = (X / np.where(spread > 0, spread, 1)) @ rng.choice([-1, 1], X.shape[1])
        y = (value > np.median(value)).astype(int)
        model = RandomForestClassifier(
            int(rng.integers(4, 9)),
            max_depth=int(rng.integers(1, 3)),
            max_features=1,
            random_state=int(rng.integers(2**31)),
        )
        forest = Forest.from_sklearn(model.fit(X, y)) if 0 < y.sum() < len(y) else None
        if forest is None or not 20 <= points_of(schema, forest) <= MOST_POINTS:
            continue
        world = _draw(rng, schema, forest, frame)
        world = replace(world, taus=(float(rng.choice([0.5, 0.5, 0.6, 0.7])),))
        if world.own == (world.target if world.target is not None else 2):
            continue
        return _constrained(rng, world, True) if rng.random() < 0.5 else world


def _decided(rng: np.random.Generator, world: World) -> World:
    """The same world with a cut-off, of the target's score or, with two classes, of the other's."""
    forest, n = world.forest, len(world.forest)
    share = int(rng.integers(1, n)) / n if n > 1 else 0.7
    c = float(rng.choice([0.2, 0.3, 0.55, 0.7, share, rng.uniform(0.05, 0.95)]))
    label = forest.classes[-1] if world.target is None else world.target
    others = [k for k in forest.classes if k != label]
    if len(others) > 1 or rng.random() < 0.6:
        cut = Cut(label, c, strict=c == 0.5)
        decided = forest.decided_at(label, c)
        return replace(world, forest=decided, cut=None if decided.decision is None else cut)
    low = forest.decided_at(label, c, score_of=others[0])
    return replace(world, forest=low, cut=Cut(others[0], c, strict=True))


def world_parts(rng: np.random.Generator) -> tuple[Schema, pd.DataFrame, np.ndarray, np.ndarray] | None:
    """A random schema, rows of it, the encoded rows and labels of two classes; None if they do not fit."""
    schema = random_schema(rng, most=3)
    if not schema.columns:
        return None
    frame = random_rows(rng, schema, 60)
    X = encode(schema, read_rows(schema, frame, missing=True).numbers)
    value = X @ rng.normal(size=X.shape[1]) + rng.normal(scale=0.3 * X.std(), size=len(X))
    y = (value > np.quantile(value, rng.uniform(0.3, 0.7))).astype(int)
    return (schema, frame, X, y) if len(set(y.tolist())) == 2 else None


def asked_of(
    rng: np.random.Generator, schema: Schema, forest: Forest, frame: pd.DataFrame, taus: tuple[float, ...]
) -> World:
    """A customer at random, sometimes exactly at a split, with constraints of his own now and then."""
    row = _odd_row(rng, schema, forest, frame.iloc[int(rng.integers(len(frame)))].to_dict())
    world = World(schema, forest, row, "soft", None, taus)
    return _constrained(rng, world, True) if rng.random() < 0.3 else world


def _worlds(rng: np.random.Generator, n: int, many: bool = False) -> list[World]:
    while True:
        schema = random_schema(rng)
        if not schema.columns:
            continue
        frame = random_rows(rng, schema, 40)
        X = encode(schema, read_rows(schema, frame, missing=True).numbers)
        if rng.random() < 0.25:
            X = _punch_holes(rng, schema, X)
        y = many_labels(rng, X) if many else random_labels(rng, X)
        if y is None:
            continue
        forest = random_forest(rng, X, y)
        if rng.random() < 0.5:
            forest = hostile(rng, forest, schema)
        if 4 <= points_of(schema, forest) <= MOST_POINTS or (len(forest.left) < 50 and rng.random() < 0.05):
            return [_draw(rng, schema, forest, frame) for _ in range(n)]


def _draw(rng: np.random.Generator, schema: Schema, forest: Forest, frame: pd.DataFrame) -> World:
    voting = str(rng.choice(["soft", "hard"]))
    taus = tuple(_tau(rng, len(forest)) for _ in range(rng.choice([1, 1, 2, 3])))
    for _ in range(10):  # few rows may already have what they want
        row = _odd_row(rng, schema, forest, frame.iloc[int(rng.integers(len(frame)))].to_dict())
        target = None if len(forest.classes) == 2 and rng.random() < 0.5 else rng.choice(len(forest.classes))
        target = None if target is None else forest.classes[int(target)]
        world = World(schema, forest, row, voting, target, taus)
        if world.own != target or rng.random() < 0.05:
            break
    return world


def _tau(rng: np.random.Generator, n: int) -> float:
    share, even = rng.integers(n // 2, n + 1) / n, rng.uniform(0.5, 1.0)
    return float(rng.choice([0.5, 0.3, 1.0, 1.2, share, even], p=[0.3, 0.1, 0.06, 0.04, 0.25, 0.25]))


def random_schema(rng: np.random.Generator, most: int = 4) -> Schema:
    return Schema(tuple(random_feature(rng, f"f{i}") for i in range(rng.integers(1, most + 1))))


def random_feature(rng: np.random.Generator, name: str) -> Feature:
    kind = str(rng.choice(["binary", "categorical", "numbers", "words", "continuous", "continuous"]))
    settings: dict[str, Any] = {
        "action": str(rng.choice(["free", "fixed", "increase", "decrease"], p=[0.64, 0.08, 0.14, 0.14])),
        "scaling": str(rng.choice(["minmax", "minmax", "none"])),
    }
    if rng.random() < 0.4:
        settings["weight"] = float(rng.choice([0.0, 0.1, 1.0, 3.0, rng.random()]))
    if kind == "binary":
        values = [(0, 1), ("no", "yes"), (False, True), (1,)][rng.choice(4, p=[0.4, 0.3, 0.2, 0.1])]
        return Feature(name, "binary", values=values, **_some_allowed(rng, values), **settings)
    if kind == "categorical":
        if settings["action"] in ("increase", "decrease"):
            settings["action"] = "free"
        size = int(rng.integers(2, 5))
        values = tuple("abcd"[:size]) if rng.random() < 0.7 else tuple(range(3, 3 + size))
        return Feature(name, "categorical", values=values, **_some_allowed(rng, values), **settings)
    if kind == "words":
        values = ("low", "medium", "high", "top")[: rng.integers(2, 5)]
        return Feature(name, "discrete", values=values, **_some_allowed(rng, values), **settings)
    if kind == "numbers":
        values = tuple(sorted({int(v) for v in rng.integers(-5, 20, size=rng.integers(2, 7))}))
        if rng.random() < 0.4:
            values = tuple(v / 10 for v in values)
        settings |= _some_allowed(rng, values)
        if rng.random() < 0.2:
            settings["step"] = float(rng.choice([0.1, 0.2, 2.0]))
        if rng.random() < 0.2:
            settings["lower"] = float(values[0]) - 1.0
            settings["upper"] = float(rng.choice(np.array(values, dtype=float)))
        return Feature(name, "discrete", values=values, **settings)
    return _continuous(rng, name, settings)


def _continuous(rng: np.random.Generator, name: str, settings: dict[str, Any]) -> Feature:
    low, width = [(0.0, 1.0), (0.1, 0.6), (-3.0, 10.0), (1e6, 7.0), (-0.3, 1e-3)][rng.integers(5)]
    settings |= {"low": low, "high": low + width}
    how = rng.random()
    if how < 0.35:
        steps = {0.6: 0.1, 1.0: 0.1, 10.0: 0.5, 7.0: 1.0, 1e-3: 1e-4}
        settings["step"] = steps[width]
    elif how < 0.5:
        settings["allowed"] = tuple(float(v) for v in np.round(low + width * rng.random(4), 3))
    if rng.random() < 0.3:
        settings["lower"] = low + width * float(rng.choice([0.0, 0.25, -0.5]))
    if rng.random() < 0.3:
        settings["upper"] = low + width * float(rng.choice([0.5, 0.7, 1.0, 1.5]))
    return Feature(name, "continuous", **settings)


def _constrained(rng: np.random.Generator, world: World, rules: bool) -> World:
    """The world with relative bounds, forbidden moves, cost tables, links and a limit on changes."""
    schema = world.schema
    for f in schema.features:
        if rng.random() < 0.4:
            schema = schema.replace(f.name, **_relative(rng, f, world))
        if f.kind != "continuous" and rng.random() < 0.3:
            schema = schema.replace(f.name, forbidden=_pairs(rng, f, 3))
        if f.kind != "continuous" and rng.random() < 0.5:
            costs = [float(rng.choice([0.0, 0.05, 0.5, 2.0, rng.random()])) for _ in range(4)]
            lines = [(*pair, cost) for pair, cost in zip(_pairs(rng, f, 4), costs, strict=False)]
            schema = schema.replace(f.name, cost_table=lines)
    if rules and len(schema) > 1:
        links = [_link(rng, schema) for _ in range(rng.choice([0, 1, 1, 2]))]
        limit = int(rng.integers(1, len(schema))) if rng.random() < 0.3 else None
        schema = schema.with_rules([link for link in links if link is not None], limit)
    return replace(world, schema=schema)


def _relative(rng: np.random.Generator, f: Feature, world: World) -> dict[str, float]:
    if not f.ordered:
        return {}
    own, (low, high) = float(world.numbers[world.schema.names.index(f.name)]), f.span
    bounds = {}
    for key in ("at_most_up", "at_most_down"):
        if rng.random() < 0.6:
            bounds[key] = float(rng.choice([0.0, 0.1, 0.5, 0.7, rng.random()])) * (high - low)
            if not f.is_number or rng.random() < 0.4:
                bounds[key] = float(np.round(bounds[key], int(rng.integers(3))))
        if f.is_number and rng.random() < 0.2:
            bounds[f"{key}_percent"] = float(rng.choice([0.0, 10.0, 33.3, 100.0, 250.0]))
    column = int(world.schema.column_start[world.schema.names.index(f.name)])
    mine = (world.forest.left >= 0) & (world.forest.feature == column)
    splits = around(f, world.forest.threshold[mine]) if f.kind == "continuous" else np.empty(0)
    if len(splits) and np.isfinite(own) and rng.random() < 0.3:  # exactly up to a split, or short of it
        gap = float(rng.choice(splits)) - own
        bounds["at_most_up" if gap > 0 else "at_most_down"] = abs(gap)
    return bounds


def _pairs(rng: np.random.Generator, f: Feature, most: int) -> list[tuple[Any, Any]]:
    """Moves between values, some from or to any value."""
    some = [*f.values, "*"]
    drawn = [
        tuple(some[int(i)] for i in rng.integers(len(some), size=2)) for _ in range(rng.integers(1, most))
    ]
    return [(a, b) for a, b in dict.fromkeys(drawn) if a != b or a == "*"]


def _link(rng: np.random.Generator, schema: Schema) -> Link | None:
    """A link between two features, if what was drawn is one."""
    when, then = (schema.features[int(j)] for j in rng.choice(len(schema), size=2, replace=False))
    clauses = []
    for f, share in ((when, 0.25), (then, 0.75)):  # "same" in `when`, or none in `then`, forces moves
        words = (["up"], ["down"], ["changed"]) if f.ordered else (["changed"], [], [])
        moves = list(words[int(rng.integers(3))]) + ["same"] * (rng.random() < share)
        clauses.append(Clause(f.name, tuple(moves or ["same"])))
    try:
        return schema.with_rules([Link(*clauses)]).links[0]
    except SchemaError:  # says nothing, or pushes what has no least move
        return None


def _some_allowed(rng: np.random.Generator, values: tuple[Any, ...]) -> dict[str, Any]:
    if rng.random() < 0.8:
        return {}
    return {"allowed": tuple(v for v in values if rng.random() < 0.6)}


def random_rows(rng: np.random.Generator, schema: Schema, n: int) -> pd.DataFrame:
    """Valid rows, some of them off the lists and beyond the observed range where that is allowed."""
    return pd.DataFrame(
        {f.name: pd.Series([_raw(rng, f) for _ in range(n)], dtype=object) for f in schema.features}
    )


def _raw(rng: np.random.Generator, f: Feature) -> Any:
    if not f.is_number or (f.kind == "discrete" and rng.random() < 0.9):
        value = f.values[int(rng.integers(len(f.values)))]
        return value if not f.is_number else min(value, math.inf if f.upper is None else f.upper)
    low, high = f.span
    number = float(rng.uniform(low - 0.1 * (high - low), high + 0.1 * (high - low)))
    if rng.random() < 0.3:
        number = float(np.round(number, 1))
    return float(
        np.clip(number, -math.inf if f.lower is None else f.lower, math.inf if f.upper is None else f.upper)
    )


def _punch_holes(rng: np.random.Generator, schema: Schema, X: np.ndarray) -> np.ndarray:
    X = X.copy()
    for j, f in enumerate(schema.features):
        if f.is_number and f.n_columns:
            X[rng.random(len(X)) < 0.15, schema.column_start[j]] = np.nan
    return X


def random_labels(rng: np.random.Generator, X: np.ndarray) -> np.ndarray | None:
    names = [
        np.array([0, 1]), np.array([2, 7]), np.array(["no", "yes"]), np.array([False, True]),
        np.array([1.0, 2.0, 4.0]), np.array(["a", "b", "c"]), np.array([1, 2, 3]),
    ][rng.integers(7)]  # fmt: skip
    value = np.nan_to_num(X) @ rng.normal(size=X.shape[1]) + rng.normal(
        scale=0.3 * X.std() if X.size else 1, size=len(X)
    )
    cuts = np.quantile(value, rng.uniform(0.25, 0.75) if len(names) == 2 else [0.35, 0.7])
    codes = np.searchsorted(np.atleast_1d(cuts), value)
    return names[codes] if len(set(codes.tolist())) == len(names) else None


def many_labels(rng: np.random.Generator, X: np.ndarray) -> np.ndarray | None:
    """Labels of 3 to 5 classes: bands of a number, in a random order."""
    size = int(rng.integers(3, 6))
    value = np.nan_to_num(X) @ rng.normal(size=X.shape[1])
    value += rng.normal(scale=0.3 * X.std() if X.size else 1, size=len(X))
    codes = np.searchsorted(np.quantile(value, np.arange(1, size) / size), value)
    names = rng.permutation(size) if rng.random() < 0.5 else np.array(list("edcba"))[:size]
    return names[codes] if len(set(codes.tolist())) == size else None


def random_forest(rng: np.random.Generator, X: np.ndarray, y: np.ndarray) -> Forest:
    n, seed = int(rng.integers(1, 7)), int(rng.integers(2**31))
    settings = {"max_depth": int(rng.integers(1, 4)), "max_leaf_nodes": int(rng.integers(2, 6))}
    kind = rng.integers(8)
    if kind < 3:
        model = RandomForestClassifier(n, random_state=seed, bootstrap=bool(rng.integers(2)), **settings)
    elif kind < 5:
        model = ExtraTreesClassifier(n, random_state=seed, **settings)
    elif kind < 7:
        model = BaggingClassifier(
            DecisionTreeClassifier(**settings), n, random_state=seed, max_samples=int(rng.choice([4, 28])),
            max_features=float(rng.choice([0.5, 1.0])), bootstrap_features=bool(rng.integers(2)),
        )  # fmt: skip
    else:
        model = DecisionTreeClassifier(random_state=seed, **settings)
    return Forest.from_sklearn(model.fit(X, y))


def remade(forest: Forest, **changes: np.ndarray) -> Forest:
    """A forest with some arrays changed, to be judged by a model rebuilt from them."""
    arrays = {name: getattr(forest, name) for name in ARRAYS} | changes
    return Forest(
        **arrays, classes=forest.classes, n_features=forest.n_features, accepts_missing=forest.accepts_missing
    )


def hostile(rng: np.random.Generator, forest: Forest, schema: Schema) -> Forest:
    """Thresholds closer than float32 can tell, on values that occur, on bounds; leaves that tie."""
    threshold, p = forest.threshold.copy(), forest.probabilities.copy()
    inner = np.flatnonzero(forest.left >= 0)
    candidates = _hostile_values(schema)
    for node in inner:
        column, how = int(forest.feature[node]), rng.random()
        if how < 0.3:
            others = inner[forest.feature[inner] == column]
            near = np.clip(threshold[rng.choice(others)], -1e38, 1e38)
            gap = float(rng.choice([0.0, 1e-12, 1e-9, 3e-8, 1.2e-7])) * max(abs(near), 1e-3)
            threshold[node] = near + gap * rng.choice([-1, 1])
        elif how < 0.6 and len(candidates[column]):
            value = float(rng.choice(candidates[column]))
            f32 = float(np.float32(value))
            threshold[node] = rng.choice(
                [
                    value,
                    f32,
                    np.nextafter(f32, -np.inf),
                    float(np.nextafter(np.float32(value), np.float32(-np.inf))),
                ]
            )
        elif how < 0.63:
            threshold[node] = rng.choice([np.inf, -np.inf, 1e39, -1e39, 3.4028235e38, 1e-46, -1e-46, 0.0])
    leaf = forest.left < 0
    if rng.random() < 0.6:  # pure leaves: every score is a multiple of 1 / N
        p[leaf] = np.eye(p.shape[1])[p[leaf].argmax(axis=1)]
    elif rng.random() < 0.5:  # halves and quarters: exact ties inside a tree
        p[leaf] = np.round(p[leaf] * 4) / 4
        p[leaf, 0] += 1 - p[leaf].sum(axis=1)
        p = np.where(p.min(axis=1, keepdims=True) < 0, np.eye(p.shape[1])[0], p)
    return remade(forest, threshold=threshold, probabilities=p)


def _hostile_values(schema: Schema) -> list[np.ndarray]:
    """Encoded values, per column, that the customers' world is full of."""
    values: list[np.ndarray] = []
    for f in schema.features:
        if not f.ordered:
            values += [np.array([0.0, 0.5, 1.0])] * f.n_columns
        elif f.n_columns:
            numbers = [f.number(v) for v in f.values or f.allowed or ()] + list(f.span)
            numbers += [x for x in (f.lower, f.upper) if x is not None]
            if f.step is not None and not f.values:
                numbers += list(multiples(f.step, *f.span))
            values.append(f.encoded(np.array(numbers)))
    return values


def _odd_row(rng: np.random.Generator, schema: Schema, forest: Forest, row: dict[str, Any]) -> dict[str, Any]:
    for j, f in enumerate(schema.features):
        if not f.is_number or not f.n_columns:
            continue
        if forest.accepts_missing and rng.random() < 0.05:
            row[f.name] = rng.choice([np.nan, None])
        elif f.kind == "continuous" and rng.random() < 0.3:
            mine = (forest.left >= 0) & (forest.feature == schema.column_start[j])
            if mine.any():  # exactly at a split, as near as float32 can tell
                number = float(rng.choice([*around(f, forest.threshold[mine]), *f.span]))
                if (f.lower is None or number >= f.lower) and (f.upper is None or number <= f.upper):
                    row[f.name] = number
    return row


def points_of(schema: Schema, forest: Forest) -> int:
    """About how many points brute force would have to try."""
    total, inner = 1, forest.left >= 0
    for j, f in enumerate(schema.features):
        mine = inner & (forest.feature == schema.column_start[j])
        cells = len(np.unique(forest.threshold[mine])) + 1 if f.n_columns else 1
        if f.action != "fixed":
            total *= (
                cells if f.kind == "continuous" else min(cells, len(f.values)) if f.ordered else len(f.values)
            )
    return total


def scores_by_model(model: Any, X: np.ndarray, voting: str) -> np.ndarray:
    """Scores of all classes by scikit-learn's own code (hard: share of the trees' own predictions)."""
    if voting == "soft":
        return model.predict_proba(X)
    if isinstance(model, DecisionTreeClassifier):
        return (model.predict(X)[:, None] == model.classes_[None, :]).astype(float)
    everything = [np.arange(X.shape[1])] * len(model.estimators_)
    columns = getattr(model, "estimators_features_", everything)
    votes = [tree.predict(X[:, c]) for tree, c in zip(model.estimators_, columns, strict=True)]
    return np.stack([np.mean([v == k for v in votes], axis=0) for k in range(len(model.classes_))], axis=1)
