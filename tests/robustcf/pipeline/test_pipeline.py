"""Reading a fitted pipeline: what is found, what a schema file changes, what is refused and how."""

import tomllib
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

import robustcf as rc
from robustcf.pipeline.read import read_model
from robustcf.schema.encode import encode, greatest_number, least_number, read_rows
from robustcf.schema.feature import Feature, SchemaError
from robustcf.schema.schema import Schema

N = 160


def raw(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(20, 70, N),
            "income": rng.normal(3000, 900, N).round(2),
            "city": rng.choice(["Bonn", "Köln", "Ulm"], N),
            "owner": rng.random(N) < 0.4,
            "grade": rng.choice(["low", "mid", "high"], N),
        }
    )
    X.loc[rng.random(N) < 0.2, "city"] = None
    return X


def labels(X: pd.DataFrame) -> np.ndarray:
    return np.where(X["income"] + 30 * X["age"] + 600 * (X["city"] == "Ulm") > 4400, "grant", "deny")


def fitted(transformers: list[Any], X: pd.DataFrame | None = None, **options: Any) -> Pipeline:
    X = raw() if X is None else X
    before = ColumnTransformer(transformers, **options)
    forest = RandomForestClassifier(10, max_depth=3, random_state=0)
    return Pipeline([("prepare", before), ("forest", forest)]).fit(X, labels(raw()))


def usual() -> Pipeline:
    words = make_pipeline(SimpleImputer(strategy="constant", fill_value="elsewhere"), OneHotEncoder())
    grades = OrdinalEncoder(categories=[["low", "mid", "high"]])
    return fitted(
        [
            ("words", words, ["city"]),
            ("grades", grades, ["grade"]),
            ("numbers", StandardScaler(), make_column_selector(dtype_include=np.number)),
            ("rest", "passthrough", ["owner"]),
        ]
    )


def same_as(model: Pipeline, schema: Schema, X: pd.DataFrame) -> bool:
    read = read_model(model)
    rows = read_rows(schema, X[list(schema.names)], missing=True)
    assert rows.reasons == [None] * len(X)
    return np.array_equal(encode(schema, rows.numbers), read.transform(X), equal_nan=True)


def test_the_columns_are_what_a_person_would_say() -> None:
    model, X = usual(), raw()
    schema = read_model(model).schema(X)
    assert schema.names == ("city", "grade", "age", "income", "owner")
    assert [f.kind for f in schema.features] == [
        "categorical",
        "discrete",
        "discrete",
        "continuous",
        "binary",
    ]
    city, grade, age, income, owner = schema.features
    assert city.values == ("Bonn", "Köln", "Ulm", "elsewhere")
    assert city.missing == "elsewhere"
    assert city.allowed == ("Bonn", "Köln", "Ulm")  # nobody is told to go missing
    assert grade.values == ("low", "mid", "high")
    assert age.span == (X["age"].min(), X["age"].max())
    assert income.transform == (
        ("subtract", X["income"].mean()),
        ("divide", pytest.approx(X["income"].std(ddof=0))),
    )
    assert owner.values == (False, True)
    assert same_as(model, schema, X)


def test_a_schema_survives_its_file() -> None:
    schema = read_model(usual()).schema(raw())
    document = tomllib.loads(schema.to_toml())
    assert read_model(usual()).schema(None, document) == schema  # and needs no data then


