"""Sparse matrices inside pipelines, where scikit-learn's scalers multiply by 1/scale and do not divide."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, RobustScaler, StandardScaler

from robustcf.pipeline.read import read_model
from robustcf.schema.encode import encode, read_rows
from robustcf.schema.feature import SchemaError

SCALERS: dict[str, Any] = {
    "max-abs": (MaxAbsScaler(), 5),
    "robust": (RobustScaler(with_centering=False), 5),
    "standard": (StandardScaler(with_mean=False), 9),
}


def fitted(scaler: Any, seed: int, sparse_threshold: float = 1.0) -> tuple[Pipeline, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    n = 80
    towns = rng.choice(list("abcde"), n)
    X = pd.DataFrame({"town": towns, "count": rng.integers(0, int(rng.integers(5, 60)), n)})
    drive = X["count"] / X["count"].max() * 6 + 2 * (X["town"] == "a") + rng.integers(0, 4, n)
    before = ColumnTransformer(
        [("town", OneHotEncoder(), ["town"]), ("count", "passthrough", ["count"])],
        sparse_threshold=sparse_threshold,
    )
    forest = RandomForestClassifier(5, max_depth=3, random_state=seed)
    model = Pipeline([("before", before), ("scale", scaler), ("forest", forest)])
    return model.fit(X, drive > 5), X


@pytest.mark.parametrize("name", SCALERS)
def test_a_scaler_of_a_sparse_matrix_is_followed_to_the_last_bit(name: str) -> None:
    """We divided by the scale; 64 range ends and thresholds did not show that the last bits differ."""
    scaler, seed = SCALERS[name]
    model, X = fitted(scaler, seed)
    assert model[0].sparse_output_
    read = read_model(model)
    schema = read.schema(X)
    rows = pd.DataFrame({"town": "b", "count": np.arange(7001) / 100})
    ours = encode(schema, read_rows(schema, rows[list(schema.names)]).numbers)
    theirs = model[:-1].transform(rows).toarray()
    assert (ours == theirs).all()
    divided = rows["count"].to_numpy() / model[1].scale_[-1]
    assert (divided != theirs[:, -1]).any()  # so the difference is there to be seen
    assert schema["count"].transform == (("multiply", 1.0 / model[1].scale_[-1]),)


@pytest.mark.parametrize("name", SCALERS)
def test_the_same_scaler_of_a_dense_matrix_still_divides(name: str) -> None:
    scaler, seed = SCALERS[name]
    model, X = fitted(scaler, seed, sparse_threshold=0.0)
    read = read_model(model)
    assert read.schema(X)["count"].transform == (("divide", model[1].scale_[-1]),)


@pytest.mark.parametrize("name", SCALERS)
def test_a_scale_fitted_in_float32_is_inverted_in_float32(name: str) -> None:
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"town": rng.choice(list("abcde"), 90), "sum": rng.normal(size=90).astype(np.float32)})
    before = ColumnTransformer(
        [("town", OneHotEncoder(dtype=np.float32), ["town"]), ("sum", "passthrough", ["sum"])],
        sparse_threshold=1.0,
    )
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)
    model = Pipeline([("before", before), ("scale", SCALERS[name][0]), ("forest", forest)])
    model.fit(X, X["sum"] > 0.1)
    schema = read_model(model).schema(X)
    rows = pd.DataFrame({"town": "b", "sum": rng.normal(size=2000)})
    ours = encode(schema, read_rows(schema, rows[list(schema.names)]).numbers)
    assert (ours == model[:-1].transform(rows).toarray()).all()


def test_a_sparse_matrix_takes_no_missing_number_though_its_forest_would() -> None:
    """Forests refuse sparse matrices with missing values; we answered such customers all the same."""
    X = pd.DataFrame({"town": list("abcde") * 16, "count": np.arange(80.0)})
    before = ColumnTransformer([("town", OneHotEncoder(), ["town"])], remainder="passthrough")
    for threshold, takes in ((1.0, False), (0.0, True)):
        before.set_params(sparse_threshold=threshold)
        forest = RandomForestClassifier(3, max_depth=2, random_state=0)
        model = Pipeline([("before", before), ("forest", forest)]).fit(X, X["count"] > 40)
        read = read_model(model)
        gone = X.head(1).assign(count=np.nan)
        reasons = read_rows(read.schema(X), gone, missing=read.forest.accepts_missing).reasons
        assert (reasons == [None]) is takes
        if not takes:
            with pytest.raises(ValueError, match="NaN"):
                model.predict(gone)


def test_a_scale_whose_inverse_is_infinite_is_refused_by_step_and_column() -> None:
    model, _ = fitted(StandardScaler(with_mean=False), 9)
    model[1].scale_[-1] = 1e-310
    with pytest.raises(SchemaError, match=r"step 'scale', column 'count': the scale 1e-310 is too small"):
        read_model(model)


def test_a_difference_between_two_thresholds_is_found_by_random_rows() -> None:
    """A step that is off in few places only: the ends of the range and the thresholds are all right."""

    model, X = fitted(StandardScaler(with_mean=False), 9, sparse_threshold=0.0)
    read = read_model(model)
    step = model[1]

    def transform(rows: Any) -> Any:
        made = StandardScaler.transform(step, rows)
        return np.where(np.isclose(made, 0.123, atol=0.05), np.nextafter(made, np.inf), made)

    step.transform = transform
    with pytest.raises(SchemaError, match=r"step 'scale', column 'count': its encoding cannot be reproduced"):
        read.schema(X)
