"""`Certified` in the explainer, on small forests trained for real."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import robustcf as rc
from robustcf.certificate.bounds import hard_vote_bound, lower_bound
from robustcf.certificate.design import Design, orders
from robustcf.forest.join import join_forests
from robustcf.thresholds import p_star
from robustcf.validate import retrain, validity
from tests.helpers.stumps import SCHEMA as STUMPS
from tests.helpers.stumps import stumps

DATA = rc.datasets.synthetic_credit(n=400, seed=2)
X, Y = DATA.encode(DATA.X), DATA.y
FOREST = rc.Forest.from_sklearn(RandomForestClassifier(15, max_depth=3, random_state=4).fit(X, Y))
SMALL: dict[str, Any] = {"forests": 30, "pool": 30, "pilot": 150}
METHOD = rc.Certified(0.1, **SMALL)
REJECTED = DATA.X.iloc[np.flatnonzero(FOREST.predict(X) == 0)[:6]]


@pytest.fixture(scope="module")
def fresh() -> rc.FreshForests:
    return rc.train_fresh(FOREST, X, Y, METHOD.design, seed=7)


def explained(fresh: rc.FreshForests, method: rc.Certified, **options: Any) -> list[rc.Counterfactual]:
    explainer = rc.Explainer(
        FOREST, DATA.schema, method, target=1, training=(X, Y), fresh=(fresh,), seed=7, **options
    )
    return explainer.explain_many(REJECTED)


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_a_certificate_says_what_its_forests_say(fresh: rc.FreshForests, voting: Any) -> None:
    forests = [retrain(FOREST, X, Y, order.seed) for order in fresh.orders if order.kind == "certification"]
    for answer in explained(fresh, METHOD, voting=voting):
        found = answer.certificate
        assert found is not None
        assert answer.verified
        agree = validity(forests, answer.encoded[None, :], [1], voting)[0]
        assert (found.agree, found.forests) == (agree.sum(), 30)
        bound = lower_bound(int(agree.sum()), 30, 0.05)
        if voting == "hard":
            votes = sum(round(float(f.score(answer.encoded[None, :], 1, "hard")[0]) * 15) for f in forests)
            bound = hard_vote_bound(votes, 30 * 15, 15, 0.05)
        assert found.lower_bound == pytest.approx(bound, abs=1e-12)
        assert found.certified == (bound >= 0.9)
        assert str(found).startswith("with confidence 0.95" if found.certified else "not certified")


def test_the_point_is_the_nearest_at_its_level(fresh: rc.FreshForests) -> None:
    """A search of the pool with another solver finds nothing nearer."""
    for answer, other in zip(explained(fresh, METHOD), explained(fresh, METHOD, solver="highs"), strict=True):
        assert answer.certificate == other.certificate
        assert answer.distance == pytest.approx(other.distance, rel=1e-7)
        found = answer.certificate
        pool = FOREST if found.pool_trees == 15 else join_forests([FOREST, fresh.pool])
        assert pool.score(answer.encoded[None, :], 1)[0] == found.pool_score >= found.level - 1e-9


def test_forests_of_different_roles_share_no_seed() -> None:
    made = orders(Design(forests=50, pool=90, pilot=200), 15, seed=0)
    assert len({order.seed for order in made}) == len(made)
    assert sum(order.n_trees for order in made if order.kind == "pool") == 90
    assert sum(order.n_trees for order in made if order.kind == "pilot") == 200
    again = orders(Design(forests=60, pool=90, pilot=200), 15, seed=0)
    assert again[: len(made)] == made  # more forests leave the others as they are
    assert {o.seed for o in orders(Design(), 15, seed=1)}.isdisjoint(o.seed for o in made)


def test_fresh_forests_are_trained_from_the_training_rows(fresh: rc.FreshForests) -> None:
    explainer = rc.Explainer(FOREST, DATA.schema, METHOD, target=1, training=(X, Y), seed=7)
    assert explainer.explain_many(REJECTED)[0].certificate == explained(fresh, METHOD)[0].certificate


def test_rows_of_another_forest_are_refused() -> None:
    with pytest.raises(rc.ForestError, match="gives another forest"):
        rc.Explainer(FOREST, DATA.schema, METHOD, target=1, training=(X[::-1], Y[::-1]))


def test_rows_that_cannot_be_checked_give_a_warning() -> None:
    model = RandomForestClassifier(15, max_depth=3).fit(X, Y)
    with pytest.warns(UserWarning, match="stores no integer random_state"):
        rc.Explainer(rc.Forest.from_sklearn(model), DATA.schema, METHOD, target=1, training=(X, Y))


def test_a_forest_that_a_new_seed_does_not_change_is_refused() -> None:
    model = RandomForestClassifier(3, bootstrap=False, max_features=None, max_depth=1, random_state=0)
    forest = rc.Forest.from_sklearn(model.fit(X[:, :1], Y))
    schema = rc.Schema((rc.Feature("x", "continuous", low=0, high=1),))
    method = rc.Certified(0.1, **SMALL)
    with pytest.raises(rc.ForestError, match="choose scenario 'bootstrap'"):
        rc.Explainer(forest, schema, method, target=1, training=(X[:, :1], Y))
    resampled = rc.Certified(0.1, scenario="bootstrap", **SMALL)
    rc.Explainer(forest, schema, resampled, target=1, training=(X[:, :1], Y))


def test_a_single_tree_can_be_certified_under_a_bootstrap() -> None:
    tree = rc.Forest.from_sklearn(DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, Y))
    method = rc.Certified(0.2, scenario="bootstrap", forests=20, pool=10, pilot=50)
    explainer = rc.Explainer(tree, DATA.schema, method, target=1, training=(X, Y))
    rejected = DATA.X.iloc[np.flatnonzero(tree.predict(X) == 0)[:2]]
    for answer in explainer.explain_many(rejected):
        assert answer.certificate is not None
        assert answer.certificate.n_trees == 1


def test_other_scenarios(fresh: rc.FreshForests) -> None:
    larger = rc.Certified(0.1, scenario="trees-40", **SMALL)
    again = rc.train_fresh(FOREST, X, Y, larger.design, seed=1)
    (answer, *_) = explained(again, larger)
    assert answer.certificate.n_trees == 40
    evolving = rc.Certified(0.1, scenario="evolving", **SMALL)
    first = np.arange(300)
    forest = rc.Forest.from_sklearn(
        RandomForestClassifier(15, max_depth=3, random_state=4).fit(X[:300], Y[:300])
    )
    later = rc.train_fresh(forest, X, Y, evolving.design, first=first)
    explainer = rc.Explainer(
        forest, DATA.schema, evolving, target=1, training=(X[:300], Y[:300]), fresh=(later,)
    )
    assert {a.certificate.scenario for a in explainer.explain_many(REJECTED) if a.certificate} == {"evolving"}
    with pytest.raises(rc.ForestError, match="needs the rows collected later"):
        rc.Explainer(forest, DATA.schema, evolving, target=1, training=(X[:300], Y[:300]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha is 0.0"),
        ({"alpha": 0.05, "delta": 0.0}, "delta is 0.0; it must lie strictly between 0 and 1"),
        ({"alpha": 0.05, "forests": 58, "test": "forests"}, "at least 59 forests are needed"),
        ({"alpha": 0.05, "tests": 1000, "test": "forests"}, "shared by 1,000 tests, at least 194 forests"),
        ({"alpha": 0.05, "pool": -1}, "pool is -1"),
        ({"alpha": 0.05, "pilot": 10}, "pilot is 10"),
        ({"alpha": 0.05, "forests": True}, "forests is True"),
        ({"alpha": 0.05, "scenario": "tomorrow"}, "unknown scenario 'tomorrow'"),
        ({"alpha": 0.05, "test": "votes"}, "test is 'votes'"),
        ({"alpha": 0.05, "test": "trees", "scenario": "bootstrap"}, "needs independent trees"),
        ({"alpha": 0.05, "levels": (0.6, 0.5)}, "levels must rise"),
        ({"alpha": 0.05, "levels": (0.4, 0.5)}, "levels must rise and lie in"),
        ({"alpha": 0.05, "levels": ()}, "levels must rise"),
    ],
)
def test_bad_input_is_one_clear_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rc.Certified(**options)


def test_tests_that_do_not_fit_the_voting_are_refused() -> None:
    with pytest.raises(ValueError, match="needs hard votes"):
        rc.Certified(0.05, test="trees").test_for("soft", 2)
    with pytest.raises(ValueError, match="is for soft votes"):
        rc.Certified(0.05, test="trees-asymptotic").test_for("hard", 2)
    assert rc.Certified(0.05).test_for("hard", 2) == "trees"
    assert rc.Certified(0.05).test_for("hard", 3) == "forests"
    assert rc.Certified(0.05, scenario="bootstrap").test_for("hard", 2) == "forests"


@pytest.mark.parametrize("n", [1, 5, 100, 400, 2000])
def test_the_path_rises_from_one_half_and_reaches_far(n: int) -> None:
    path = rc.Certified(0.05).path(n)
    assert path[0] == 0.5
    assert path[-1] == pytest.approx(0.95) or n == 1
    assert all(a < b for a, b in pairwise(path))
    assert any(abs(level - p_star(n, 0.05)) < 0.05 for level in path) or n == 1


def test_nothing_warns_about_checked_rows() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rc.Explainer(FOREST, DATA.schema, METHOD, target=1, training=(X, Y))


def test_no_recourse_means_that_no_allowed_change_flips_the_forest() -> None:
    """A pool that accepts no point does not prove that there is no recourse."""
    hopeless = Design(forests=60, pool=60, pilot=60)
    rng = np.random.default_rng(0)
    forest = stumps(rng, 9, 0.0, 1.0)
    made = [(o, stumps(rng, o.n_trees, *((2.0, 3.0) if o.kind == "pool" else (0.0, 1.0))))
            for o in orders(hopeless, 9, 0)]  # fmt: skip
    fresh = rc.FreshForests.assembled(forest, hopeless, made)
    explainer = rc.Explainer(
        forest, STUMPS, rc.Certified(0.05, forests=60, pool=60, pilot=60), target=1,
        training=(np.array([[0.1], [0.9]]), np.array([0, 1])), fresh=(fresh,),
    )  # fmt: skip
    answer = explainer.explain({"x": 0.2})
    assert answer.status == "optimal"
    assert answer.certificate.pool_trees == 9
    fixed = rc.Schema((rc.Feature("x", "continuous", low=0.0, high=1.0, action="fixed"),))
    explainer = rc.Explainer(
        forest, fixed, rc.Certified(0.05, forests=60, pool=60, pilot=60), target=1,
        training=(np.array([[0.1], [0.9]]), np.array([0, 1])), fresh=(fresh,),
    )  # fmt: skip
    answer = explainer.explain({"x": 0.2})
    assert answer.status == "no_recourse"
    assert answer.certificate is None
    assert answer.best_score == answer.score_before


@pytest.mark.parametrize("pool", [0, 60])
def test_levels_that_no_point_reaches_do_not_prove_that_there_is_no_recourse(pool: int) -> None:
    """Only the level 1/2 tells whether there is recourse, however many levels lie above it."""
    rng, n = np.random.default_rng(1), 201
    forest = stumps(rng, n)
    majority = float(np.sort(forest.threshold[::3])[n // 2])  # above it, 101 of the 201 stumps agree
    schema = rc.Schema((rc.Feature("x", "continuous", low=0.0, high=1.0, upper=majority + 1e-6),))
    method = rc.Certified(
        0.05, forests=60, pool=pool, pilot=410, levels=tuple(np.linspace(0.5, 1.0, 2000).tolist())
    )
    made = [(order, stumps(rng, order.n_trees)) for order in orders(method.design, n, 0)]
    explainer = rc.Explainer(
        forest, schema, [rc.Naive(), method], target=1, training=(np.array([[0.1], [0.9]]), np.array([0, 1])),
        fresh=(rc.FreshForests.assembled(forest, method.design, made),),
    )  # fmt: skip
    naive, certified = explainer.explain_grid({"x": 0.2})
    assert naive.status == "optimal"
    assert certified.status == "optimal", certified.status
    assert certified.point == naive.point
    assert certified.certificate is not None
