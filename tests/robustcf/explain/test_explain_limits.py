"""`Explainer` at its limits: of time, of a licence, of an engine's size."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.problem.problem import Problem
from robustcf.solve import BestScore, CutShort, Limits, Solution, SolverError
from robustcf.solve.oracle import Oracle
from tests.helpers.explainworld import SCHEMA, labels, rows, trained


@pytest.fixture(scope="module")
def forest() -> rc.Forest:
    return trained()


class Slow:
    """An engine whose limit always comes first."""

    name = "slow"

    def __init__(self, found: bool) -> None:
        self.found = found

    def nearest(
        self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None, lower_bound: float = 0.0
    ) -> Solution:
        if self.found and incumbent is not None:
            return Solution(CutShort(lower_bound + 1e-3), incumbent, problem.objective(incumbent))
        return Solution(CutShort(lower_bound))

    def best_score(self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None) -> BestScore:
        return BestScore(None, 0, 10**15)


@pytest.mark.parametrize("found", [True, False])
def test_a_limit_gives_feasible_with_a_bound_or_timeout(
    forest: rc.Forest, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not found:
        monkeypatch.setattr("robustcf.solve.grid.find_incumbent", lambda problem, start: None)
    explainer = rc.Explainer(forest, SCHEMA, [rc.Naive(), rc.DirectSAA(0.1)], target="good", solver="highs")
    exact = explainer.explain_many(rows(40, seed=12))
    explainer.engine = Slow(found)
    answers = explainer.explain_many(rows(40, seed=12))
    limited = [(a, e) for a, e in zip(answers, exact, strict=True) if a.status in ("feasible", "timeout")]
    assert len(limited) > 5
    for answer, proved in limited:
        if not found:
            assert answer.status == "timeout"
            assert answer.point is None
            assert 0 <= answer.lower_bound <= proved.distance + 1e-12
        if answer.status == "feasible":
            assert answer.verified
            assert answer.lower_bound <= answer.objective
            assert proved.distance <= answer.objective + 1e-12
            assert answer.gap == pytest.approx((answer.objective - answer.lower_bound) / answer.objective)


@pytest.mark.parametrize("solver", ["highs", "gurobi", "auto"])
def test_a_tiny_time_limit_never_claims_too_much(solver: str) -> None:
    frame = rc.datasets.synthetic_credit(n=1500, seed=0)
    model = RandomForestClassifier(60, max_depth=6, random_state=0).fit(frame.encode(frame.X), frame.y)
    forest = rc.Forest.from_sklearn(model)
    some = frame.X.iloc[np.flatnonzero(model.predict(frame.encode(frame.X)) == 0)[:3]]
    begin = time.perf_counter()
    answers = rc.Explainer(
        forest, frame.schema, rc.DirectSAA(0.05), solver=solver, time_limit=1e-3
    ).explain_many(some)
    assert time.perf_counter() - begin < 30
    for answer in answers:
        if answer.status == "error":
            assert solver == "gurobi"
            assert answer.reason is not None
            assert answer.reason.startswith("SolverError: Gurobi's licence is too small")
            continue
        assert answer.status in ("optimal", "feasible", "timeout", "no_recourse")
        if answer.point is not None:
            assert answer.verified
            assert answer.lower_bound <= answer.objective + 1e-12


def too_large(*_: Any, **__: Any) -> Any:
    raise SolverError(
        "Gurobi's licence is too small for this problem (3000 variables, 1 rows); use solver='highs'"
    )


def test_gurobi_says_in_one_line_that_its_licence_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole forest, unreduced, has more leaves than the licence of the pip package admits variables."""
    pytest.importorskip("gurobipy", reason="gurobipy is not installed")
    monkeypatch.setattr("robustcf.solve.grid.reduce", lambda problem, upper: problem)
    frame = rows(600)
    data = rc.datasets.Dataset("rows", frame, np.zeros(600, dtype=int), SCHEMA)
    model = RandomForestClassifier(60, random_state=0).fit(data.encode(frame), labels(frame))
    explainer = rc.Explainer(
        rc.Forest.from_sklearn(model), SCHEMA, rc.DirectSAA(0.05), target="good", solver="gurobi"
    )
    answers = [a for a in explainer.explain_many(rows(20, seed=5)) if a.status != "already_favourable"][:3]
    for answer in answers:
        if answer.status == "optimal":  # a full licence is installed
            assert answer.verified
        else:
            assert answer.status == "error"
            assert answer.reason is not None
            assert re.match(r"SolverError: Gurobi's licence is too small .*\d variables", answer.reason)
            assert "solver='highs'" in answer.reason
            assert "\n" not in answer.reason
    assert answers


def test_auto_goes_on_with_highs_where_the_licence_ends(
    forest: rc.Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = next(iter(rows(1, seed=13).to_dict("records")))
    exact = rc.Explainer(forest, SCHEMA, rc.DirectSAA(0.05), solver="highs").explain(row)
    pytest.importorskip("gurobipy", reason="gurobipy is not installed")
    monkeypatch.setattr("robustcf.solve.gurobi.Gurobi.solve", too_large)
    answer = rc.Explainer(forest, SCHEMA, rc.DirectSAA(0.05), solver="auto").explain(row)
    assert answer.status == exact.status == "optimal"
    assert answer.distance == pytest.approx(exact.distance, abs=1e-9)


def test_the_oracle_refuses_what_it_cannot_enumerate(forest: rc.Forest) -> None:
    wide = Problem(
        start=np.arange(0, 101 * 10, 10), cost=np.zeros(1000), cell=np.arange(1000),
        ordered=np.ones(100, dtype=bool),
        tree_start=np.array([0]), votes=np.zeros((1, 0), dtype=np.int64), demand=np.array([0]),
        entry_start=np.array([0]), feature=np.zeros(0, dtype=np.int64), lo=np.zeros(0, dtype=np.int64),
        hi=np.zeros(0, dtype=np.int64), set=np.zeros(0, dtype=np.int64), member=np.ones((1, 1), dtype=bool),
    )  # fmt: skip
    with pytest.raises(SolverError, match="the oracle tries at most"):
        Oracle().nearest(wide, Limits())


@pytest.mark.slow  # a clock in it: only a quiet machine can say
def test_a_single_call_needs_little_beside_the_solver(forest: rc.Forest) -> None:
    explainer = rc.Explainer(forest, SCHEMA, solver="highs")
    row = next(iter(rows(1, seed=14).to_dict("records")))
    explainer.explain(row)  # compiled once
    outside = []
    for _ in range(15):
        begin = time.perf_counter()
        answer = explainer.explain(row)
        outside.append(time.perf_counter() - begin - answer.seconds)
    assert np.median(outside) < 0.020
