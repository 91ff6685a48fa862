"""The cut-off of a decision: answers, files, retraining, certificates and judges agree on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import robustcf as rc
from robustcf.certificate.design import Design
from robustcf.certificate.fresh import train_fresh
from robustcf.pipeline.read import read_model
from robustcf.validate import retrain, validity


@pytest.fixture(scope="module")
def world() -> tuple[rc.Dataset, RandomForestClassifier, rc.Forest]:
    data = rc.datasets.synthetic_credit(n=300, seed=0)
    model = RandomForestClassifier(20, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
    return data, model, rc.Forest.from_sklearn(model)


@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize("c", [0.2, 0.3, 0.5, 0.7])
def test_answers_reach_the_cutoff_and_no_nearer_point_is_found(world, c: float, voting: str) -> None:
    data, model, forest = world
    explainer = rc.Explainer(
        forest, data.schema, [rc.Naive(), rc.DirectSAA(0.2)], target=1, cutoff=c, voting=voting
    )
    answers = explainer.explain_many(data.X.head(40))
    X = data.encode(data.X.head(40))
    score = forest.score(X, 1, voting)
    for cf in answers:
        if cf.status == "already_favourable":
            assert score[cf.row] >= c
            continue
        assert score[cf.row] < c or (c == 0.5 and score[cf.row] == c)
        assert cf.status in ("optimal", "no_recourse")
        assert cf.cutoff == c
        if cf.status == "optimal":
            assert cf.encoded is not None
            if voting == "soft":
                assert model.predict_proba(cf.encoded[None, :])[0, 1] >= c
            assert forest.score(cf.encoded[None, :], 1, voting)[0] >= c
            assert cf.verified
    assert {cf.status for cf in answers} >= {"already_favourable", "optimal"} or c < 0.5


def test_a_low_score_can_be_favourable(world) -> None:
    """A default probability of at most 0.3 is a score of repaid of at least 0.7, up to ties."""
    data, model, forest = world
    low = rc.Explainer(forest, data.schema, rc.DirectSAA(0.1), target=1, cutoff=0.3, score_of=0)
    high = rc.Explainer(forest, data.schema, rc.DirectSAA(0.1), target=1, cutoff=0.7)
    rows = data.X.head(25)
    for one, other in zip(low.explain_many(rows), high.explain_many(rows), strict=True):
        assert (one.status, one.cutoff) == (other.status, 0.7)
        assert one.distance == pytest.approx(other.distance, nan_ok=True)
        if one.encoded is not None and one.status == "optimal":
            assert model.predict_proba(one.encoded[None, :])[0, 0] <= 0.3


def test_both_directions_without_a_target(world) -> None:
    data, _, forest = world
    X = data.encode(data.X.head(30))
    for cf in rc.Explainer(forest, data.schema, cutoff=0.7).explain_many(data.X.head(30)):
        approved = forest.score(X, 1)[cf.row] >= 0.7
        assert cf.target == (0 if approved else 1)
        assert cf.cutoff == (0.3 if approved else 0.7)
        if cf.status == "optimal":
            assert cf.encoded is not None
            assert (forest.score(cf.encoded[None, :], 1)[0] >= 0.7) != approved


def test_files_retraining_and_fresh_forests_keep_the_decision(world, tmp_path: Path) -> None:
    data, _, forest = world
    X, y = data.encode(data.X), data.y
    strict = forest.decided_at(1, 0.7)
    assert strict.fingerprint != forest.fingerprint
    rc.save_forest(strict, tmp_path)
    stored = rc.load_forest(tmp_path)
    assert stored == strict
    assert stored.decision == strict.decision
    again = retrain(strict, X, y, seed=3)
    assert again.decision == strict.decision
    expected = again.score(X, 1) >= 0.7
    assert (validity([again], X, [1] * len(X))[:, 0] == expected).all()
    fresh = train_fresh(strict, X, y, Design(forests=3, pool=20, pilot=60), seed=1)
    agreeing = fresh.certification.agree(X, 1, "soft")
    for k in range(3):
        trees = slice(k * 20, (k + 1) * 20)
        leaves = fresh.certification.trees.leaves(X)[:, trees]
        share = fresh.certification.trees.probabilities[leaves, 1].mean(axis=1)
        clear = np.abs(share - 0.7) > 1e-9
        assert (agreeing[clear, k] == (share >= 0.7)[clear]).all()
    text = (tmp_path / "forest.json").read_text()
    (tmp_path / "forest.json").write_text(text.replace("0.7", "0.6"))
    with pytest.raises(rc.ForestError, match="altered"):
        rc.load_forest(tmp_path)


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_certificates_speak_of_the_cutoff(world, voting: str) -> None:
    data, _, forest = world
    X, y = data.encode(data.X), data.y
    method = rc.Certified(0.1, 0.1, forests=40, pool=40, pilot=200)
    explainer = rc.Explainer(
        forest, data.schema, method, target=1, cutoff=0.6, voting=voting, training=(X, y)
    )
    checked = 0
    for cf in explainer.explain_many(data.X.head(12)):
        if cf.certificate is None or not cf.certificate.certified:
            continue
        checked += 1
        assert cf.certificate.level >= 0.6
        assert cf.encoded is not None
        later = [retrain(explainer.forest, X, y, 10_000 + s) for s in range(30)]
        held = np.mean([f.score(cf.encoded[None, :], 1, voting)[0] >= 0.6 for f in later])
        assert held >= 0.7
    assert checked >= 3


def test_the_users_own_model_judges_by_the_cutoff() -> None:
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"income": rng.uniform(1, 9, 200), "debt": rng.uniform(0, 5, 200)})
    y = np.where(X["income"] - X["debt"] + rng.normal(size=200) > 2, "yes", "no")
    pipe = make_pipeline(StandardScaler(), RandomForestClassifier(15, max_depth=3, random_state=0)).fit(X, y)
    read = read_model(pipe)
    schema = read.schema(X)
    explainer = rc.Explainer(
        read.forest, schema, target="yes", cutoff=0.8, judge=read.judge(schema), best_score=False
    )
    before = pipe.predict_proba(X.head(30))[:, 1]
    for cf in explainer.explain_many(X.head(30)):
        assert (cf.status == "already_favourable") == (before[cf.row] >= 0.8)
        if cf.status == "optimal":
            assert pipe.predict_proba(pd.DataFrame([cf.point])[list(X)])[0, 1] >= 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cutoff": 1.5}, "cutoff is 1.5; it must lie strictly between 0 and 1"),
        ({"score_of": 0}, "score_of needs a cutoff"),
        ({"cutoff": 0.3, "score_of": 7}, "the forest has no class 7"),
    ],
)
def test_bad_options_are_one_clear_line(world, options: dict, message: str) -> None:
    data, _, forest = world
    with pytest.raises(ValueError, match=message):
        rc.Explainer(forest, data.schema, target=1, **options)