def test_a_file_changes_what_it_says_and_nothing_else() -> None:
    X = raw()
    changes = {
        "feature": [
            {"name": "age", "action": "increase", "upper": 75},
            {"name": "income", "kind": "continuous", "low": 0, "high": 10_000, "step": 50, "transform": []},
            {"name": "grade", "kind": "categorical", "values": ["high", "low", "mid"]},
            {"name": "owner", "action": "fixed"},
        ],
        "max_changes": 2,
    }
    schema = read_model(usual()).schema(X, changes)
    assert (schema["age"].action, schema["age"].kind, schema["age"].upper) == ("increase", "discrete", 75)
    assert schema["income"].step == 50
    assert schema["income"].transform != ()  # the coding is the model's, whatever a file says
    assert schema["grade"].codes == ((2.0,), (0.0,), (1.0,))
    assert schema.max_changes == 2
    assert same_as(usual(), schema, X)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"name": "wage"}, "'wage' is not a column of the model"),
        ({"name": "city", "values": ["Bonn", "Ulm"]}, "lacks the value 'Köln'"),
        ({"name": "city", "values": ["Bonn", "Köln", "Ulm", "elsewhere", "Jena"]}, "does not know 'Jena'"),
        ({"name": "city", "kind": "discrete"}, "make it categorical"),
        ({"name": "grade", "values": ["high", "mid", "low"]}, "do not rise"),
        ({"name": "age", "speed": 3}, "unknown key 'speed'"),
        (
            {"name": "income", "kind": "binary", "values": ["much", "little"]},
            "its values must be numbers",
        ),
    ],
)
def test_a_file_that_contradicts_the_model_is_refused(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        read_model(usual()).schema(raw(), {"feature": [table]})


def test_a_range_that_nobody_says_is_asked_for() -> None:
    with pytest.raises(SchemaError, match="'age': the model does not contain its range"):
        read_model(usual()).schema()
    told = [{"name": "age", "low": 18, "high": 80}, {"name": "income", "low": 0, "high": 9000}]
    told.append({"name": "owner", "low": 0, "high": 1})
    schema = read_model(usual()).schema(None, {"feature": told})
    assert schema["age"].kind == "continuous"


def test_min_max_scalers_know_their_range() -> None:
    model = fitted([("numbers", MinMaxScaler(), ["age", "income"])])
    X = raw()
    schema = read_model(model).schema()
    assert schema.names == ("age", "income")  # columns that the model drops are not asked for
    assert schema["income"].span == (X["income"].min(), X["income"].max())
    assert same_as(model, schema, X)


def test_a_filled_number_stays_where_it_is_and_is_decided_as_the_pipeline_does() -> None:
    X = raw()
    X.loc[::3, "income"] = np.nan
    filled = make_pipeline(SimpleImputer(strategy="constant", fill_value=2500.5), StandardScaler())
    model = fitted([("income", filled, ["income"]), ("age", "passthrough", ["age"])], X)
    read = read_model(model)
    schema = read.schema(X)
    assert same_as(model, schema, X)
    explainer = rc.Explainer(read.forest, schema, rc.Naive())
    flipped = 0
    for i in range(0, 60, 3):
        cf = explainer.explain(X[list(schema.names)].iloc[i])
        if cf.point is not None and cf.status == "optimal":
            assert {c.feature for c in cf.changes} == {"age"}
            assert np.isnan(cf.point["income"])
            point = X.iloc[[i]].assign(age=cf.point["age"])
            assert model.predict(point)[0] == cf.target
            flipped += 1
    assert flipped > 5


def test_a_fill_in_scaled_units_is_nobodys_own_value() -> None:
    """The mean of a scaled truth value can be 1.0, which is not True."""
    X = raw().assign(owner=np.arange(N) % 2 == 0)
    steps = make_pipeline(MaxAbsScaler(), StandardScaler(with_mean=False), SimpleImputer())
    model = fitted([("owner", steps, ["owner"]), ("n", MinMaxScaler(), ["income"])], X)
    assert model[0].named_transformers_["owner"][-1].statistics_ == [1.0]
    schema = read_model(model).schema(X)
    assert schema["owner"].codes == ((0.0,), (2.0,))
    assert schema["owner"].missing is None
    assert same_as(model, schema, X)


def test_a_missing_category_can_be_left_and_is_named() -> None:
    X = raw()
    model = fitted(
        [("city", OneHotEncoder(handle_unknown="ignore"), ["city"]), ("n", MinMaxScaler(), ["income"])]
    )
    read = read_model(model)
    schema = read.schema(X)
    assert schema["city"].missing == "(missing)"
    assert schema["city"].allowed == ("Bonn", "Köln", "Ulm")
    assert same_as(model, schema, X)
    only_city = Schema((schema["city"], rc.Feature(**{**vars_of(schema["income"]), "action": "fixed"})))
    explainer = rc.Explainer(read.forest, only_city, rc.Naive())
    gone = X[X["city"].isna()][list(schema.names)]
    changes = [c for cf in explainer.explain_many(gone) if cf.status == "optimal" for c in cf.changes]
    assert changes
    assert {c.before for c in changes} == {"(missing)"}


def vars_of(feature: Feature) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(feature)


def test_a_category_none_is_told_from_nan() -> None:
    X = raw().astype({"city": object})
    X["city"] = X["city"].where(X["city"].notna(), None)
    model = fitted([("city", OneHotEncoder(), ["city"]), ("n", MinMaxScaler(), ["income"])], X)
    schema = read_model(model).schema(X)
    assert schema["city"].missing == "(missing)"
    assert same_as(model, schema, X)


def test_steps_may_be_nested_and_follow_each_other() -> None:
    inner = ColumnTransformer([("grade", OrdinalEncoder(), [0])], remainder="passthrough")
    branch = Pipeline([("split", inner), ("scale", StandardScaler())])
    outer = ColumnTransformer([("both", branch, ["grade", "income"]), ("age", "passthrough", ["age"])])
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)
    model = Pipeline([("outer", outer), ("nothing", "passthrough"), ("all", MinMaxScaler()), ("f", forest)])
    X = raw()
    model.fit(X, labels(X))
    schema = read_model(model).schema(X)
    assert schema.names == ("grade", "income", "age")
    assert [name for name, _ in schema["income"].transform or ()] == ["subtract", "divide", "multiply", "add"]
    assert same_as(model, schema, X)


