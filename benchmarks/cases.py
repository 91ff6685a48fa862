"""The problems of the benchmark: data sets, forests, customers and thresholds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.datasets import Dataset
from robustcf.forest.forest import Label
from robustcf.problem.build import leaf_votes, votes_needed
from robustcf.problem.cells import Geometry, compile_geometry
from robustcf.schema.encode import encode, read_rows

NAIVE = "naive"
PLAUSIBLE: dict[str, rc.Method] = {
    "isolation 0.1": rc.IsolationForest(0.1),
    "isolation 0.1, alpha 0.2": rc.IsolationForest(0.1, rc.DirectSAA(0.2)),
    "1-LOF 0.1": rc.LocalOutlierFactor(0.1),
}
CASE = ["data", "trees", "depth", "moves"]  # the columns that identify a forest and its rules
PROBLEM = [*CASE, "row", "method"]
NAMED = "{} {}x{}, {} moves, row {} {}"  # a problem in messages
DEEP = ("german-credit", "compas", "adult")  # the sets of the depth-8 bar
SYNTHETIC = "synthetic-credit"


@dataclass(frozen=True)
class Case:
    """One forest to explain, fully determined by these values."""

    data: str
    trees: int = 100
    depth: int = 4
    seed: int = 0
    features: int | None = None  # use only the first features, for the growth curves
    frozen: bool = False  # fix the most important fifth of the features

    @property
    def key(self) -> dict[str, Any]:
        moves = "some" if self.frozen else "all"
        return {"data": self.data, "trees": self.trees, "depth": self.depth, "moves": moves}


@dataclass(frozen=True, eq=False)
class Customer:
    """A held-out row and the class that the forest does not predict for it."""

    row: int
    numbers: np.ndarray
    encoded: np.ndarray
    target: Label


@dataclass(eq=False)
class World:
    """A case with its model, forest, geometry and customers.

    `seconds` holds set-up times.
    """

    case: Case
    data: Dataset
    model: RandomForestClassifier
    forest: rc.Forest
    geometry: Geometry
    seconds: dict[str, float]
    _train: np.ndarray
    _held_out: np.ndarray
    _votes: dict[Label, np.ndarray] = field(default_factory=dict)
    _explainers: dict[tuple[str, str, float], rc.Explainer] = field(default_factory=dict)

    def votes(self, target: Label) -> np.ndarray:
        if target not in self._votes:
            self._votes[target] = leaf_votes(self.geometry, target, "soft")
        return self._votes[target]

    def demand(self, target: Label, method: str) -> int:
        """Return the votes that a method ("naive" or an alpha) demands."""
        asked = rc.Naive() if method == NAIVE else rc.DirectSAA(alpha=float(method))
        return votes_needed(self.geometry, target, "soft", asked.threshold(len(self.forest)))

    def explainer(self, solver: str, method: str, seconds: float) -> rc.Explainer:
        """Return an explainer fitted on the training rows.

        It is made once for all customers.
        """
        key = (solver, method, seconds)
        if key not in self._explainers:
            self._explainers[key] = rc.Explainer(
                self.forest,
                self.data.schema,
                PLAUSIBLE[method],
                solver=solver,
                time_limit=seconds,
                training=self.training,
                best_score=False,
            )
        return self._explainers[key]

    @cached_property
    def training(self) -> tuple[np.ndarray, np.ndarray]:
        return self.data.encode(self.data.X.iloc[self._train]), self.data.y[self._train]

    @cached_property
    def _predicted(self) -> np.ndarray:
        return self.forest.predict(self.data.encode(self.data.X.iloc[self._held_out]))

    def customers(self, count: int) -> list[Customer]:
        """Return held-out rows, alternating between the predicted classes if possible."""
        sides = [list(self._held_out[self._predicted == c]) for c in range(2)]
        chosen: list[int] = []
        while len(chosen) < count and any(sides):
            for side in sides:
                if side and len(chosen) < count:
                    chosen.append(int(side.pop(0)))
        numbers = read_rows(self.data.schema, self.data.X.iloc[chosen]).numbers
        encoded = encode(self.data.schema, numbers)
        own = self.forest.predict(encoded)
        return [
            Customer(row, numbers[k], encoded[k], self.forest.classes[1 - own[k]])
            for k, row in enumerate(chosen)
        ]


def data_sets() -> list[str]:
    """Return the paper's data sets that are found, or the built-in one if none is."""
    found = [s.name for s in rc.datasets.available() if s.where not in (None, "built in")]
    return found or [SYNTHETIC]


def suite(name: str, data: Sequence[str], trees: int = 100, depth: int = 4, seed: int = 0) -> list[Case]:
    """Return the forests of a suite.

    `main` and `plausible` are as in the paper. `frozen` fixes a fifth of the features, so that many rows
    have no recourse. `large` has 400 trees. `deep` has depth 8 on three sets.
    """
    if name in ("main", "plausible", "frozen"):
        return [Case(d, trees, depth, seed, frozen=name == "frozen") for d in data]
    if name == "large":
        return [Case(d, 4 * trees, depth, seed) for d in data]
    if name == "deep":
        return [Case(d, trees, 2 * depth, seed) for d in data if d in (*DEEP, SYNTHETIC)]
    raise ValueError(f"no suite {name!r}; choose main, frozen, plausible, large or deep")


def realise(case: Case) -> World:
    """Load the data, split it 80 : 20, train the model and compile the geometry."""
    data = rc.datasets.load(case.data)
    if case.features is not None:
        schema = rc.Schema(data.schema.features[: case.features])
        data = Dataset(data.name, data.X[list(schema.names)], data.y, schema)
    order = np.random.default_rng(case.seed).permutation(len(data))
    cut = len(order) * 4 // 5
    train, held_out = np.sort(order[:cut]), order[cut:]
    X = data.encode(data.X.iloc[train])
    model = RandomForestClassifier(case.trees, max_depth=case.depth, random_state=case.seed, n_jobs=1)
    begin = time.perf_counter()
    model.fit(X, data.y[train])
    trained = time.perf_counter()
    forest = rc.Forest.from_sklearn(model)
    if case.frozen:
        data = replace(data, schema=_frozen(data.schema, model.feature_importances_))
    geometry = compile_geometry(forest, data.schema)
    seconds = {"train": trained - begin, "compile": time.perf_counter() - trained}
    return World(case, data, model, forest, geometry, seconds, train, held_out)


def _frozen(schema: rc.Schema, importances: np.ndarray) -> rc.Schema:
    """Return the schema with the most important fifth of the features fixed."""
    weight = np.add.reduceat(importances, schema.column_start[: len(schema)])
    kept = set(np.argsort(-weight, kind="stable")[: -(-len(schema) // 5)].tolist())
    features = (replace(f, action="fixed") if j in kept else f for j, f in enumerate(schema.features))
    return rc.Schema(tuple(features))
