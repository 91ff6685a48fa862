"""One customer's question as arrays: what they say must be what the forest says."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from robustcf.problem.build import SOFT_UNIT, build_problem, leaf_votes, score_of, votes_needed
from robustcf.problem.cells import Geometry, compile_geometry
from robustcf.problem.moves import Moves, moves_of
from robustcf.problem.problem import Problem
from robustcf.problem.reduction import choice_within, reduce
from robustcf.schema.encode import encode
from robustcf.solve.contract import Limits, cheapest
from robustcf.solve.formulation import build_model, choice_of, point_of
from robustcf.solve.grid import highest_score, inside, solve_grid
from robustcf.solve.highs import Highs
from robustcf.solve.incumbent import find_incumbent, improve
from robustcf.solve.oracle import Oracle, _all_choices
from tests.helpers.by_hand import reaches
from tests.helpers.worlds import World, make_worlds, scores_by_model

SEEDS = range(60)


def problem_of(world: World, target: object, tau: float = 0.5) -> tuple[Problem, Geometry, Moves, int]:
    """The customer's problem, and the votes of trees that were folded into its demand."""
    geometry = compile_geometry(world.forest, world.schema)
    numbers = world.numbers
    moves = moves_of(geometry, numbers, encode(world.schema, numbers[None, :])[0])
    demand = votes_needed(geometry, target, world.voting, tau)
    problem = build_problem(geometry, moves, leaf_votes(geometry, target, world.voting), demand)
    return problem, geometry, moves, demand - int(problem.demand[0])


def fitting(seed: int, condition: Callable[[Problem], bool]) -> tuple[World, Problem]:
    """The first world from a seed on whose problem is one to test."""
    for k in range(100):
        world = make_worlds(seed + 1000 * k, 1, rules=False)[0]
        problem, *_ = problem_of(world, world.forest.classes[-1])
        if condition(problem):
            return world, problem
    raise AssertionError("no such problem was drawn")


