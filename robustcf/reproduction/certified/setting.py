"""Draw the rows and train all forests of one simulation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

from robustcf.certificate.fresh import Forests, FreshForests, train_fresh
from robustcf.datasets import Dataset
from robustcf.forest.forest import Forest, Label, Voting
from robustcf.reproduction.certified.design import BREAST, DEPTH, FIRST_SHARE, Design, Scenario, Unit
from robustcf.schema.schema import Schema
from robustcf.validate import derive_seed, first_rows, retrain

GROUPS = 10_000  # random forests that decide the truth about a point


@dataclass(eq=False)
class Setting:
    """The rows, the forest and the fresh forests of one simulation.

    `training` holds the rows of the explained forest. If data evolve, the forests of `truth` have more.
    """

    unit: Unit
    schema: Schema
    rows: pd.DataFrame
    names: list[int]
    training: tuple[np.ndarray, np.ndarray]
    forest: Forest
    fresh: tuple[FreshForests, ...]
    truth: Forests
    seconds: dict[str, float]


def prepare(unit: Unit, data: Dataset, design: Design) -> Setting:
    """Train all forests of a simulation without the rows to explain."""
    X, y = data.encoded, data.y
    rng = np.random.default_rng(derive_seed(unit.simulation, "certified", unit.data))
    order = rng.permutation(len(y))
    end = None if design.training_rows is None else design.rows + design.training_rows
    held, used = np.sort(order[: design.rows]), np.sort(order[design.rows : end])
    seed = derive_seed(unit.simulation, "certified", unit.data, "forest")
    evolves = unit.scenario == "evolving"
    first = first_rows(len(used), FIRST_SHARE, seed) if evolves else np.arange(len(used))
    X, y, depth = X[used], y[used], BREAST.get(unit.data, DEPTH)
    begin = time.process_time()
    model = RandomForestClassifier(design.trees, max_depth=depth, random_state=seed).fit(X[first], y[first])
    forest = Forest.from_sklearn(model)
    seconds = {"one forest": time.process_time() - begin}
    begin = time.process_time()
    scenarios: tuple[Scenario, ...] = ("same-data", "evolving") if evolves else ("same-data",)
    orders = [design.certified(0.05, scenario).design for scenario in scenarios]
    fresh = [train_fresh(forest, X, y, order, first=first, seed=seed) for order in orders]
    seconds["fresh forests"] = (time.process_time() - begin) / len(fresh)
    seeds = [derive_seed(unit.simulation, "certified", unit.data, "truth", k) for k in range(design.truth)]
    truth = Forests.of([retrain(forest, X, y, s) for s in seeds])
    training = (X[first], y[first])
    chosen = data.X.iloc[held]
    return Setting(unit, data.schema, chosen, held.tolist(), training, forest, tuple(fresh), truth, seconds)


def true_validity(setting: Setting, point: np.ndarray, target: Label, voting: Voting) -> float:
    """Return the share of random forests of further trees that accept a point.

    A tie counts as rejected.
    """
    return regrouped(setting.truth.values(point, target, voting), len(setting.forest))


def regrouped(values: Sequence[float] | np.ndarray, n_trees: int) -> float:
    """Return the share of 10,000 random forests of these trees whose mean exceeds 1/2."""
    values = np.asarray(values)
    rng = np.random.default_rng(0)
    accepted = 0
    for _ in range(10):
        drawn = rng.integers(0, len(values), size=(GROUPS // 10, n_trees))
        accepted += int((values[drawn].mean(axis=1) > 0.5).sum())
    return accepted / GROUPS
