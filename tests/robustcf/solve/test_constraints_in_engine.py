"""Problems with rules across features, where our engine's every path is forced upon them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice

import pytest

from robustcf.methods.family import Customer
from robustcf.methods.threshold_family import Thresholds
from robustcf.problem.problem import Problem
from robustcf.schema.encode import encode
from robustcf.solve import Limits, branch_and_bound, engine, get_engine
from robustcf.solve.grid import highest_score, solve_grid
from tests.helpers.problems import IMPATIENT
from tests.helpers.worlds import make_worlds


@cache
def ruled_problems(first: int, n: int) -> list[Problem]:
    """Problems in which a rule is a condition that is not settled from the start."""

    def drawn() -> Iterator[Problem]:
        seed = first
        while True:
            for world in (w for w in make_worlds(seed, 8) if w.schema.has_rules):
                target = next(c for c in world.forest.classes if c != world.own)
                row = Customer(world.numbers, encode(world.schema, world.numbers[None, :])[0], target)
                votes = len(world.forest) * (1 if world.voting == "hard" else 2**40)
                thresholds = Thresholds(world.forest, world.schema, world.voting)
                problem, _ = thresholds.problem(row, int(votes * world.taus[0]))
                if len(problem.demand) > 1 and problem.votes[1:].any():
                    yield problem
            seed += 1

    return list(islice(drawn(), n))


@pytest.mark.parametrize("constants", [{}, IMPATIENT, IMPATIENT | {"SHRUNK": 0.99}])
def test_engine_equals_oracle_under_rules(
    constants: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in constants.items():
        monkeypatch.setattr(branch_and_bound, name, value)
    own, oracle, seen = engine.OwnEngine(), get_engine("oracle"), Counter[str]()
    for problem in ruled_problems(10_000, 60):
        truth = oracle.nearest(problem, Limits())
        for answer in (
            own.nearest(problem, Limits()),
            solve_grid(problem, [int(problem.demand[0])], own, Limits())[0],
        ):
            assert answer.status == truth.status
            assert answer.objective == pytest.approx(truth.objective, abs=1e-9)
            if answer.choice is not None:
                assert problem.reaches(answer.choice)
        best, most = oracle.best_score(problem, Limits()), highest_score(problem, own, Limits())
        assert (most.choice is None) == (best.choice is None)
        if best.choice is not None:
            assert (most.votes, most.at_most) == (best.votes, best.at_most)
        seen[truth.status] += 1
    assert min(seen["optimal"], seen["infeasible"]) >= 5, seen
