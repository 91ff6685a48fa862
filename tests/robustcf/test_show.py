"""Answers as people read them: few digits, but never a change that would not do."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.counterfactual import Change, Counterfactual
from robustcf.schema.encode import encode, read_rows
from robustcf.schema.schema import Feature, Schema
from robustcf.show import (
    as_record,
    certificate_text,
    change_rows,
    demand,
    rounded_changes,
    value_text,
    verdict,
)

INCOME = Feature("income", "continuous", low=0, high=10_000, unit="EUR", label="Net income")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 EUR"),
        (-0.0, "0 EUR"),
        (1610.0, "1610 EUR"),
        (12_000, "12,000 EUR"),
        (1234.5678, "1234.57 EUR"),
        (0.1 + 0.2, "0.3 EUR"),
        (-2.5, "-2.5 EUR"),
        (1.5e-9, "1.5e-9 EUR"),
        (1e300, "1e+300 EUR"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_are_short_and_have_units(value: float, text: str) -> None:
    assert value_text(INCOME, value, 6) == text


def test_words_are_left_alone() -> None:
    assert value_text(Feature("sex", "binary", values=("female", "male")), "male") == "male"


def test_methods_have_titles() -> None:
    methods = (rc.Naive(), rc.DirectSAA(0.2), rc.RobustSAA(0.05, 0.1))
    assert [m.title for m in methods] == [
        "Naive",
        "Direct-SAA, α = 0.2",
        "Robust-SAA, α = 0.05, β = 0.1",
    ]


def test_every_status_has_a_verdict() -> None:
    statuses = (
        "optimal",
        "feasible",
        "no_recourse",
        "timeout",
        "already_favourable",
        "invalid_input",
        "error",
    )
    verdicts = [verdict(Counterfactual(s, rc.Naive(), reason="because")) for s in statuses]
    assert len(set(verdicts)) == len(statuses)
    assert "proved nearest" in verdicts[0]
    assert verdicts[1].startswith("not proved")
    assert verdicts[-1] == "error: because"


def test_what_changes_never_looks_unchanged() -> None:
    rows = change_rows(Schema((INCOME,)), (Change("income", 1.0, 1.00000001, 1e-8),))
    assert rows == [("Net income", "1 EUR", "1.00000001 EUR")]


@pytest.mark.parametrize("seed", range(6))
def test_shown_changes_reach_what_they_say(seed: int) -> None:
    """Features of very different scale, no steps: what is printed is typed in again and judged."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.random((300, 4)) * [1, 1e-7, 1e9, 1] + [0, 0, -5e8, 1e5])
    schema = Schema.from_frame(frame)
    X = encode(schema, read_rows(schema, frame).numbers)
    y = (X @ [1, 1, -1, 1] + rng.normal(scale=0.2, size=300) > 1).astype(int)
    model = RandomForestClassifier(25, max_depth=4, random_state=seed).fit(X, y)
    explainer = rc.Explainer(rc.Forest.from_sklearn(model), schema, rc.DirectSAA(0.1))
    for i in range(5):
        cf = explainer.explain(frame.iloc[i])
        if cf.status != "optimal":
            continue
        shown = rounded_changes(explainer, frame.iloc[i], cf)
        typed = dict(frame.iloc[i].rename(str))
        for (_, _, after), change in zip(change_rows(schema, shown), shown, strict=True):
            typed[change.feature] = float(after.replace(",", ""))
            assert len(after) <= len(repr(change.after)) + 3
        encoded = encode(schema, read_rows(schema, typed).numbers)
        assert model.predict(encoded)[0] == cf.target
        assert model.predict_proba(encoded)[0, cf.target] >= cf.threshold - 1e-9


def test_records_are_plain_json() -> None:
    data = rc.datasets.synthetic_credit(200)
    model = RandomForestClassifier(10, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
    explainer = rc.Explainer(rc.Forest.from_sklearn(model), data.schema)
    for cf in explainer.explain_many(data.X.head(3)):
        record = json.loads(json.dumps(as_record(cf), allow_nan=False))
        assert record["status"] == cf.status
        assert record["best_score"] is None or record["best_score"] == cf.best_score
        assert [c["after"] for c in record["changes"]] == [c.after for c in cf.changes]


CERTIFICATE = rc.Certificate(True, 99, 100, 0.9534, 0.05, 0.05, "same-data", 15, level=0.61)


@pytest.mark.parametrize(
    ("cf", "text"),
    [
        (Counterfactual("optimal", rc.DirectSAA(0.05)), None),
        (Counterfactual("already_favourable", rc.Certified(0.05)), None),
        (
            Counterfactual("optimal", rc.Certified(0.05), certificate=CERTIFICATE),
            "certified: with confidence",
        ),
        (
            Counterfactual(
                "optimal", rc.Certified(0.05), certificate=replace(CERTIFICATE, certified=False, agree=97)
            ),
            "not certified: 97 of 100 certification forests agree",
        ),
        (Counterfactual("no_recourse", rc.Certified(0.05)), "no certificate: no allowed change flips"),
        (Counterfactual("timeout", rc.Certified(0.05)), "no certificate: the time limit"),
        (Counterfactual("error", rc.Certified(0.05), reason="it broke"), "no certificate: it broke"),
    ],
)
def test_a_certificate_or_why_there_is_none(cf: Counterfactual, text: str | None) -> None:
    said = certificate_text(cf)
    assert said is None if text is None else (said or "").startswith(text)


def test_a_certified_change_is_shown_exactly() -> None:
    """The certificate is about the exact point: rounded values were never tested."""
    explainer, data = credit()
    row = data.X.iloc[6]
    change = Change("income", 1610.0, 1723.456789012, 113.456789012)
    cf = Counterfactual("optimal", rc.Certified(0.2), changes=(change,), certificate=CERTIFICATE)
    assert rounded_changes(explainer, row, cf) == (change,)
    assert "1723.456789012" in change_rows(data.schema, (change,))[0][2]
    assert json.loads(json.dumps(as_record(cf)))["certificate"]["agree"] == 99


def test_a_certificate_that_does_not_fit_the_votes_is_refused_before_training() -> None:
    explainer, data = credit()
    rows = (data.encode(data.X), data.y)
    for method, words in (
        (rc.Certified(0.2, test="trees"), "needs hard votes"),
        (rc.Certified(0.05, forests=50), "forests is 50; .* at least 59 forests are needed"),
    ):
        with pytest.raises(ValueError, match=words):
            rc.Explainer(explainer.forest, data.schema, method, target=1, training=rows)
    with pytest.raises(ValueError, match="Certified needs training rows"):
        rc.Explainer(explainer.forest, data.schema, rc.Certified(0.05), target=1)


def credit() -> tuple[rc.Explainer, rc.datasets.Dataset]:
    data = rc.datasets.synthetic_credit(100, seed=0)
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
    return rc.Explainer(rc.Forest.from_sklearn(model), data.schema, target=1), data


def test_a_certified_point_is_called_nearest_only_at_its_level() -> None:
    """It is not the nearest point with a score of 1/2, which is the method's threshold."""
    certificate = rc.Certificate(
        True, 99, 100, 0.953, 0.05, 0.05, "same-data", 100, level=0.575, pool_score=0.58, pool_trees=400
    )
    cf = rc.Counterfactual("optimal", rc.Certified(0.05), threshold=0.5, certificate=certificate)
    assert demand(cf) == "score of at least 0.575 from 400 trees, and the forest's own decision"
    assert verdict(cf) == (
        "proved nearest at its level: no smaller allowed change has a score of at least 0.575 from 400 trees "
        "and flips the decision"
    )
