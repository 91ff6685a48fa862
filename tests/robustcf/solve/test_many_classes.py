"""Three to five classes: plurality and one against rest, every solver against brute force.

Brute force tries raw values and asks the scikit-learn model. By plurality, a point counts if the model gives
the target the highest score (a tie goes to the first class; soft scores within 1e-9 are a tie).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

import robustcf as rc
from robustcf.methods.base import Method
from robustcf.solve import SOLVERS, get_engine
from robustcf.thresholds import MAJORITY, Cutoff
from tests.helpers.by_hand import solve_by_hand
from tests.helpers.worlds import World, make_many_classes

ENGINES = tuple(s for s in ("engine", "highs", "oracle") if s in SOLVERS)
FAST, SLOW_BLOCKS, SLOW = 50, 10, 120  # seeds; three customers each, with one to four demands


@dataclass(frozen=True)
class AtLeast(Method):
    """What flips the decision, and a score of at least τ."""

    tau: float
    name = "at-least"
    label = "At least"
    alpha = None
    beta = None
    parameter = None

    def threshold(self, n_trees: int, cutoff: float | Cutoff = MAJORITY) -> float:
        return max(self.tau, rc.Naive().threshold(n_trees, cutoff))


def check(world: World, kinds: Counter[tuple[str, str]]) -> None:
    taus = tuple(dict.fromkeys(world.taus))
    methods = [rc.Naive() if tau == 0 else AtLeast(tau) for tau in taus]
    truth = solve_by_hand(world)
    explainer = rc.Explainer(
        world.forest, world.schema, methods, target=world.target, voting=world.voting, solver=ENGINES[0]
    )
    for solver in ENGINES:
        explainer.engine = get_engine(solver)
        explainer._best.clear()
        for tau, answer in zip(taus, explainer.explain_grid(world.row), strict=True):
            if truth.own == truth.target:
                assert answer.status == "already_favourable"
                continue
            if np.isnan(truth.best_score):  # no point keeps the rules
                assert (answer.status, answer.point) == ("no_recourse", None)
                continue
            assert answer.reason is None, answer.reason
            nearest = truth.distances[tau]
            kinds[("plurality" if world.forest.by_plurality else "against-rest", answer.status)] += 1
            if nearest is None:
                assert answer.status == "no_recourse"
                assert answer.best_score == pytest.approx(truth.best_score, abs=1e-9)
                continue
            assert answer.status == "optimal"
            assert answer.verified
            assert answer.distance == pytest.approx(nearest, abs=1e-8)  # a grain of float32
            assert (
                world.forest.classes[world.forest.predict(answer.encoded[None], world.voting)[0]]
                == world.target
            )


def check_many(seeds: range) -> Counter[tuple[str, str]]:
    kinds: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        for i, world in enumerate(make_many_classes(seed)):
            try:
                check(world, kinds)
            except Exception as error:
                error.add_note(f"make_many_classes({seed})[{i}]")
                raise
    return kinds


def test_both_demands_agree_with_brute_force() -> None:
    kinds = check_many(range(FAST))
    n = sum(kinds.values()) // len(ENGINES)
    assert n >= 2 * FAST, kinds
    assert len(kinds) == 4
    assert min(kinds.values()) > n // 20, kinds


@pytest.mark.slow
@pytest.mark.parametrize("block", range(SLOW_BLOCKS))
def test_both_demands_agree_with_brute_force_on_many(block: int) -> None:
    kinds = check_many(range(10**6 + block * SLOW, 10**6 + (block + 1) * SLOW))
    assert sum(kinds.values()) // len(ENGINES) >= 2 * SLOW, kinds


def test_every_number_of_classes_and_both_votings_are_drawn() -> None:
    worlds = [w for seed in range(60) for w in make_many_classes(seed)]
    assert {len(w.forest.classes) for w in worlds} == {3, 4, 5}
    assert {(w.voting, w.forest.by_plurality) for w in worlds} == {
        (voting, plural) for voting in ("soft", "hard") for plural in (True, False)
    }
    low = [c for w in worlds if w.cut is not None and (c := w.cut.c) < 0.5]
    assert low
