"""Whenever a search is stopped, nothing false is claimed: every family, both votings, against brute force."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.problem import Problem
from robustcf.solve import Limits, engine, get_engine
from robustcf.solve.contract import CutShort, Finished, Solution, cheapest
from robustcf.solve.grid import solve_grid
from robustcf.solve.incumbent import find_incumbent
from tests.by_hand import solve_by_hand
from tests.early_stops import (
    IMPATIENT,
    check_claims,
    clock_that_strikes,
    impatient,
    with_conditions,
    with_nodes,
    without_first_points,
)
from tests.plausible_by_hand import Expected, Question, isolation_by_hand, lof_question
from tests.robustcf.test_own_engine import random_problem
from tests.worlds import Score, World, make_worlds


def test_a_limit_is_no_proof_of_no_recourse_under_hard_votes() -> None:
    """A bound of 1.8e-14 from a search without time once made `no_recourse` of a row with an optimum."""
    X, y = make_classification(600, 20, n_informative=11, n_redundant=0, flip_y=0.05, random_state=5)
    frame = pd.DataFrame(X).add_prefix("x")
    data = rc.datasets.Dataset("rows", frame, y, rc.Schema.from_frame(frame))
    encoded = data.encode(frame)
    model = RandomForestClassifier(40, max_depth=4, random_state=5).fit(encoded, y)
    forest, row = (
        rc.Forest.from_sklearn(model),
        frame.iloc[int(np.flatnonzero(model.predict(encoded) == 0)[0])],
    )

    def answer() -> rc.Counterfactual:
        method = rc.ConvexApproximation(0.05)
        return rc.Explainer(forest, data.schema, method, target=1).explain(row)

    truth = answer()
    assert truth.status == "optimal"
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


def stops(rng: np.random.Generator, most: int) -> tuple[int, float]:
    """A look at the clock at which time ends, and a number of nodes; one of them without limit."""
    if rng.random() < 0.5:
        return int(rng.integers(0, most)), math.inf
    return 10**9, float(rng.integers(1, 9))


def check_bare_problems(seed: int, count: int) -> Counter[str]:
    """The engine on random problems of one to three conditions, stopped early."""
    rng = np.random.default_rng(seed)
    own, oracle, seen = engine.OwnEngine(), get_engine("oracle"), Counter[str]()
    for k in range(count):
        problem = random_problem(rng)
        if problem.n_trees and k % 2:
            problem = with_conditions(rng, problem, int(rng.integers(0, 3)))
        truth, highest = oracle.nearest(problem, Limits()), oracle.best_score(problem, Limits())
        look, nodes = stops(rng, 25)
        start = find_incumbent(problem, cheapest(problem)) if rng.random() < 0.3 else None
        with clock_that_strikes(look):
            answer = own.nearest(problem, Limits(nodes=nodes), start)
        with clock_that_strikes(look):
            best = own.best_score(problem, Limits(nodes=nodes))
        seen[answer.status] += 1
        assert answer.lower_bound <= truth.objective + 1e-9, (seed, k)
        assert answer.objective >= truth.objective - 1e-9, (seed, k)
        if answer.status == "optimal":
            assert answer.objective == pytest.approx(truth.objective, abs=1e-9), (seed, k)
        assert answer.status != "infeasible" or truth.status == "infeasible", (seed, k)
        if best.choice is not None:
            assert best.votes <= highest.votes <= best.at_most, (seed, k)
    return seen


@pytest.mark.parametrize("settings", [IMPATIENT, {}, IMPATIENT | {"SHRUNK": 0.99}])
def test_the_engine_claims_nothing_false_when_stopped(settings: dict[str, float]) -> None:
    with impatient(settings):
        seen = check_bare_problems(len(settings), 600)
    if settings:
        assert min(seen[s] for s in ("optimal", "infeasible", "feasible", "unknown")) > 10, seen


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_the_engine_claims_nothing_false_when_stopped_on_many(block: int) -> None:
    with impatient([IMPATIENT, IMPATIENT | {"SHRUNK": 0.99}, {"ENUMERATE": 0}, {}][block % 4]):
        check_bare_problems(10**6 + block, 2500)


def thresholds_by_hand(world: World, seed: int) -> Question | None:
    truth = solve_by_hand(world)
    if truth.own == truth.target:
        return None
    expected = [
        Expected(tau, "no_recourse", best_score=truth.best_score)
        if least is None
        else Expected(tau, "optimal", (least, least))
        for tau, least in truth.distances.items()
    ]
    return Question(world, [Score(tau) for tau in truth.distances], (np.zeros((0, 0)), np.zeros(0)), expected)


def check_stopped(by_hand: Callable[[World, int], Question | None], seeds: range) -> Counter[str]:
    """Every world's question, with time or nodes ending at random places."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for world in make_worlds(seed):
            question = by_hand(world, seed)
            if question is None:
                continue
            world = question.world
            explainer = rc.Explainer(
                world.forest,
                world.schema,
                question.methods,
                target=world.target,
                voting=world.voting,
                training=question.training if len(question.training[0]) else None,
            )
            for _ in range(4):
                look, nodes = stops(rng, 8)
                with_nodes(explainer, nodes)
                with without_first_points(rng.random() < 0.7), clock_that_strikes(look):
                    answers = explainer.explain_grid(world.row)
                for truth, answer in zip(question.expected, answers, strict=True):
                    try:
                        check_claims(answer, truth)
                    except AssertionError as error:
                        error.add_note(f"seed {seed}, look {look}, nodes {nodes}: {answer} against {truth}")
                        raise
                    seen[answer.status] += 1
    return seen


FAMILIES = {"thresholds": thresholds_by_hand, "isolation": isolation_by_hand, "1-LOF": lof_question}


@pytest.mark.parametrize(
    ("family", "stopped"),
    [("thresholds", 10), ("isolation", 1), ("1-LOF", 10)],  # small isolation problems close at once
)
def test_no_family_claims_anything_false_when_stopped(family: str, stopped: int) -> None:
    with impatient(IMPATIENT):
        seen = check_stopped(FAMILIES[family], range(40))
    assert seen["optimal"] > 50, seen
    assert seen["feasible"] + seen["timeout"] >= stopped, seen


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_family_claims_anything_false_when_stopped_on_many(family: str, block: int) -> None:
    with impatient([IMPATIENT, {"ENUMERATE": 0}, {}, IMPATIENT | {"SHRUNK": 0.99}][block]):
        check_stopped(FAMILIES[family], range(10**6 + 150 * block, 10**6 + 150 * (block + 1)))
