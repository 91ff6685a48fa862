"""One relaxation for a grid of demands: it may drop options and close problems, never change an answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from robustcf.problem.problem import Problem
from robustcf.problem.reduction import reduce, restrict
from robustcf.solve import Limits, branch_and_bound, get_engine, shared
from robustcf.solve.contract import cheapest
from robustcf.solve.grid import solve_grid
from robustcf.solve.incumbent import find_incumbent
from robustcf.support.tolerances import LEAST_SAVING
from tests.helpers.problems import IMPATIENT, continuous_problems, credit_problems, random_problem


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """Every time that a shared relaxation helped: its bound over the cost to beat, and the share kept."""
    seen: list[tuple[float, float]] = []
    keep = shared.Shared.keep

    def watched(
        self: shared.Shared, problem: Problem, alive: np.ndarray, upper: float, seconds: float
    ) -> Any:
        found = keep(self, problem, alive, upper, seconds)
        if found is not None:
            seen.append((found[0] / upper, found[1].sum() / alive.sum()))
        return found

    monkeypatch.setattr(shared.Shared, "keep", watched)
    return seen


def demands_of(problem: Problem, count: int) -> list[int]:
    """From what the cheapest choice has to more than any choice can have."""
    low = int(problem.votes_of(cheapest(problem))[0])
    most = int(np.maximum.reduceat(problem.votes[0], problem.tree_start[:-1]).sum())
    return [int(d) for d in np.linspace(low + 1, most + 1, count)]


@pytest.mark.parametrize("patience", [{}, IMPATIENT, IMPATIENT | {"SHRUNK": 0.99}])
def test_grids_of_random_problems_equal_the_oracle(
    patience: dict[str, float], asked: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in patience.items():
        monkeypatch.setattr(branch_and_bound, name, value)
    monkeypatch.setattr(shared, "WIDER", 100)
    rng = np.random.default_rng(17)
    own, oracle = get_engine("engine"), get_engine("oracle")
    for _ in range(400):
        problem = random_problem(rng)
        if not problem.n_trees:
            continue
        demands = demands_of(problem, 6)
        truths = solve_grid(problem, demands, oracle, Limits())
        for truth, answer in zip(truths, solve_grid(problem, demands, own, Limits()), strict=True):
            assert answer.status == truth.status
            assert answer.objective == pytest.approx(truth.objective, abs=1e-9)
    if patience:
        assert len(asked) > 100
        assert any(bound >= 1 - LEAST_SAVING for bound, _ in asked)  # closed, as the search closes it
        assert any(bound < 1 and kept < 1 for bound, kept in asked)


@pytest.mark.parametrize(
    "made", [partial(credit_problems, 40, 4, 3, 0.5), partial(continuous_problems, 3, 0.5)]
)
def test_grids_of_customers_equal_single_solves(
    made: Callable[[], list[Problem]], asked: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branch_and_bound, "PROPAGATE", False)
    monkeypatch.setattr(branch_and_bound, "QUICK", 1)
    monkeypatch.setattr(shared, "WIDER", 10)
    own = get_engine("engine")
    for problem in made():
        low, high = int(problem.demand[0]), demands_of(problem, 2)[1]
        demands = [int(low + share * (high - low)) for share in (0.0, 0.08, 0.12, 0.16, 0.2, 0.24, 0.3)]
        for demand, answer in zip(demands, solve_grid(problem, demands, own, Limits()), strict=True):
            alone = problem._replace(demand=np.array([demand]))
            truth = own.nearest(alone, Limits(), find_incumbent(alone, cheapest(alone)))
            assert (answer.status, truth.status) in (("optimal", "optimal"), ("infeasible", "infeasible"))
            assert answer.objective == pytest.approx(truth.objective, abs=1e-9)
    assert len(asked) > 3


def test_what_it_drops_no_cheaper_choice_uses() -> None:
    """Against brute force: every choice that reaches the demand for less lies among what is kept."""
    rng = np.random.default_rng(23)
    oracle, helped = get_engine("oracle"), 0
    for _ in range(300):
        whole = random_problem(rng)
        demands = demands_of(whole, 5) if whole.n_trees else []
        solved = [s for s in solve_grid(whole, demands, oracle, Limits()) if s.status == "optimal"]
        dearest = max((s.objective for s in solved), default=0.0)
        relaxations = shared.Shared(whole, [dearest + 1.0])
        for demand, solution in zip(demands, solved, strict=False):
            upper = solution.objective + 0.3
            here = reduce(whole._replace(demand=np.array([demand])), upper)
            if not here.n_leaves or (np.diff(here.tree_start) == 0).any():
                continue
            relaxations.set_demand(np.array([demand]))
            alive = np.ones(len(here.cost), dtype=bool)
            if not relaxations.prepare(here, upper):
                continue
            found = relaxations.keep(here, alive, upper, 10.0)
            if found is None:
                continue
            bound, kept = found
            helped += not kept.all()
            assert bound <= solution.objective + 1e-9
            best = oracle.nearest(restrict(here, kept, math.inf), Limits())
            assert best.objective == pytest.approx(solution.objective, abs=1e-9)
    assert helped > 50
