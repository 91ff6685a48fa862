"""A smallest blocking set, against brute force over all sets of constraints."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain, combinations

import pytest
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.explain.blockers import Blockers, blockers_of
from robustcf.schema.lifting import Constraint, constraints_of, lifted
from tests.helpers.by_hand import everything_by_hand
from tests.helpers.worlds import Score, World, make_worlds


def smallest_by_hand(world: World, tau: float) -> tuple[Constraint, ...] | None:
    """The first smallest set that opens a way when it is lifted; None if none does."""
    constraints = constraints_of(world.schema)
    if not _opens(world, constraints, tau):
        return None
    sizes = range(1, len(constraints) + 1)
    for chosen in chain.from_iterable(combinations(constraints, size) for size in sizes):
        if _opens(world, chosen, tau):
            return chosen
    return None


def _opens(world: World, chosen: tuple[Constraint, ...], tau: float) -> bool:
    free = replace(world, schema=lifted(world.schema, chosen))
    everything = everything_by_hand(free)
    return bool(len(everything.points) and everything.reaching(free, tau).any())


def check(world: World) -> str:
    tau = min(world.taus[0], 0.75)
    if world.own == world.target or len(constraints_of(world.schema)) > 8:
        return "easy"
    explainer = rc.Explainer(
        world.forest, world.schema, Score(tau), target=world.target, voting=world.voting, best_score=False
    )
    found = blockers_of(explainer, world.row)
    if _opens(world, (), tau):
        assert found.status == "not_blocked"
        return "easy"
    expected = smallest_by_hand(world, tau)
    if expected is None:
        assert (found.status, found.constraints) == ("none", ())
        return "none"
    assert (found.status, found.constraints) == ("found", expected)
    assert found.answer is not None
    assert found.answer.works
    assert found.answer.status == "optimal"
    assert len(found.words) == len(expected)
    return f"found {min(len(expected), 2)}"


def check_block(first: int, n: int) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for seed in range(first, first + n):
        for i, world in enumerate(make_worlds(seed, cutoffs=True)):
            try:
                kinds[check(world)] += 1
            except Exception as error:
                error.add_note(f"make_worlds({seed}, cutoffs=True)[{i}]")
                raise
    return kinds


def test_the_smallest_blocking_set_agrees_with_brute_force() -> None:
    kinds = check_block(41_000, 120)
    assert kinds["found 1"] >= 25, kinds
    assert min(kinds["found 2"], kinds["none"]) >= 5, kinds


@pytest.mark.slow
def test_the_smallest_blocking_set_agrees_with_brute_force_on_many() -> None:
    kinds = check_block(42_000, 1100)
    assert kinds.total() - kinds["easy"] >= 1000, kinds


@pytest.fixture(scope="module")
def stuck() -> tuple[rc.Explainer, dict[str, object]]:
    """A rejected customer of the embedded data who may change nothing."""
    data = rc.datasets.synthetic_credit(n=300, seed=0)
    model = RandomForestClassifier(20, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
    forest, schema = rc.Forest.from_sklearn(model), data.schema
    for name in schema.names:
        schema = schema.replace(name, action="fixed")
    row = data.X.iloc[int(model.predict(data.encoded).argmin())]
    return rc.Explainer(forest, schema, rc.Naive(), target=1), dict(row)


def test_what_is_kept_is_never_lifted(stuck: tuple[rc.Explainer, dict[str, object]]) -> None:
    explainer, row = stuck
    found = blockers_of(explainer, row)
    assert found.status == "found"
    name = found.constraints[0].feature
    assert name is not None
    assert found.words[0].endswith("may not change")
    assert name not in {c.feature for c in blockers_of(explainer, row, keep=[name]).constraints}
    assert blockers_of(explainer, row, keep=explainer.schema.names).status == "none"
    with pytest.raises(ValueError, match="keep: no feature 'wage'"):
        blockers_of(explainer, row, keep=["wage"])


def test_a_time_limit_gives_an_honest_unknown(stuck: tuple[rc.Explainer, dict[str, object]]) -> None:
    explainer, row = stuck
    found = blockers_of(explainer, row, time_limit=1e-6)
    assert isinstance(found, Blockers)
    assert (found.status, found.constraints, found.answer) == ("unknown", (), None)
