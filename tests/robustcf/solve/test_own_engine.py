"""Our branch and bound where it is hard: every path of it forced, and larger problems than brute force."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from robustcf.problem.reduction import inside, reduce
from robustcf.solve import Limits, branch_and_bound, engine, get_engine
from robustcf.solve.contract import cheapest, settle
from robustcf.solve.incumbent import find_incumbent
from tests.helpers.problems import (
    IMPATIENT,
    continuous_problems,
    credit_problems,
    random_problem,
)


@pytest.mark.parametrize(
    "constants",
    [
        {},
        IMPATIENT,
        IMPATIENT | {"SHRUNK": 0.99},
        IMPATIENT | {"PROPAGATE": True, "PROPAGATED": 1},
        {"PROPAGATE": False, "HEIGHT": 3, "QUICK": 50},
        {"PROPAGATE": False, "SHRUNK": 0.99, "ROUNDS": 3},
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
    for name, value in IMPATIENT.items():
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
    early, later, truth = (own.nearest(problem, Limits(nodes=n)) for n in (100, 150, math.inf))
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
    monkeypatch.setattr(branch_and_bound, "PROPAGATE", False)
    monkeypatch.setattr(branch_and_bound, "BUDGET", 8)
    answer = own.nearest(problem, Limits(), start)
    assert struck
    assert answer.status == "feasible"
    assert answer.lower_bound <= truth.objective <= answer.objective + 1e-9
    assert answer.lower_bound < answer.objective


def test_whenever_the_clock_strikes_nothing_false_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time ends at the k-th look at the clock, for every early k; relaxations then get no time at all."""
    for name, value in IMPATIENT.items():
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
