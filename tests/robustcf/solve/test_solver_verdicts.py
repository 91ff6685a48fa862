"""What a solver says is a proof only where it finished and contradicts nothing that is known."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import robustcf
from robustcf.methods.isolation.first_points import walked
from robustcf.problem.problem import Problem
from robustcf.solve import Limits, get_engine
from robustcf.solve.contract import cheapest
from robustcf.solve.formulation import Milp
from robustcf.solve.highs import Highs
from robustcf.solve.incumbent import find_incumbent
from robustcf.solve.milp import MilpEngine, MilpResult
from robustcf.solve.oracle import _all_choices
from tests.helpers.problems import random_problem


@dataclass
class Says:
    """A solver whose word is HiGHS's, changed in some way."""

    change: Any
    name = "says"

    def solve(self, model: Milp, limits: Limits) -> MilpResult:
        return self.change(Highs().solve(model, replace(limits, gap=0.0)))


def open_problems(seed: int, count: int) -> list[tuple[Problem, np.ndarray, float]]:
    """Problems with a search ahead, a choice that reaches the demand, and the optimum."""
    rng, oracle, found = np.random.default_rng(seed), get_engine("oracle"), []
    while len(found) < count:
        problem = random_problem(rng)
        start = find_incumbent(problem, cheapest(problem))
        if start is not None and not problem.reaches(cheapest(problem)):
            found.append((problem, start, oracle.nearest(problem, Limits()).objective))
    return found


def test_a_solver_that_loses_a_known_point_proves_nothing() -> None:
    """`infeasible` beside a point that is feasible once made that point `optimal`."""
    engine = MilpEngine(Says(lambda result: MilpResult("infeasible", None, np.inf, 1)))
    for problem, start, truth in open_problems(0, 20):
        solution = engine.nearest(problem, Limits(), start, lower_bound=truth / 2)
        assert solution.status == "feasible"
        assert solution.lower_bound == truth / 2


def test_a_solver_that_stops_at_a_gap_proves_nothing() -> None:
    """A solver calls its point optimal within the gap that it was allowed; that is no optimum."""
    engine = MilpEngine(Says(lambda result: replace(result, bound=result.bound * 0.9)))
    for problem, start, truth in open_problems(1, 20):
        solution = engine.nearest(problem, Limits(gap=0.1), start)
        assert solution.status == ("feasible" if truth > 0 else "optimal")
        assert solution.lower_bound <= truth * (1 + 1e-9)


def test_a_best_score_at_a_gap_is_not_the_best() -> None:
    oracle = get_engine("oracle")
    engine = MilpEngine(Says(lambda result: replace(result, bound=result.bound * 1.5)))
    seen = 0
    for problem, _, _ in open_problems(2, 20):
        best, truth = engine.best_score(problem, Limits(gap=0.1)), oracle.best_score(problem, Limits())
        assert best.votes <= truth.votes <= best.at_most
        seen += best.at_most > best.votes
    assert seen > 5


def test_a_bound_of_a_best_score_that_ran_out_of_time_is_not_rounded_away() -> None:
    """HiGHS's bound may lie a little below the votes that a point has."""
    oracle = get_engine("oracle")
    engine = MilpEngine(
        Says(lambda result: MilpResult("limit", None, result.bound + 1e-9 * abs(result.bound), 1))
    )
    for problem, _, _ in open_problems(3, 40):
        assert engine.best_score(problem, Limits()).at_most >= oracle.best_score(problem, Limits()).votes


@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e8])
def test_a_walk_over_tiny_costs_proves_only_optima(scale: float) -> None:
    """With costs of 1e-10 every cheaper choice once counted as no cheaper: half of the proofs were false."""
    rng, oracle, proved = np.random.default_rng(0), get_engine("oracle"), 0
    for _ in range(300):
        problem = random_problem(rng)
        problem = problem._replace(cost=problem.cost * scale)
        choices, votes = _all_choices(problem)
        reaching = choices[(votes >= problem.demand).all(axis=1)]
        if not len(reaching):
            continue
        choice, ended = walked(problem, reaching[rng.integers(len(reaching))], 60.0)
        assert problem.reaches(choice)
        if ended:
            least = oracle.nearest(problem, Limits()).objective
            assert problem.objective(choice) == pytest.approx(least, rel=1e-9, abs=0.0)
            proved += 1
    assert proved > 150


