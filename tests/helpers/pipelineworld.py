"""Random fitted pipelines over random raw tables, for tests that know no schema and no cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

GRADES = ("none", "some", "much", "all")
TOWNS = ("Bonn", "Köln", "Ulm", "Trier", "Jena", "Gera")


@dataclass(frozen=True)
class PipelineWorld:
    """A fitted pipeline and the raw rows that it was trained on."""

    model: Pipeline
    X: pd.DataFrame
    y: np.ndarray


def make_pipeline_world(seed: int, n: int = 120, few: bool = False) -> PipelineWorld:
    """A random pipeline over nine raw columns, or over a `few` of them."""
    rng = np.random.default_rng(seed)
    X = _table(rng, n)
    words = (X["grade"] == "all").astype(int) + (X["town"] == "Ulm")
    drive = X["amount"].fillna(0).rank() / n + words + rng.random(n) / 2
    y = np.where(drive > np.quantile(drive, rng.uniform(0.4, 0.6)), "yes", "no")
    names = [str(name) for name in rng.permutation(X.columns)]
    if few:
        names = names[: rng.integers(2, 5)]
        X = X[[name for name in X if name in names]].copy()
    branches: list[Any] = [(f"b{i}", _branch(rng, X, name), [name]) for i, name in enumerate(names)]
    if rng.random() < 0.5 and {"ratio", "count"} <= set(names):  # several columns through one branch
        branches = [b for b in branches if b[2][0] not in ("ratio", "count")]
        branches.insert(int(rng.integers(len(branches) + 1)), ("two", StandardScaler(), ["count", "ratio"]))
    before = ColumnTransformer(branches, sparse_threshold=float(rng.choice([0.0, 0.3, 1.0])))
    steps: list[Any] = [("before", before)]
    filled = False
    if rng.random() < 0.2:
        before.set_params(sparse_threshold=0.0)
        steps.append(("again", MinMaxScaler()))
    elif rng.random() < 0.6:
        after, filled = _for_sparse(rng)
        steps += after
    forest = _forest(rng, seed)
    strict = isinstance(forest, BaggingClassifier) or before.sparse_threshold > 0
    if strict and not filled and "amount" in X:
        X["amount"] = X["amount"].fillna(0.0)  # such forests take no missing number
    model = Pipeline([*steps, ("forest", forest)])
    if rng.random() < 0.2 and all(_dense(branch) for _, branch, _ in branches):
        model.set_output(transform="pandas")
    return PipelineWorld(model.fit(X, y), X, y)


def _for_sparse(rng: np.random.Generator) -> tuple[list[Any], bool]:
    """Steps that take a sparse matrix as well as a dense one, and whether they fill missing numbers."""

    def scaler() -> Any:
        options = (
            MaxAbsScaler(),
            RobustScaler(with_centering=False),
            StandardScaler(with_mean=False),
            "passthrough",
            make_pipeline(MaxAbsScaler(), StandardScaler(with_mean=False)),
        )
        return options[rng.integers(len(options))]

    steps: list[Any] = [("scale", scaler())]
    filled = bool(rng.random() < 0.3)
    if filled:
        steps.insert(int(rng.integers(2)), ("fill", SimpleImputer()))
    if rng.random() < 0.3:  # the sparse matrix divided once more
        inner = [("front", scaler(), slice(0, 1)), ("back", scaler(), slice(1, None))]
        threshold = float(rng.choice([0.0, 0.3, 1.0]))
        steps.append(("divide", ColumnTransformer(inner, sparse_threshold=threshold)))
        steps.append(("last", scaler()))
    return steps, filled


def _table(rng: np.random.Generator, n: int) -> pd.DataFrame:
    towns = TOWNS[: rng.integers(2, 7)]
    X = pd.DataFrame(
        {
            "amount": rng.normal(size=n) * 10.0 ** rng.integers(-3, 7) + rng.normal(),
            "ratio": rng.random(n).round(int(rng.integers(1, 6))),
            "count": rng.integers(0, 9, n),
            "age": rng.integers(18, 80, n),
            "town": rng.choice(towns, n),
            "grade": rng.choice(GRADES, n),
            "member": rng.random(n) < 0.5,
            "sex": rng.choice(["f", "m"], n),
            "code": rng.choice([3, 7, 11], n),
        }
    )
    X.loc[: len(towns) - 1, "town"] = towns  # every category is there
    X.loc[: len(GRADES) - 1, "grade"] = GRADES
    X.loc[rng.random(n) < 0.15, "amount"] = np.nan
    X.loc[rng.random(n) < 0.15, "town"] = None
    return X


def _branch(rng: np.random.Generator, X: pd.DataFrame, name: str) -> Any:
    def pick(*options: Any) -> Any:
        return options[rng.integers(len(options))]

    scalers = (
        "passthrough",
        MinMaxScaler(feature_range=(float(rng.uniform(-2, 0)), float(rng.uniform(0.5, 3)))),
        MinMaxScaler(clip=True),
        StandardScaler(with_mean=bool(rng.random() < 0.7)),
        RobustScaler(with_centering=bool(rng.random() < 0.7)),
        MaxAbsScaler(),
        make_pipeline(MinMaxScaler(), StandardScaler()),
    )
    if name == "amount":
        filled = SimpleImputer(strategy=pick("constant", "median", "mean"))
        scaler = pick(*scalers)
        return pick(scaler, make_pipeline(filled, scaler), make_pipeline(scaler, filled))
    if name in ("ratio", "age"):
        return pick(*scalers)
    if name == "count":
        return pick(*scalers, OrdinalEncoder(), OneHotEncoder())
    if name == "member":
        return pick("passthrough", MinMaxScaler(), OrdinalEncoder(), OneHotEncoder())
    if name == "grade":
        chosen = OrdinalEncoder(categories=[list(GRADES)])
        return pick(chosen, make_pipeline(chosen, MinMaxScaler()), OneHotEncoder(), OrdinalEncoder())
    encoders = (
        OneHotEncoder(drop=pick(None, "first", "if_binary"), handle_unknown="ignore"),
        OneHotEncoder(min_frequency=0.2, handle_unknown="infrequent_if_exist"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        make_pipeline(OneHotEncoder(sparse_output=False), StandardScaler()),
        make_pipeline(OneHotEncoder(), StandardScaler(with_mean=False)),
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), MaxAbsScaler()),
    )
    if name == "town":
        filled = SimpleImputer(strategy=pick("constant", "most_frequent"), **_words(rng))
        return make_pipeline(filled, pick(*encoders)) if rng.random() < 0.6 else encoders[0]
    return pick(*encoders)


def _words(rng: np.random.Generator) -> dict[str, str]:
    return {"fill_value": "Ulm" if rng.random() < 0.3 else "nowhere"}


def _dense(branch: Any) -> bool:
    if isinstance(branch, Pipeline):
        return all(_dense(step) for _, step in branch.steps)
    return not (isinstance(branch, OneHotEncoder) and branch.sparse_output)


def _forest(rng: np.random.Generator, seed: int) -> Any:
    depth = int(rng.integers(2, 5))
    kind = rng.integers(4)
    if kind == 0:
        return ExtraTreesClassifier(7, max_depth=depth, random_state=seed)
    if kind == 1:
        tree = DecisionTreeClassifier(max_depth=depth)
        return BaggingClassifier(tree, 7, max_features=0.7, random_state=seed)
    return RandomForestClassifier(7, max_depth=depth, random_state=seed)


def random_customers(world: PipelineWorld, seed: int, n: int) -> pd.DataFrame:
    """Rows whose columns come from different customers, with numbers that nobody has."""
    rng = np.random.default_rng(seed)
    picked = {name: world.X[name].iloc[rng.integers(len(world.X), size=n)].to_numpy() for name in world.X}
    rows = pd.DataFrame(picked).astype(dict(world.X.dtypes))
    for name in [name for name in ("amount", "ratio") if name in rows]:
        shift = rng.normal(size=n) * world.X[name].std() * (rng.random(n) < 0.5)
        rows[name] = rows[name] + shift
    return rows
