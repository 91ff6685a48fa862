"""Our branch and bound where it is hard: every path of it forced, and larger problems than brute force."""

from __future__ import annotations

import math
import time
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.problem.build import build_problem, leaf_votes, votes_needed
from robustcf.problem.cells import compile_geometry
from robustcf.problem.moves import moves_of
from robustcf.problem.problem import Problem
from robustcf.problem.reduction import inside, reduce, restrict
from robustcf.schema.encode import encode, read_rows
from robustcf.solve import Limits, branch_and_bound, engine, get_engine
from robustcf.solve.contract import cheapest, settle
from robustcf.solve.incumbent import find_incumbent

IMPATIENT = {"ROUNDS": 0, "QUICK": 1, "BUDGET": 2, "HEIGHT": 4, "CHUNK": 2}


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


@pytest.mark.parametrize(
    "constants",
    [
        {},
        IMPATIENT,
        IMPATIENT | {"SHRUNK": 0.99},
        IMPATIENT | {"ENUMERATE": 0},
        {"ENUMERATE": 0, "HEIGHT": 3, "QUICK": 50},
        {"ENUMERATE": 0, "SHRUNK": 0.99, "ROUNDS": 3},
    ],
)
def test_engine_equals_oracle_on_bare_problems(
    constants: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in constants.items():
        monkeypatch.setattr(branch_and_bound, name, value)
    rng = np.random.default_rng(len(constants))
    own, oracle, found = engine.OwnEngine(), get_engine("oracle"), {"optimal": 0, "infeasible": 0}
    for k in range(400):
        problem = random_problem(rng)
        truth = oracle.nearest(problem, Limits())
        start = find_incumbent(problem, cheapest(problem)) if k % 2 else None
        answer = own.nearest(problem, Limits(), start)
        assert answer.status == truth.status
        assert answer.objective == pytest.approx(truth.objective, abs=1e-9)
        if answer.choice is not None:
            assert problem.reaches(answer.choice)
            assert problem.objective(answer.choice) == answer.objective == answer.lower_bound
        best, highest = own.best_score(problem, Limits()), oracle.best_score(problem, Limits())
        assert best.votes == best.at_most == highest.votes
        assert best.choice is not None
        assert problem.votes_of(best.choice)[0] == best.votes
        found[truth.status] += 1
    assert min(found.values()) > 20, found


@pytest.mark.parametrize(
    ("n_trees", "depth", "tau", "voting", "constants"),
    [
        (30, 3, 0.5, "soft", {}),
        (30, 3, 0.62, "soft", IMPATIENT | {"HEIGHT": 16}),
        (31, 4, 0.7, "hard", {"QUICK": 4, "BUDGET": 16}),
        (40, 4, 0.6, "soft", {"QUICK": 4, "BUDGET": 16, "SHRUNK": 0.9}),
    ],
)
def test_engine_equals_highs_on_credit(
    n_trees: int,
    depth: int,
    tau: float,
    voting: str,
    constants: dict[str, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in constants.items():
        monkeypatch.setattr(branch_and_bound, name, value)
    for problem in credit_problems(n_trees, depth, 4, tau, voting):
        if settle(problem) is not None:
            continue
        start = find_incumbent(problem, cheapest(problem))
        reduced = reduce(problem, math.inf if start is None else problem.objective(start))
        begin = inside(reduced, problem, start)
        answers = [get_engine(name).nearest(reduced, Limits(60), begin) for name in ("engine", "highs")]
        assert answers[0].status == answers[1].status
        assert answers[0].objective == pytest.approx(answers[1].objective, abs=1e-9)


def test_limit_leaves_a_point_and_a_valid_bound() -> None:
    (problem,) = credit_problems(60, 4, 1, 0.62)
    start = find_incumbent(problem, cheapest(problem))
    assert start is not None
    own = get_engine("engine")
    truth = own.nearest(problem, Limits(60), start)
    assert truth.status == "optimal"
    for seconds in (0.0, 0.01, 0.03):
        begin = time.monotonic()
        cut_short = own.nearest(problem, Limits(seconds), start)
        assert time.monotonic() - begin < seconds + 1.0
        assert cut_short.status in ("feasible", "optimal")
        assert cut_short.lower_bound <= truth.objective + 1e-9 <= cut_short.objective + 2e-9
    assert own.nearest(problem, Limits(0.0)).status in ("unknown", "feasible")


def test_a_limit_on_nodes_leaves_a_valid_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (IMPATIENT | {"ENUMERATE": 0}).items():
        monkeypatch.setattr(branch_and_bound, name, value)
    rng = np.random.default_rng(11)
    own, oracle, cut_short = engine.OwnEngine(), get_engine("oracle"), 0
    for k in range(600):
        problem = random_problem(rng)
        truth = oracle.nearest(problem, Limits())
        start = find_incumbent(problem, cheapest(problem))
        answer = own.nearest(problem, Limits(nodes=1 + k % 6), start)
        assert answer.lower_bound <= truth.objective + 1e-9
        assert answer.objective >= truth.objective - 1e-9
        cut_short += answer.status == "feasible"
    assert cut_short > 20


def test_the_bound_at_a_limit_counts_the_halves_nobody_looked_at() -> None:
    problem = continuous_problems(3, 0.6)[2]
    start = find_incumbent(problem, cheapest(problem))
    assert start is not None
    problem, own = reduce(problem, problem.objective(start)), get_engine("engine")
    early, later, truth = (own.nearest(problem, Limits(nodes=n)) for n in (100, 400, math.inf))
    assert (early.status, later.status, truth.status) == ("feasible", "feasible", "optimal")
    assert early.lower_bound < later.lower_bound < truth.objective


@pytest.mark.parametrize("last", [1, 2, 3, 4, 5, 6, 8, 12])
def test_time_that_ends_within_a_relaxation_costs_the_proof_and_nothing_else(
    last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock strikes while the `last` relaxation is solved: what was open then stays open."""
    problem = continuous_problems(3, 0.6)[2]
    own = get_engine("engine")
    far = problem._replace(demand=(problem.demand * 1.05).astype(np.int64))
    start = find_incumbent(far, cheapest(far))
    assert start is not None
    truth = own.nearest(problem, Limits(), start)
    assert truth.objective < problem.objective(start)
    struck, calls, bound = False, 0, branch_and_bound.Relaxation.bound

    def watched(
        self: branch_and_bound.Relaxation, alive: np.ndarray, seconds: float, *enough: float
    ) -> float:
        nonlocal struck, calls
        calls += 1
        struck = struck or calls == last
        return math.nan if struck else bound(self, alive, seconds, *enough)

    clock = time.monotonic
    monkeypatch.setattr(branch_and_bound.Relaxation, "bound", watched)
    monkeypatch.setattr(branch_and_bound.time, "monotonic", lambda: clock() + 1e6 * struck)
    monkeypatch.setattr(branch_and_bound, "ENUMERATE", 0)
    monkeypatch.setattr(branch_and_bound, "BUDGET", 8)
    answer = own.nearest(problem, Limits(), start)
    assert struck
    assert answer.status == "feasible"
    assert answer.lower_bound <= truth.objective <= answer.objective + 1e-9
    assert answer.lower_bound < answer.objective


def test_whenever_the_clock_strikes_nothing_false_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time ends at the k-th look at the clock, for every early k; relaxations then get no time at all."""
    for name, value in (IMPATIENT | {"ENUMERATE": 0}).items():
        monkeypatch.setattr(branch_and_bound, name, value)
    rng = np.random.default_rng(29)
    own, oracle, clock, cut_short, looks = engine.OwnEngine(), get_engine("oracle"), time.monotonic, 0, 0

    def struck(at: int) -> None:
        nonlocal looks
        looks = 0

        def look() -> float:
            nonlocal looks
            looks += 1
            return clock() + (1e6 if looks > at else 0.0)

        monkeypatch.setattr(branch_and_bound.time, "monotonic", look)

    for k in range(400):
        problem = random_problem(rng)
        truth, highest = oracle.nearest(problem, Limits()), oracle.best_score(problem, Limits())
        struck(k % 12)
        start = find_incumbent(problem, cheapest(problem)) if k % 2 else None
        answer = own.nearest(problem, Limits(), start)
        struck(k % 12)
        best = own.best_score(problem, Limits())
        assert answer.lower_bound <= truth.objective + 1e-9
        assert answer.objective >= truth.objective - 1e-9
        if answer.status == "optimal":
            assert answer.objective == pytest.approx(truth.objective, abs=1e-9)
        assert answer.status != "infeasible" or truth.status == "infeasible"
        assert best.votes <= highest.votes <= best.at_most
        cut_short += answer.status in ("feasible", "unknown")
    assert cut_short > 50
