"""Certificates that hold together: δ is divided among them before the first test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.certificate.bounds import (
    NEARLY_ALL,
    chance_to_pass,
    forests_needed,
    granting_forests,
    lower_bound,
)
from robustcf.methods.answer_key import method_value

DATA = rc.datasets.synthetic_credit(n=400, seed=2)
X, Y = DATA.encode(DATA.X), DATA.y
FOREST = rc.Forest.from_sklearn(RandomForestClassifier(15, max_depth=3, random_state=4).fit(X, Y))
REJECTED = np.flatnonzero(FOREST.predict(X) == 0)
ACCEPTED = np.flatnonzero(FOREST.predict(X) == 1)
SMALL: dict[str, Any] = {"forests": 40, "pool": 0, "pilot": 60, "joint": True}


@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.01])
@pytest.mark.parametrize("tests", [1, 30, 1000])
def test_the_forests_that_grant_nearly_all_are_the_fewest(alpha: float, tests: int) -> None:
    forests, validity = granting_forests(alpha, 0.05 / tests)
    assert 1 - alpha < validity < 1
    chances = [
        chance_to_pass(validity, m, alpha, 0.05 / tests)
        for m in range(forests_needed(alpha, 0.05 / tests), forests + 1)
    ]
    assert chances[-1] >= NEARLY_ALL
    assert max(chances[:-1], default=0) < NEARLY_ALL


def test_one_call_counts_its_rejected_rows() -> None:
    """Accepted and unreadable rows get no certificate and do not count."""
    methods = [rc.Certified(0.3, **SMALL), rc.Certified(0.2, **SMALL), rc.DirectSAA(0.2)]
    explainer = rc.Explainer(FOREST, DATA.schema, methods, target=1, training=(X, Y))
    rows = DATA.X.iloc[np.r_[REJECTED[:3], ACCEPTED[:4]]].astype({"housing": object})
    rows.iloc[6, rows.columns.get_loc("housing")] = "castle"
    given = [cf.certificate for cf in explainer.explain_many(rows) if cf.certificate is not None]
    assert len(given) == 6
    assert any(one.certified for one in given)
    for one in given:
        assert (one.delta, one.tests) == (0.05 / 6, 6)
        assert one.lower_bound == lower_bound(one.agree, 40, 0.05 / 6)
        if one.certified:
            assert str(one).startswith(f"with confidence {1 - 0.05 / 6:.6g} over")
            assert str(one).endswith("; all 6 certificates hold together with confidence 0.95")
    (alone, _, _) = explainer.explain_grid(DATA.X.iloc[REJECTED[0]])
    assert alone.certificate is not None
    assert alone.certificate.delta == 0.05 / 2  # the two methods of one row
    with pytest.raises(ValueError, match=r"forests is 40; .* shared by 3,080 tests, at least 50 forests"):
        explainer.explain_many(DATA.X.iloc[np.tile(REJECTED, 20)])


def test_a_joint_method_has_the_answers_of_its_number_of_tests() -> None:
    """An earlier answer is copied if and only if the number is the same."""
    joint = rc.Certified(0.2, **SMALL)
    assert joint.shared_by(6) == rc.Certified(0.2, **(SMALL | {"joint": False}), tests=6)
    assert joint.shared_by(0).tests == 1  # nobody was rejected
    assert method_value(joint.shared_by(6)) != method_value(joint.shared_by(7))
    assert "joint" not in method_value(joint)


def test_points_of_any_origin_can_hold_together() -> None:
    model = RandomForestClassifier(5, max_depth=3, random_state=0)
    points = X[:20]
    table = rc.certify(points, model, training=(X, Y), target=1, alpha=0.3, forests=30, joint=True)
    assert table["lower_bound"].tolist() == [lower_bound(a, 30, 0.05 / 20) for a in table["agree"]]
    claims = table.loc[table["certified"], "claim"]
    assert len(claims) > 0
    assert claims.str.endswith("; all 20 certificates hold together with confidence 0.95").all()
    with pytest.raises(
        ValueError, match=r"forests is 10; .* shared by 20 tests, at least 17 are needed; about"
    ):
        rc.certify(points, model, training=(X, Y), target=1, alpha=0.3, forests=10, joint=True)
    with pytest.raises(ValueError, match="joint sets the number of tests, but tests is 20; leave one out"):
        rc.certify(points, model, training=(X, Y), target=1, joint=True, tests=20)
