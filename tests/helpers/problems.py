"""Problems for the engines: of real forests, and of boxes at random."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.problem.build import build_problem, leaf_votes, votes_needed
from robustcf.problem.cells import compile_geometry
from robustcf.problem.moves import moves_of
from robustcf.problem.problem import Problem
from robustcf.problem.reduction import restrict
from robustcf.schema.encode import encode, read_rows

IMPATIENT = {"ROUNDS": 0, "QUICK": 1, "BUDGET": 2, "HEIGHT": 4, "CHUNK": 2, "PROPAGATE": False}


def credit_problems(n_trees: int, depth: int, rows: int, tau: float, voting: str = "soft") -> list[Problem]:
    """Problems of customers of the embedded data."""
    data = rc.datasets.synthetic_credit(n=400, seed=depth)
    model = RandomForestClassifier(n_trees, max_depth=depth, random_state=depth)
    return problems_of(model, data.schema, data.X, data.y, rows, tau, voting)


def continuous_problems(rows: int, tau: float) -> list[Problem]:
    """Harder ones: fifteen continuous features, ten of which tell something."""
    numbers, y = make_classification(400, 15, n_informative=10, class_sep=0.6, random_state=0)
    X = pd.DataFrame(numbers.round(2)).add_prefix("x")
    return problems_of(
        RandomForestClassifier(60, max_depth=4, random_state=0), rc.Schema.from_frame(X), X, y, rows, tau
    )


def problems_of(
    model: RandomForestClassifier,
    schema: rc.Schema,
    frame: pd.DataFrame,
    y: np.ndarray,
    rows: int,
    tau: float,
    voting: str = "soft",
) -> list[Problem]:
    numbers = read_rows(schema, frame).numbers
    X = encode(schema, numbers)
    forest = rc.Forest.from_sklearn(model.fit(X, y))
    geometry = compile_geometry(forest, schema)
    problems = []
    for i in np.flatnonzero(forest.predict(X) == 0)[:rows]:
        votes, needed = leaf_votes(geometry, 1, voting), votes_needed(geometry, 1, voting, tau)
        problems.append(build_problem(geometry, moves_of(geometry, numbers[i], X[i]), votes, needed))
    assert len(problems) == rows
    return problems


def random_problem(rng: np.random.Generator) -> Problem:
    """Boxes at random: leaves of a tree need not even come from splits, only cover every choice."""
    n_features, n_trees = int(rng.integers(1, 5)), int(rng.integers(1, 8))
    sizes = rng.integers(1, 6, n_features)
    start = np.concatenate([[0], np.cumsum(sizes)])
    ordered = rng.random(n_features) < 0.6
    cost = rng.integers(0, 8, start[-1]) / 8 if rng.random() < 0.5 else rng.random(start[-1])
    leaves: list[list[tuple[int, int, int, int]]] = []
    members: list[np.ndarray] = []
    tree_start = [0]

    def grow(box: list[np.ndarray], depth: int) -> None:
        wide = [f for f in range(n_features) if box[f].sum() > 1]
        if depth == 0 or not wide or rng.random() < 0.15:
            entries = []
            for f in range(n_features):
                if box[f].all():
                    continue
                if ordered[f]:
                    inside_box = np.flatnonzero(box[f])
                    entries.append((f, int(inside_box[0]), int(inside_box[-1]), -1))
                else:
                    member = np.zeros(6, dtype=bool)
                    member[: len(box[f])] = box[f]
                    members.append(member)
                    entries.append((f, 0, len(box[f]) - 1, len(members) - 1))
            leaves.append(entries)
            return
        f = int(rng.choice(wide))
        options = np.flatnonzero(box[f])
        yes = np.zeros(len(box[f]), dtype=bool)
        if ordered[f]:
            yes[options[int(rng.integers(1, len(options))) :]] = True
        else:
            yes[rng.choice(options)] = True
        for side in (box[f] & yes, box[f] & ~yes):
            grow([side if g == f else box[g] for g in range(n_features)], depth - 1)

    for _ in range(n_trees):
        grow([np.ones(s, dtype=bool) for s in sizes], int(rng.integers(1, 4)))
        tree_start.append(len(leaves))
    entries = [e for leaf in leaves for e in leaf]
    table = np.array(entries, dtype=np.int64).reshape(-1, 4)
    hard = rng.random() < 0.5
    votes = rng.integers(0, 2 if hard else 2**40, (1, len(leaves)))
    most = sum(votes[0, a:b].max() for a, b in pairwise(tree_start))
    whole = Problem(
        start=start,
        cost=cost.astype(float),
        cell=np.arange(start[-1]),
        ordered=ordered,
        tree_start=np.array(tree_start),
        votes=votes.astype(np.int64),
        demand=np.array([int(most * rng.uniform(0.4, 1.02))]),
        entry_start=np.concatenate([[0], np.cumsum([len(leaf) for leaf in leaves])]).astype(np.int64),
        feature=table[:, 0].copy(),
        lo=table[:, 1].copy(),
        hi=table[:, 2].copy(),
        set=table[:, 3].copy(),
        member=np.array(members) if members else np.ones((1, 6), dtype=bool),
    )
    return restrict(whole, np.ones(start[-1], dtype=bool), math.inf)
