"""Alternatives and answers with few changes, against brute force on random small problems."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.methods.alternatives import Levers
from robustcf.solve import CutShort, Solution, grid
from tests.helpers.by_hand import Everything, everything_by_hand
from tests.helpers.worlds import Score, World, make_worlds, roomy_world

K = 3
SAME = 1e-9  # distances this close are a tie


class Truth:
    """What brute force says about alternatives, whatever ties the engine breaks."""

    def __init__(self, world: World, tau: float, levers: Levers) -> None:
        self.all: Everything = everything_by_hand(world)
        ok = self.all.reaching(world, tau) if len(self.all.points) else np.zeros(0, dtype=bool)
        cost, before = self.all.cost[ok], world.numbers
        order = np.argsort(cost, kind="stable")
        self.cost = cost[order]
        self.points = self.all.points[ok][order]
        self.sets = [levers.pulled(before, point) for point in self.points]
        self.full = False

    def agrees(self, answers: list[rc.Counterfactual], sets: list[frozenset[int]]) -> bool:
        self.full = len(answers) == K
        return self._agrees([], [(cf.distance, own) for cf, own in zip(answers, sets, strict=True)])

    def _agrees(self, seen: list[frozenset[int]], left: list[tuple[float, frozenset[int]]]) -> bool:
        free = [i for i, own in enumerate(self.sets) if not any(s <= own for s in seen)]
        if not free:
            return not left
        least = self.cost[free[0]]
        tied = {self.sets[i] for i in free if self.cost[i] <= least + SAME}
        for own in tied:
            if any(own <= s for s in seen):  # says nothing new
                if self._agrees([*seen, own], left):
                    return True
            elif left and own == left[0][1] and abs(left[0][0] - least) <= SAME:
                if len(left) == 1 and self.full:
                    return True
                if self._agrees([*seen, own], left[1:]):
                    return True
        return False


def check(world: World, rng: np.random.Generator) -> Counter[str]:
    tau, schema = world.taus[0], world.schema
    names = list(rng.permutation(schema.names))
    cut = int(rng.integers(0, len(names)))
    named = {"one": names[:cut]} if cut > 1 and rng.random() < 0.5 else None
    levers = Levers.of(schema, named)
    explainer = rc.Explainer(
        world.forest, schema, Score(tau), target=world.target, voting=world.voting, best_score=False
    )
    answers = explainer.alternatives(world.row, K, levers=named)
    truth = Truth(world, tau, levers)
    kinds: Counter[str] = Counter({"levers": int(named is not None)})
    if truth.all.own == truth.all.target:
        assert [cf.status for cf in answers] == ["already_favourable"]
        return kinds
    few = explainer.with_few_changes(world.row, 3)
    if not truth.sets:
        assert [cf.status for cf in answers] == ["no_recourse"]
        assert [cf.status for cf in few] == ["no_recourse"] * 3
        return kinds + Counter(stuck=1)
    assert all(cf.status == "optimal" and cf.verified and cf.gap == 0 for cf in answers)
    assert [cf.alternative for cf in answers] == list(range(len(answers)))
    sets = [_pulled(levers, world, cf) for cf in answers]
    assert not any(a <= b or b <= a for i, a in enumerate(sets) for b in sets[:i])
    assert truth.agrees(answers, sets), [(cf.distance, s) for cf, s in zip(answers, sets, strict=True)]
    counts = np.array([len(Levers.of(schema).pulled(world.numbers, p)) for p in truth.points])
    for most, cf in enumerate(few, start=1):
        reaching = truth.cost[counts <= most]
        if not len(reaching):
            assert cf.status == "no_recourse"
            continue
        assert cf.status == "optimal"
        assert cf.n_changed <= most
        assert cf.distance == pytest.approx(reaching.min(), abs=SAME)
    return kinds + Counter(solved=1, several=int(len(answers) > 1), full=int(len(answers) == K))


def _pulled(levers: Levers, world: World, cf: rc.Counterfactual) -> frozenset[int]:
    changed = {world.schema.names.index(change.feature) for change in cf.changes}
    return frozenset(k for k, group in enumerate(levers.groups) if changed & set(group))


def check_block(seed: int, n: int) -> Counter[str]:
    """Half of the worlds are the engines' own tests; in the others, several answers exist."""
    kinds: Counter[str] = Counter()
    for k in range(seed, seed + n):
        for i, world in enumerate([roomy_world(k), make_worlds(k, 1, cutoffs=True)[0]]):
            try:
                kinds += check(world, np.random.default_rng([k, i]))
            except Exception as error:
                error.add_note(f"seed {k}, world {i}")
                raise
    return kinds