def random_choices(problem: Problem, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(np.diff(problem.start), size=(n, problem.n_features))


@pytest.mark.parametrize("seed", SEEDS)
def test_votes_are_the_forests_score(seed: int) -> None:
    for world in make_worlds(seed, rules=False):
        for c, target in enumerate(world.forest.classes):
            problem, _, moves, folded = problem_of(world, target)
            choices = random_choices(problem, 50, seed)
            points = np.where(
                np.isnan(moves.number[problem.cell[problem.start[:-1] + choices]]),
                world.numbers,
                moves.number[problem.cell[problem.start[:-1] + choices]],
            )
            X = encode(world.schema, points)
            score = scores_by_model(world.forest.judge, X, world.voting)[:, c]
            votes = np.array([problem.votes_of(x)[0] + folded for x in choices])
            believed = [score_of(int(v), world.forest, target, world.voting) for v in votes]
            assert believed == pytest.approx(score, abs=1e-12)
            reached = [problem.reaches(x) for x in choices]
            assert reached == reaches(score, 0.5, len(world.forest), world.voting, c == 0).tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_solver_believes_at_a_fixed_input_is_the_forests_score(seed: int) -> None:
    """Fix every question; then the most and the least that the leaves can sum to is the score."""
    world, problem = fitting(seed, lambda p: p.n_leaves > 0)
    for choice in random_choices(problem, 4, seed):
        model = build_model(problem)
        n = model.n_binary
        point = point_of(problem, choice)
        assert np.array_equal(choice_of(problem, point), choice)
        believed = (model.matrix @ point)[: -len(problem.demand)]
        assert (model.lower[: -len(problem.demand)] <= believed).all()
        assert (believed <= model.upper[: -len(problem.demand)]).all()
        assert model.cost @ point + model.offset == pytest.approx(problem.objective(choice), abs=1e-12)
        fixed = sp.hstack([sp.eye(n), sp.csr_matrix((n, problem.n_leaves))], format="csr")
        model.matrix = sp.csr_matrix(sp.vstack([fixed, model.matrix], format="csr"))
        model.lower[-len(problem.demand) :] = -np.inf
        model.lower = np.concatenate([point[:n], model.lower])
        model.upper = np.concatenate([point[:n], model.upper])
        unit = float(SOFT_UNIT if world.voting == "soft" else 1)
        for sign in (1.0, -1.0):
            model.cost = np.concatenate([np.zeros(n), sign * problem.votes[0] / unit])
            model.offset = 0.0
            result = Highs().solve(model, Limits())
            assert result.status == "optimal"
            assert result.x is not None
            assert result.x[n:] @ problem.votes[0] / unit == pytest.approx(
                problem.votes_of(choice)[0] / unit, abs=1e-6
            )


def slack_and_cost(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    choices, votes = _all_choices(problem)
    cost = np.array([problem.objective(x) for x in choices])
    return choices, (votes - problem.demand)[:, 0], cost


@pytest.mark.parametrize("seed", SEEDS)
def test_reduction_keeps_every_choice_that_matters(seed: int) -> None:
    _, problem = fitting(seed, lambda p: math.prod(np.diff(p.start).tolist()) <= 1500)
    _, slack, cost = slack_and_cost(problem)
    rng = np.random.default_rng(seed)
    for upper in [0.0, math.inf, *rng.choice(cost, 3)]:
        reduced = reduce(problem, upper)
        few, few_slack, few_cost = slack_and_cost(reduced)
        for value in np.unique(slack[cost <= upper]):  # the cheapest of every outcome is still there
            same = few_cost[few_slack == value]
            assert len(same)
            assert same.min() == pytest.approx(cost[slack == value].min(), abs=1e-12)
        for x, s, price in zip(few, few_slack, few_cost, strict=True):  # and nothing was made up
            whole = choice_within(problem, reduced.cell[reduced.start[:-1] + x])
            assert whole is not None
            assert problem.objective(whole) == pytest.approx(price, abs=1e-12)
            if price <= upper:
                assert (problem.votes_of(whole) - problem.demand)[0] == s


@pytest.mark.parametrize("seed", SEEDS)
def test_reduction_with_any_incumbent_leaves_the_optimum(seed: int) -> None:
    for world in make_worlds(seed, rules=False):
        for target in world.forest.classes:
            problem, *_ = problem_of(world, target, world.taus[0])
            best = Oracle().nearest(problem, Limits())
            if best.choice is None:
                assert Oracle().nearest(reduce(problem, math.inf), Limits()).choice is None
                continue
            for upper in (best.objective, best.objective * 1.01, best.objective + 0.3, math.inf):
                again = Oracle().nearest(reduce(problem, upper), Limits())
                assert again.objective == pytest.approx(best.objective, abs=1e-12)
            mapped = inside(reduce(problem, best.objective), problem, best.choice)
            assert mapped is None or reduce(problem, best.objective).reaches(mapped)


@pytest.mark.parametrize("seed", SEEDS)
def test_incumbents_reach_and_only_get_cheaper(seed: int) -> None:
    for world in make_worlds(seed, rules=False):
        problem, *_ = problem_of(world, world.forest.classes[-1], world.taus[0])
        found = find_incumbent(problem, cheapest(problem)) if problem.n_leaves else None
        best = Oracle().nearest(problem, Limits())
        if found is None:
            continue
        assert problem.reaches(found)
        better = improve(problem, found)
        assert problem.reaches(better)
        assert best.objective - 1e-12 <= problem.objective(better) <= problem.objective(found)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_highest_score_is_the_oracles(seed: int) -> None:
    world = make_worlds(seed, rules=False)[0]
    problem, *_ = problem_of(world, world.forest.classes[0])
    _, votes = _all_choices(problem)
    best = highest_score(problem, Oracle(), Limits())
    assert best.votes == best.at_most == votes.max()
    assert best.choice is not None
    assert problem.votes_of(best.choice)[0] == best.votes


def test_a_grid_is_answered_in_the_order_asked() -> None:
    world = make_worlds(3, rules=False)[0]
    problem, *_ = problem_of(world, world.forest.classes[-1])
    demands = [int(problem.demand[0]) + d for d in (5, -5, 0, 10**15, -5)]
    solutions = solve_grid(problem, demands, Oracle(), Limits())
    assert solutions[1] == solutions[4]
    assert solutions[3].status == "infeasible"
    for demand, solution in zip(demands, solutions, strict=True):
        alone = Oracle().nearest(problem._replace(demand=np.array([demand])), Limits())
        assert alone.status == solution.status
        assert alone.objective == solution.objective


@pytest.mark.parametrize(
    ("n", "first", "soft", "hard"), [(4, True, 0.5, 2), (4, False, 0.5, 3), (5, True, 0.5, 3)]
)
def test_votes_needed_at_a_tie(n: int, first: bool, soft: float, hard: int) -> None:
    """The first class wins a hard tie; a soft tie reaches for nobody."""
    world = next(
        w
        for s in range(500)
        for w in make_worlds(s, 1, rules=False)
        if len(w.forest) == n and len(w.forest.classes) == 2
    )
    geometry = compile_geometry(world.forest, world.schema)
    target = world.forest.classes[0 if first else 1]
    assert votes_needed(geometry, target, "hard", 0.5) == hard
    assert votes_needed(geometry, target, "soft", soft) > n * soft * SOFT_UNIT
    assert votes_needed(geometry, target, "hard", 0.2) == hard
    assert votes_needed(geometry, target, "hard", 1.0) == n
    assert votes_needed(geometry, target, "hard", 1.1) > n
    assert votes_needed(geometry, target, "soft", 1.0) <= n * SOFT_UNIT
