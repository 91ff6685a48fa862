"""Random small problems, end to end: every solver against two brute forces.

One brute force is the `oracle` engine, which shares the cells with the others. The other one
(`worlds.solve_by_hand`) knows no cells, tries raw values and lets scikit-learn score them.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

import robustcf as rc
from robustcf.schema.feature import RELATIVE
from robustcf.solve import SOLVERS, get_engine
from tests.helpers.by_hand import Truth, solve_by_hand
from tests.helpers.worlds import Score, World, make_worlds

ENGINES = tuple(s for s in ("highs", "gurobi", "oracle", "engine") if s in SOLVERS)
FORESTS_PER_BLOCK, BLOCKS, PROBLEMS = 30, 24, 2016
SLOW_FORESTS_PER_BLOCK, SLOW_BLOCKS, SLOW_PROBLEMS = 360, 20, 20000
PER_BLOCK = PROBLEMS // BLOCKS
SLOW_PER_BLOCK = SLOW_PROBLEMS // SLOW_BLOCKS
assert BLOCKS * PER_BLOCK >= 2000
assert SLOW_BLOCKS * SLOW_PER_BLOCK >= 20000


def explain(
    world: World, taus: tuple[float, ...], solvers: tuple[str, ...]
) -> dict[str, list[rc.Counterfactual]]:
    """One customer's grid by several solvers, over one compiled forest."""
    explainer = rc.Explainer(
        world.forest, world.schema, [Score(t) for t in taus],
        target=world.target, voting=world.voting, solver=solvers[0],
    )  # fmt: skip
    answers = {}
    for solver in solvers:
        explainer.engine = get_engine(solver)
        explainer._best.clear()
        answers[solver] = explainer.explain_grid(world.row)
    return answers


def agrees(answer: rc.Counterfactual, truth: Truth, tau: float) -> str:
    """Assert that an answer is brute force's; say which kind of problem it was."""
    if truth.own == truth.target:
        assert answer.status == "already_favourable"
        return "already_favourable"
    assert answer.target == truth.target
    if math.isnan(truth.best_score):  # rules that no point keeps, not even the customer's own
        assert (answer.status, answer.point) == ("no_recourse", None)
        assert answer.reason is not None  # why no best score is given
        return answer.status
    assert answer.reason is None, answer.reason
    assert answer.verified
    assert answer.point is not None
    assert answer.distance == pytest.approx(answer.objective, abs=1e-9)
    assert answer.lower_bound == pytest.approx(answer.objective, abs=1e-9)
    nearest = truth.distances[tau]
    if nearest is None:
        assert answer.status == "no_recourse"
        assert answer.best_score == pytest.approx(truth.best_score, abs=1e-9)
        assert answer.best_score_gap == pytest.approx(0.0, abs=1e-9)
        assert answer.score == pytest.approx(truth.best_score, abs=1e-9)
        assert truth.best_distances[0] - 1e-9 <= answer.distance <= truth.best_distances[1] + 1e-9
    else:
        assert answer.status == "optimal"
        assert answer.distance == pytest.approx(nearest, abs=1e-9)
    return answer.status


def check_world(world: World) -> Counter[str]:
    """All solvers on one customer's grid; how many problems of each kind that was."""
    truth = solve_by_hand(world)
    answers = explain(world, world.taus, ENGINES)
    for grid in answers.values():
        kinds = Counter(agrees(a, truth, tau) for a, tau in zip(grid, world.taus, strict=True))
        rising = [a for _, a in sorted(zip(world.taus, grid, strict=True), key=lambda pair: pair[0])]
        reached = [a.distance for a in rising if a.status == "optimal"]
        assert all(np.diff(reached) >= -1e-12), "a higher threshold cannot be nearer"
        assert [a.status for a in rising] == sorted((a.status for a in rising), key="optimal".__ne__)
    if len(world.taus) > 1:  # the grid's shared bounds change no answer
        solver = ENGINES[len(world.forest) % len(ENGINES)]
        for tau, together in zip(world.taus, answers[solver], strict=True):
            (alone,) = explain(world, (tau,), (solver,))[solver]
            assert alone.status == together.status
            assert alone.distance == pytest.approx(together.distance, abs=1e-9, nan_ok=True)
    return kinds


def check_block(first: int, n_forests: int, at_least: int) -> None:
    solved: Counter[str] = Counter()
    for seed in range(first, first + n_forests):
        for i, world in enumerate(make_worlds(seed, cutoffs=True)):
            try:
                solved += check_world(world)
            except Exception as error:
                error.add_note(f"make_worlds({seed}, cutoffs=True)[{i}]")
                raise
    n = solved["optimal"] + solved["no_recourse"]
    assert n >= at_least, f"only {n} problems had to be solved: {solved}"
    assert min(solved["optimal"], solved["no_recourse"]) >= n // 20, solved


@pytest.mark.parametrize("block", range(BLOCKS))
def test_solvers_agree_with_brute_force(block: int) -> None:
    check_block(block * FORESTS_PER_BLOCK, FORESTS_PER_BLOCK, PER_BLOCK)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(SLOW_BLOCKS))
def test_solvers_agree_with_brute_force_on_many(block: int) -> None:
    check_block(10**6 + block * SLOW_FORESTS_PER_BLOCK, SLOW_FORESTS_PER_BLOCK, SLOW_PER_BLOCK)


def test_every_kind_of_problem_is_drawn() -> None:
    """The random worlds would prove little if a kind were never among them."""
    worlds = [w for seed in range(150) for w in make_worlds(seed, cutoffs=True)]
    features = [f for w in worlds for f in w.schema.features]
    assert {f.kind for f in features} == {"binary", "categorical", "discrete", "continuous"}
    assert {f.action for f in features} == {"free", "fixed", "increase", "decrease"}
    assert {f.scaling for f in features} == {"minmax", "none"}
    for setting in ("step", "allowed", "lower", "upper"):
        assert any(getattr(f, setting) is not None for f in features), setting
    for setting in (*RELATIVE, "forbidden", "cost_table"):
        assert any(getattr(f, setting) for f in features), setting
    assert any(w.schema.max_changes is not None for w in worlds)
    assert any(len(w.schema.links) > 1 for w in worlds)
    assert any(link.pushed for w in worlds for link in w.schema.links)
    assert any(f.weight == 0 for f in features)
    assert {len(w.forest) % 2 for w in worlds} == {0, 1}
    assert {w.voting for w in worlds} == {"soft", "hard"}
    cuts = [(w.cut, w.target, w.voting) for w in worlds if w.cut is not None]
    assert {(cut.c < 0.5, cut.strict, cut.label == target, voting) for cut, target, voting in cuts} >= {
        (low, strict, not strict, voting)
        for low in (True, False)
        for strict in (True, False)
        for voting in ("soft", "hard")
    }
    assert {len(w.forest.classes) for w in worlds} == {2, 3}
    assert {type(w.forest.classes[0]) for w in worlds} == {int, str, bool, float}
    assert any(max(w.taus) > 1 for w in worlds)
    assert any(np.isnan(w.numbers).any() for w in worlds)
    assert any(has_close_thresholds(w) for w in worlds)


def has_close_thresholds(world: World) -> bool:
    """Whether two thresholds of one column differ, but not to float32."""
    inner = world.forest.left >= 0
    for column in range(world.forest.n_features):
        t = np.unique(world.forest.threshold[inner & (world.forest.feature == column)])
        t = t[np.abs(t) < 1e30]
        if len(np.unique(t.astype(np.float32))) < len(t):
            return True
    return False