def test_ordinal_codes_of_words_without_an_order_are_categories() -> None:
    model = fitted([("words", OrdinalEncoder(), ["grade"]), ("n", MinMaxScaler(), ["income"])])
    schema = read_model(model).schema(raw())
    assert schema["grade"].kind == "categorical"
    assert schema["grade"].codes == ((0.0,), (1.0,), (2.0,))
    assert same_as(model, schema, raw())


def test_truth_values_written_out_are_truth_values() -> None:
    model = fitted([("n", "passthrough", ["owner", "income"])])
    text = raw()[["owner", "income"]].astype(str)
    schema = read_model(model).schema(text)
    assert schema["owner"].values == (False, True)
    assert schema["income"].kind == "continuous"
    assert np.array_equal(encode(schema, read_rows(schema, text).numbers), read_model(model).transform(raw()))


def test_amounts_move_in_steps_and_counts_on_their_values() -> None:
    X = raw()
    X["income"] = (X["income"] * 10).astype(int)
    schema = read_model(fitted([("n", "passthrough", ["age", "income"])], X)).schema(X)
    assert (schema["income"].kind, schema["income"].step) == ("continuous", 1.0)
    assert schema["age"].kind == "discrete"


def test_a_bare_forest_and_a_finished_search_are_read_too() -> None:
    X = raw()[["age", "income"]]
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, labels(raw()))
    schema = read_model(forest).schema(X)
    assert schema.names == ("age", "income")
    rows = read_rows(schema, X)
    assert np.array_equal(encode(schema, rows.numbers), X.to_numpy(dtype=float))
    search = GridSearchCV(usual(), {"forest__max_depth": [2]}, cv=2).fit(raw(), labels(raw()))
    assert read_model(search).schema(raw()).names == read_model(usual()).schema(raw()).names


def test_a_pipeline_without_column_names_goes_by_positions() -> None:
    X = raw()[["age", "income"]].to_numpy(dtype=float)
    model = make_pipeline(StandardScaler(), RandomForestClassifier(5, max_depth=3, random_state=0))
    read = read_model(model.fit(X, labels(raw())))
    frame = pd.DataFrame(X)
    frame.columns = ["0", "1"]
    schema = read.schema(frame)
    assert schema.names == ("0", "1")
    assert np.array_equal(encode(schema, read_rows(schema, frame).numbers), model[:-1].transform(X))


def test_a_constant_column_keeps_its_place_and_is_fixed() -> None:
    X = raw().assign(branch=1.0)
    model = fitted([("n", StandardScaler(), ["branch", "income"])], X)
    schema = read_model(model).schema(X)
    assert schema["branch"].action == "fixed"
    assert same_as(model, schema, X)


