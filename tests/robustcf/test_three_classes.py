"""More than two classes: `predict` decides by default, and every text says what is demanded."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import robustcf as rc
from robustcf.schema.encode import encode
from robustcf.show import verdict
from tests.helpers.wines import Wine, three_wines


@pytest.fixture(scope="module")
def wine() -> Wine:
    return three_wines()


def points_around(schema: rc.Schema, row: pd.Series) -> np.ndarray:
    """A fine grid over the two measurements that may change, encoded."""
    free = [schema.names.index(name) for name in ("color_intensity", "flavanoids")]
    axes = [np.linspace(*schema.features[j].span, 60) for j in free]
    points = np.repeat(row.to_numpy(dtype=float)[None, :], 3600, axis=0)
    points[:, free] = np.stack([axis.ravel() for axis in np.meshgrid(*axes)], axis=1)
    return encode(schema, points)


def test_naive_flips_predict_and_no_recourse_means_that_nothing_does(wine: Wine) -> None:
    """`Naive` once demanded half of the votes, although a class can win with less."""
    forest, schema, frame = wine
    low, statuses = 0, set()
    for target in (0, 1, 2):
        explainer = rc.Explainer(forest, schema, rc.Naive(), target=target)
        for answer, (_, row) in zip(explainer.explain_many(frame), frame.iterrows(), strict=True):
            statuses.add(answer.status)
            assert answer.threshold == pytest.approx(1 / 3)
            assert np.isnan(answer.cutoff)
            if answer.status == "optimal":
                assert forest.judge.predict(answer.encoded[None, :])[0] == target
                low += bool(answer.score < 0.5)
                assert "above every other class" in verdict(answer)
            if answer.status == "no_recourse":
                points = points_around(schema, row)
                assert (forest.predict(points) != target).all()
                assert answer.best_score >= forest.score(points, target).max() - 1e-9
                assert "no change within the limits" in verdict(answer)
    assert low > 3
    assert statuses == {"optimal", "no_recourse", "already_favourable"}


def test_one_against_rest_asks_for_half_of_the_votes(wine: Wine) -> None:
    forest, schema, frame = wine
    against, plural = (
        rc.Explainer(forest, schema, rc.Naive(), target=1, decision=rule).explain_many(frame)
        for rule in ("one-against-rest", "plurality")
    )
    for high, low in zip(against, plural, strict=True):
        assert high.cutoff == 0.5
        if high.status == "optimal":
            assert high.score > 0.5
            assert low.status in ("optimal", "already_favourable")
            assert low.status != "optimal" or low.distance <= high.distance + 1e-12
        if high.status == "already_favourable":
            assert low.status == "already_favourable"
    assert any(a.distance > b.distance + 1e-6 for a, b in zip(against, plural, strict=True))


def test_the_decision_must_fit_the_model_and_the_cutoff(wine: Wine) -> None:
    forest, schema, _ = wine
    for wrong, words in (
        ({"decision": "most"}, "choose among plurality, one-against-rest"),
        ({"decision": "plurality", "cutoff": 0.4}, "a plurality has no cutoff"),
    ):
        with pytest.raises(ValueError, match=words):
            rc.Explainer(forest, schema, rc.Naive(), target=1, **wrong)
    own = forest.decided_at(1, 0.4)
    with pytest.raises(ValueError, match="cut-off of its own"):
        rc.Explainer(own, schema, rc.Naive(), target=1, decision="plurality")


def test_robust_and_plausible_methods_keep_the_decision(wine: Wine) -> None:
    """Direct-SAA asks for p* > 1/2, which no other class can beat; plausibility keeps the plurality."""
    forest, schema, frame = wine
    X = encode(schema, frame.to_numpy(dtype=float))
    y = np.array(forest.classes)[forest.predict(X)]
    plausible = [rc.IsolationForest(0.1), rc.LocalOutlierFactor(0.1), rc.RobX(0.5, k=50)]
    methods = [rc.Naive(), rc.DirectSAA(0.2), *plausible]
    explainer = rc.Explainer(forest, schema, methods, target=1, training=(X, y))
    found = explainer.explain_many(frame.iloc[::7])
    assert {a.status for a in found} >= {"optimal", "heuristic"}
    assert all(a.status != "error" for a in found), [a.reason for a in found]
    below_half = {a.method.name for a in found if a.works and a.score < 0.5}
    assert below_half >= {"naive", "isolation-forest", "local-outlier-factor"}


def test_assessing_a_point_tells_a_plurality_from_a_tie(wine: Wine) -> None:
    forest, schema, frame = wine
    answers = rc.Explainer(forest, schema, rc.Naive(), target=1).explain_many(frame)
    low = next(a for a in answers if a.status == "optimal" and a.score < 0.5)
    line = rc.assess_points(forest, schema, pd.DataFrame([low.point]), 1).iloc[0]
    assert line["valid_now"]
    assert line["passes naive"]
    assert 0 < line["predicted"] < 1
