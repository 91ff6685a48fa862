"""The synthetic credit data: sound, reproducible, learnable, and not too much so."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from robustcf.datasets import DatasetError, synthetic_credit
from robustcf.datasets.synthetic import _applicants, repayment_probability
from robustcf.schema.encode import read_rows


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 400), seed=st.integers(0, 2**32))
def test_rows_obey_the_declared_schema_whatever_the_size_and_seed(n: int, seed: int) -> None:
    data = synthetic_credit(n, seed)
    assert len(data) == n
    assert data.schema == synthetic_credit(1, 0).schema
    assert set(data.y) <= {0, 1}
    assert read_rows(data.schema, data.X).reasons == [None] * n
    for feature in data.schema.features:
        column = data.X[feature.name]
        if feature.kind != "continuous":
            assert set(column) <= set(feature.values)
        else:
            assert feature.step is not None
            assert column.between(*feature.span).all()
            assert (column % feature.step == 0).all()
    encoded = data.encode(data.X)
    assert encoded.min() >= 0
    assert encoded.max() <= 1
    assert (data.X["months_employed"] <= 12 * (data.X["age"] - 16)).all()


def test_the_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    first, again, other = (synthetic_credit(300, seed) for seed in (5, 5, 6))
    pd.testing.assert_frame_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert not first.X.equals(other.X)


def test_the_schema_shows_every_kind_and_every_action() -> None:
    features = synthetic_credit(1).schema.features
    assert {f.kind for f in features} == {"binary", "categorical", "discrete", "continuous"}
    assert {f.action for f in features} == {"free", "fixed", "increase", "decrease"}
    assert all(f.label for f in features)
    assert {f.unit for f in features} == {"", "years", "months", "EUR"}


def test_seventy_percent_repay_and_no_model_can_know_more_than_about_eighty_two_percent() -> None:
    probability = repayment_probability(_applicants(np.random.default_rng(1), 100_000))
    assert 0.68 < probability.mean() < 0.72
    assert 0.80 < np.maximum(probability, 1 - probability).mean() < 0.85


def test_columns_hang_together_as_in_life() -> None:
    X = synthetic_credit(20_000).X
    numbers = X.select_dtypes("number").corr(method="spearman")
    assert numbers.loc["income", "savings"] > 0.3
    assert numbers.loc["loan_amount", "duration"] > 0.5
    employed = X[X["months_employed"] > 0]
    assert employed["age"].corr(employed["months_employed"], method="spearman") > 0.2
    assert numbers.loc["savings", "late_payments"] < -0.05
    income = X.groupby("employment")["income"].median()
    assert income["unemployed"] < income["temporary"] < income["permanent"]
    assert X.groupby("housing")["age"].median()["with family"] < X["age"].median()


def test_a_forest_learns_it() -> None:
    train, test = synthetic_credit(2000, seed=1), synthetic_credit(5000, seed=2)
    model = RandomForestClassifier(100, max_depth=4, random_state=0).fit(train.encode(train.X), train.y)
    matrix = test.encode(test.X)
    assert model.score(matrix, test.y) > test.y.mean() + 0.05
    assert 0.05 < (model.predict(matrix) == 0).mean() < 0.3


@pytest.mark.parametrize("n", [0, -3])
def test_no_rows_are_refused(n: int) -> None:
    with pytest.raises(DatasetError, match="at least 1 row"):
        synthetic_credit(n)
