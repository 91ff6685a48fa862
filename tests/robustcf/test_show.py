"""Answers as people read them: few digits, but never a change that would not do."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.counterfactual import Change, Counterfactual
from robustcf.schema.encode import encode, read_rows
from robustcf.schema.schema import Feature, Schema
from robustcf.show import as_record, change_rows, rounded_changes, value_text, verdict

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