def test_alternatives_agree_with_brute_force() -> None:
    kinds = check_block(31_000, 70)
    assert kinds["solved"] >= 70
    assert min(kinds["several"], kinds["full"], kinds["levers"], kinds["stuck"]) >= 3, kinds


@pytest.mark.slow
def test_alternatives_agree_with_brute_force_on_many() -> None:
    kinds = check_block(32_000, 1200)
    assert kinds["solved"] >= 1000, kinds
    assert kinds["several"] >= 500, kinds


@pytest.fixture(scope="module")
def credit() -> tuple[rc.Forest, rc.datasets.Dataset]:
    data = rc.datasets.synthetic_credit(n=300, seed=0)
    model = RandomForestClassifier(20, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
    return rc.Forest.from_sklearn(model), data


def test_a_table_gets_the_alternatives_of_each_row(
    credit: tuple[rc.Forest, rc.datasets.Dataset],
) -> None:
    forest, data = credit
    both = rc.Explainer(forest, data.schema, [rc.Naive(), rc.DirectSAA(0.2)], target=1)
    rows = data.X.iloc[:12]
    found = both.explain_many(rows, alternatives=3)
    for m, method in enumerate(both.methods):
        alone = rc.Explainer(forest, data.schema, method, target=1)
        for i in range(len(rows)):
            mine = [cf for cf in found if cf.row == i and cf.method == both.methods[m]]
            expected = alone.alternatives(rows.iloc[i])
            assert [(cf.alternative, cf.status, cf.changes) for cf in mine] == [
                (cf.alternative, cf.status, cf.changes) for cf in expected
            ]
            assert alone.explain(rows.iloc[i]).changes == expected[0].changes


def test_what_cannot_have_alternatives_is_refused(credit: tuple[rc.Forest, rc.datasets.Dataset]) -> None:
    forest, data = credit
    row, training = data.X.iloc[6], (data.encoded, data.y)
    plausible = rc.Explainer(forest, data.schema, rc.IsolationForest(0.1), target=1, training=training)
    with pytest.raises(ValueError, match="asks for more than a score"):
        plausible.alternatives(row)
    explainer = rc.Explainer(forest, data.schema, rc.Naive(), target=1)
    with pytest.raises(ValueError, match="k is 0"):
        explainer.alternatives(row, 0)
    for levers, message in (
        ({"money": ["wage"]}, "lever 'money': no feature 'wage'"),
        ({"money": []}, "lever 'money' has no features"),
        ({"a": ["income"], "b": ["income"]}, "lever 'b': feature 'income' is listed twice"),
    ):
        with pytest.raises(ValueError, match=message):
            explainer.alternatives(row, levers=levers)


def test_an_alternative_that_is_not_found_in_time_is_a_timeout(
    credit: tuple[rc.Forest, rc.datasets.Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search cut short proves nothing: the list must not look complete."""
    forest, data = credit
    explainer = rc.Explainer(forest, data.schema, rc.DirectSAA(0.2), target=1)
    rows = [data.X.iloc[i] for i in range(len(data.X)) if explainer.forest.predict(data.encoded)[i] == 0]
    nearest = explainer.engine.nearest

    def stopped(problem: Any, *arguments: Any, **named: Any) -> Solution:
        if len(problem.demand) > 1:  # the conditions of an alternative
            return Solution(CutShort(0.0))
        return nearest(problem, *arguments, **named)

    monkeypatch.setattr(explainer.engine, "nearest", stopped)
    monkeypatch.setattr(grid, "find_incumbent", lambda p, choice: None)
    found = [explainer.alternatives(row) for row in rows[:10]]
    assert any([cf.status for cf in answers] == ["optimal", "timeout"] for answers in found)
    assert all("no_recourse" not in [cf.status for cf in answers] or len(answers) == 1 for answers in found)