REFUSED: dict[str, tuple[Any, str]] = {
    "pca": (
        [("mix", PCA(2), ["age", "income"])],
        r"step 'prepare/mix', column 'age', 'income': PCA is not supported",
    ),
    "bins": (
        [("bins", KBinsDiscretizer(3), ["age"])],
        "step 'prepare/bins', column 'age': KBinsDiscretizer is not supported",
    ),
    "log": (
        [("log", make_pipeline(FunctionTransformer(np.log1p), MinMaxScaler()), ["income"])],
        "step 'prepare/log/functiontransformer', column 'income': the function 'log1p' cannot be followed",
    ),
    "twice": (
        [("one", MinMaxScaler(), ["age"]), ("two", StandardScaler(), ["age"])],
        "step 'prepare/two', column 'age': is already used by step 'prepare/one'",
    ),
    "indicator": (
        [("fill", SimpleImputer(strategy="constant", add_indicator=True), ["income"])],
        "step 'prepare/fill', column 'income': add_indicator",
    ),
    "sentinel": (
        [("fill", SimpleImputer(missing_values=-1), ["income"])],
        "step 'prepare/fill', column 'income': missing_values=-1",
    ),
    "scaled-first": (
        [("odd", make_pipeline(MinMaxScaler(), OneHotEncoder(handle_unknown="ignore")), ["age"])],
        "step 'prepare/odd/onehotencoder', column 'age': is scaled before it is encoded",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.filterwarnings("ignore:.*quantile_method.*:FutureWarning")
def test_what_cannot_be_followed_is_refused_by_step_and_column(case: str) -> None:
    transformers, complaint = REFUSED[case]
    with pytest.raises(SchemaError, match=complaint):
        read_model(fitted(transformers)).schema(raw())


def test_weights_and_other_models_are_refused() -> None:
    weighted = fitted([("n", MinMaxScaler(), ["age"])], transformer_weights={"n": 2.0})
    with pytest.raises(SchemaError, match="transformer_weights"):
        read_model(weighted)
    boosted = make_pipeline(MinMaxScaler(), AdaBoostClassifier(n_estimators=2))
    with pytest.raises(rc.ForestError, match="cannot explain a AdaBoostClassifier"):
        read_model(boosted.fit(raw()[["age"]], labels(raw())))
    with pytest.raises(rc.ForestError, match="not fitted"):
        read_model(make_pipeline(MinMaxScaler(), RandomForestClassifier()))


def test_an_encoding_that_only_looks_right_is_caught() -> None:
    """A scaler that divides where we would multiply: the last bits differ, and that is found."""
    model = fitted([("n", StandardScaler(), ["income"])])
    read = read_model(model)
    model[0].named_transformers_["n"].scale_ *= 1 + 2**-52
    with pytest.raises(
        SchemaError, match=r"step 'prepare/n', column 'income': .* cannot be reproduced exactly"
    ):
        read.schema(raw())


NUMBERS = st.floats(-1e6, 1e6)
SCALES = st.floats(1e-6, 1e6)
OPERATION = (
    st.tuples(st.sampled_from(["add", "subtract", "at_least"]), NUMBERS)
    | st.tuples(st.sampled_from(["multiply", "divide"]), SCALES)
    | st.tuples(st.just("at_most"), st.floats(1e6, 1e7))
    | st.tuples(st.just("fill"), NUMBERS)
)


@given(st.lists(OPERATION, max_size=4), st.lists(NUMBERS, min_size=1, max_size=6))
def test_the_edges_of_any_arithmetic_are_exact(operations: list[Any], numbers: list[float]) -> None:
    feature = Feature("x", "continuous", low=0.0, high=1.0, transform=tuple(operations))
    encoded = feature.encoded(np.array(numbers))
    least = least_number(feature, encoded, rounder=False)
    assert (feature.encoded(least) >= encoded).all()
    assert (least <= numbers).all()
    greatest = greatest_number(feature, encoded, rounder=False)
    assert (feature.encoded(greatest) <= encoded).all()
    assert (greatest >= numbers).all()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"transform": [["power", 2.0]]}, "one of the operations add"),
        ({"transform": [["multiply", -1.0]]}, "reverse the order"),
        ({"transform": [["add", float("nan")]]}, "not a finite number"),
        ({"transform": 3}, "must be a list"),
        ({"codes": [[0.0]]}, "transform|needs one row of codes"),
        ({"missing": "x"}, "not one of its values"),
        ({"low": 1.0, "high": 1.0, "transform": []}, "range of a single number"),
    ],
)
def test_a_coding_from_anyones_file_is_checked(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        Feature(**{"name": "x", "kind": "continuous", "low": 0.0, "high": 1.0, **changes})


def test_codes_from_anyones_file_are_checked() -> None:
    words: dict[str, Any] = {"name": "x", "kind": "categorical", "values": ("a", "b")}
    for codes in ([[0.0]], [[0.0], [1.0, 2.0]], [["a"], ["b"]], [[0.0], [float("inf")]], "ab", [0.0, 1.0]):
        with pytest.raises(SchemaError, match="code"):
            Feature(**words, codes=codes)