# Modules that may write a proof down: how searches end, what that means of a row, and brute force.
JUDGES = ("solve/contract.py", "methods/threshold_family.py", "solve/oracle.py")


def test_only_the_contract_turns_the_end_of_a_search_into_a_proof() -> None:
    """No family and no engine names a proved status itself: each follows from `Finished` or `CutShort`."""
    root, named = Path(robustcf.__file__).parent, []
    files = [*root.glob("solve/*.py"), *root.glob("methods/**/*.py")]
    assert len(files) > 30
    for path in files:
        if path.relative_to(root).as_posix() in JUDGES:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            made = getattr(node.func, "id", getattr(node.func, "attr", ""))
            values = [*node.args, *(k.value for k in node.keywords if k.arg == "status")]
            words = {leaf.value for v in values for leaf in ast.walk(v) if isinstance(leaf, ast.Constant)}
            if made in ("Answer", "Solution", "replace") and words & {"optimal", "no_recourse", "infeasible"}:
                named.append(f"{path.name}:{node.lineno}")
    assert named == []


# Per tree, its leaves: category of the first feature (-1: any), range of the second, votes of 3 conditions.
TREES = [
    [
        (1, 3, 3, 546271937451, -2, 2), (0, 3, 3, 388087419321, 5, 1), (0, 1, 2, 127914921399, 4, 4),
        (0, 0, 0, 385302001378, 8, 0), (1, 2, 2, 503120650200, 1, -1), (1, 0, 1, 450077186950, 8, 7),
    ],
    [
        (-1, 3, 3, 25301518038, -3, 0), (-1, 2, 2, 743792254269, 7, 1),
        (0, 0, 1, 1053755335809, -2, 4), (1, 0, 1, 60605626756, 4, 5),
    ],
    [
        (0, 3, 3, 1077259721152, 1, 3), (0, 0, 2, 979043464332, -1, 6),
        (1, 1, 3, 953498300893, 2, -1), (1, 0, 0, 881824056471, 0, -1),
    ],
    [(-1, 3, 3, 1043235374574, 3, 4), (-1, 0, 2, 396953734147, 0, 0)],
    [
        (1, 3, 3, 201845475031, 7, 0), (1, 0, 2, 738312242788, -1, 3), (0, 3, 3, 836164672187, 0, 7),
        (0, 2, 2, 172572912233, 8, 6), (0, 0, 1, 640945774839, 4, -2),
    ],
]  # fmt: skip


def test_highs_does_not_lose_the_best_score_in_its_presolve() -> None:
    """With presolve, HiGHS 1.15 called 2420277286380 votes the most; choice (1, 1) has 2599447091534."""
    leaves = [leaf for tree in TREES for leaf in tree]
    entries = [(f, leaf) for leaf in leaves for f in ([0] if leaf[0] >= 0 else []) + [1]]
    problem = Problem(
        start=np.array([0, 2, 6]),
        cost=np.array([0.36, 0.56, 0.08, 0.64, 0.57, 0.03]),
        cell=np.arange(6),
        ordered=np.array([False, True]),
        tree_start=np.cumsum([0, *map(len, TREES)]),
        votes=np.array([leaf[3:] for leaf in leaves]).T.copy(),
        demand=np.array([3428094239383, 13, 8]),
        entry_start=np.cumsum([0, *(1 + (leaf[0] >= 0) for leaf in leaves)]),
        feature=np.array([f for f, _ in entries]),
        lo=np.array([leaf[1] if f else 0 for f, leaf in entries]),
        hi=np.array([leaf[2] if f else 1 for f, leaf in entries]),
        set=np.array([-1 if f else leaf[0] for f, leaf in entries]),
        member=np.array([[True, False, False, False], [False, True, False, False]]),
    )
    assert problem.votes_of(np.array([1, 1])).tolist() == [2599447091534, 13, 14]
    best = get_engine("highs").best_score(problem, Limits())
    assert (best.votes, best.at_most) == (2599447091534, 2599447091534)
