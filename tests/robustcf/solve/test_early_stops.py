"""Whenever a search is stopped, nothing false is claimed: every family, both votings, against brute force."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.problem.problem import Problem
from robustcf.solve import Limits, get_engine
from robustcf.solve.contract import CutShort, Finished, Solution, cheapest
from robustcf.solve.grid import solve_grid
from tests import stop_campaign
from tests.helpers.early_stops import clock_that_strikes, impatient
from tests.helpers.problems import IMPATIENT, random_problem
from tests.stop_campaign import FAMILIES, bare_problems, stopped_questions


def reported_row() -> tuple[rc.Forest, rc.datasets.Dataset, pd.Series]:
    """The forest and row of a false `no_recourse`: all 40 trees can agree, at a distance of 1.0423."""
    X, y = make_classification(600, 20, n_informative=11, n_redundant=0, flip_y=0.05, random_state=5)
    frame = pd.DataFrame(X).add_prefix("x")
    data = rc.datasets.Dataset("rows", frame, y, rc.Schema.from_frame(frame))
    encoded = data.encode(frame)
    model = RandomForestClassifier(40, max_depth=4, random_state=5).fit(encoded, y)
    row = frame.iloc[int(np.flatnonzero(model.predict(encoded) == 0)[0])]
    return rc.Forest.from_sklearn(model), data, row


def test_a_limit_is_no_proof_of_no_recourse_under_hard_votes() -> None:
    """A bound of 1.8e-14 from a search without time once made `no_recourse` of a row with an optimum."""
    forest, data, row = reported_row()

    def answer() -> rc.Counterfactual:
        method = rc.ConvexApproximation(0.05)
        return rc.Explainer(forest, data.schema, method, target=1).explain(row)

    truth = answer()
    assert truth.status == "optimal"
    assert truth.objective == pytest.approx(1.0423, abs=1e-4)
    assert truth.score == 1.0
    seen: Counter[str] = Counter()
    for look in range(2, 60):
        with clock_that_strikes(look):
            cut = answer()
        seen[cut.status] += 1
        assert cut.status in ("optimal", "feasible", "timeout")
        if cut.status == "optimal":
            assert cut.objective == pytest.approx(truth.objective, abs=1e-9)
        assert not cut.lower_bound > truth.objective + 1e-9
    assert seen["timeout"]
    assert seen["feasible"] or seen["optimal"]


@pytest.mark.parametrize("limit", [0.001, 0.05, 0.2])
def test_fifty_milliseconds_are_no_proof_of_no_recourse(limit: float) -> None:
    """The same row under the limit with which it was reported."""
    forest, data, row = reported_row()
    answer = rc.Explainer(
        forest, data.schema, rc.ConvexApproximation(0.05), target=1, time_limit=limit
    ).explain(row)
    assert answer.status in ("optimal", "feasible", "timeout")
    assert not answer.lower_bound > 1.0424  # the optimum is 1.0423


def test_a_status_is_derived_from_how_the_search_ended() -> None:
    choice = np.zeros(1, dtype=np.int64)
    assert Solution(Finished(), choice, 2.0).status == "optimal"
    assert Solution(Finished()).status == "infeasible"
    assert Solution(CutShort(5.0), choice, 2.0).status == "feasible"  # however high the bound
    assert Solution(CutShort(5.0), choice, 2.0).lower_bound == 2.0
    assert Solution(CutShort(math.inf)).status == "unknown"


def test_a_bound_of_an_unfinished_search_proves_nothing_at_a_higher_demand() -> None:
    """An engine's bound at one demand equals a known point's cost at the next: that is no proof."""
    rng, tried = np.random.default_rng(3), 0
    oracle = get_engine("oracle")

    class Boastful:
        """Never finishes, and gives the best bound there is."""

        name = "boastful"

        def nearest(
            self, problem: Problem, limits: Limits, incumbent: Any = None, lower_bound: float = 0.0
        ) -> Any:
            truth = oracle.nearest(problem, limits)
            return Solution(CutShort(truth.objective), truth.choice, truth.objective)

        def best_score(self, problem: Problem, limits: Limits, incumbent: Any = None) -> Any:
            return oracle.best_score(problem, limits)

    for _ in range(200):
        problem = random_problem(rng)
        demand = int(problem.demand[0])
        for solution in solve_grid(problem, [demand, demand + 1], Boastful(), Limits()):
            if solution.choice is not None and solution.objective > problem.objective(cheapest(problem)):
                assert solution.status == "feasible"
                tried += 1
    assert tried > 50


@pytest.mark.parametrize("settings", [IMPATIENT, {}, IMPATIENT | {"SHRUNK": 0.99}])
def test_the_engine_claims_nothing_false_when_stopped(settings: dict[str, float]) -> None:
    with impatient(settings):
        block = bare_problems(len(settings), 600)
    assert block.disagreements == []
    seen = block.statuses
    if settings:
        assert min(seen[s] for s in ("optimal", "infeasible", "feasible", "unknown")) > 10, seen


@pytest.mark.parametrize(
    ("family", "seeds", "stopped"),
    [("thresholds", 40, 10), ("isolation", 40, 1), ("1-LOF", 40, 10), ("robx", 24, 1)],
)  # small isolation problems close at once
def test_no_family_claims_anything_false_when_stopped(family: str, seeds: int, stopped: int) -> None:
    with impatient(IMPATIENT):
        block = stopped_questions(FAMILIES[family], range(seeds))
    assert block.disagreements == []
    seen = block.statuses
    assert seen["optimal"] + seen["heuristic"] > seeds / 2, seen
    assert seen["feasible"] + seen["timeout"] >= stopped, seen


@pytest.mark.slow
def test_fifty_thousand_stopped_problems_agree_with_brute_force(tmp_path: Path) -> None:
    assert stop_campaign.main(["--problems", "50000", "--out", str(tmp_path)]) == 0
