"""Boosted models in the jobs: files of four libraries, audits with `verify`, one customer, and refusals."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import skops.io
import xgboost
from robustcf_jobs.explain.customer import Customer, customer_of_table
from robustcf_jobs.explain.explain import Request, explain
from robustcf_jobs.inputs.config import Training
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.inputs.model_file import open_model
from robustcf_jobs.verify.auditor import Auditor
from robustcf_jobs.verify.claims import Claims
from robustcf_jobs.verify.command import lines
from robustcf_jobs.verify.run import verify_run
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline

import robustcf as rc
from tests.helpers.byoworld import pipeline, synthetic, write_files
from tests.helpers.jobworld import run_audit

METHODS = [
    {"name": "naive"},
    {"name": "margin", "score": [0.6, 0.8]},
    {"name": "isolation-forest", "contamination": 0.2, "n_trees": 10},
]


def models() -> dict[str, Any]:
    return {
        "gradient": GradientBoostingClassifier(n_estimators=15, subsample=0.7, random_state=0),
        "hist": HistGradientBoostingClassifier(max_iter=15, max_leaf_nodes=7, random_state=0),
        "xgboost": xgboost.XGBClassifier(n_estimators=15, max_depth=3, n_jobs=1),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=15, num_leaves=7, verbose=-1, n_jobs=1),
    }


def boosted_pipeline(model: Any) -> Pipeline:
    X, y = synthetic()
    return Pipeline([("prepare", pipeline().steps[0][1]), ("model", model)]).fit(X, y)


def categories() -> tuple[pd.DataFrame, np.ndarray]:
    """The same rows as columns of pandas categories."""
    X, y = synthetic()
    words = {
        name: pd.Categorical(X[name].fillna("unknown"))
        for name in X
        if not pd.api.types.is_numeric_dtype(X[name])
    }
    return X.assign(**words), y


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("library", ["xgboost", pytest.param("hist", marks=pytest.mark.slow)])
def test_an_audit_of_a_boosted_model_is_complete_and_verified(library: str, tmp_path: Path) -> None:
    X, y = synthetic()
    scenarios = {"forests": 2, "scenarios": ["bootstrap"]}
    write_files(tmp_path, X, y, 60, method=METHODS, validation=scenarios)
    skops.io.dump(boosted_pipeline(models()[library]), tmp_path / "model.skops")
    assert run_audit(tmp_path / "audit.toml") == 0
    rows = pd.read_parquet(tmp_path / "run/counterfactuals")
    assert "error" not in set(rows["status"])
    reached = rows[rows["status"] == "optimal"]
    assert set(reached["method"]) == {"naive", "margin", "isolation-forest"}
    assert (reached["score_after"] >= reached["threshold"]).all()
    assert reached["predicted_validity"].isna().all()
    assert len(pd.read_parquet(tmp_path / "run/validation"))
    claims = Claims(10, attack=True, seed=1, limit=30.0)
    done = verify_run(str(tmp_path / "run"), Auditor(), claims)
    assert done.findings.total == 0, lines(done)
    assert any(line.startswith("resolve: 10 of ") and " 0 refuted" in line for line in done.challenges)


def test_what_a_boosted_model_cannot_be_asked_is_refused_with_the_reason(tmp_path: Path) -> None:
    X, y = synthetic()
    saa = [{"name": "direct-saa", "alpha": 0.1}]
    for methods, words in (
        (saa, "Direct-SAA needs trees that are trained independently"),
        (METHODS[:1], "the same model after each training on the same rows"),
    ):
        write_files(tmp_path, X, y, 20, method=methods)
        skops.io.dump(boosted_pipeline(models()["xgboost"]), tmp_path / "model.skops")
        with pytest.raises(BadInput, match=words):
            run_audit(tmp_path / "audit.toml")


@pytest.mark.parametrize("library", list(models()))
def test_every_library_is_read_from_skops_with_the_same_decisions(library: str, tmp_path: Path) -> None:
    X, _ = synthetic()
    model = boosted_pipeline(models()[library])
    skops.io.dump(model, tmp_path / "model.skops")
    opened = open_model(str(tmp_path / "model.skops"))
    assert opened.read is not None
    schema = opened.schema(data=X)
    scores, labels = opened.read.judge(schema)(X, "soft")
    assert np.abs(scores - model.predict_proba(X)).max() == 0
    assert labels == model.predict(X).tolist()
    again = rc.load_forest(_stored(opened.forest, tmp_path))
    assert again == opened.forest
    ours = again.predict_proba(opened.read.transform(X))
    assert np.abs(ours - model.predict_proba(X)).max() <= 2 * again.score_rounding


def _stored(forest: rc.Forest, folder: Path) -> Path:
    rc.save_forest(forest, folder / "forest")
    return folder / "forest"


def test_the_libraries_own_formats_are_read_and_cannot_be_retrained(tmp_path: Path) -> None:
    data = rc.datasets.synthetic_credit(300, seed=0)
    X = data.X.select_dtypes("number").astype(float)
    first, second = models()["xgboost"].fit(X, data.y), models()["lightgbm"].fit(X, data.y)
    first.save_model(tmp_path / "model.json")
    first.save_model(tmp_path / "model.ubj")
    second.booster_.save_model(tmp_path / "model.txt")
    X.assign(customer=range(len(X))).to_csv(tmp_path / "customers.csv", index=False)
    denied = int(np.flatnonzero(first.predict(X) == 0)[0])
    for name, model in (("model.json", first), ("model.ubj", first), ("model.txt", second)):
        opened = open_model(str(tmp_path / name))
        assert opened.read is not None
        assert np.array_equal(opened.read.decide(X)[0], model.predict_proba(X))
        whom = Customer(str(tmp_path / "customers.csv"), denied)
        done = explain(customer_of_table(whom, str(tmp_path / name), None, None, False), Request(target="1"))
        assert {cf.method.name for cf in done.answers} == {"naive"}
        assert {cf.method.name for cf in done.menu} == {"naive", "margin"}
        assert all(cf.status in ("optimal", "no_recourse", "already_favourable") for cf in done.menu)
        with pytest.raises(rc.ForestError, match="cannot be retrained"):
            rc.validate.retrain(opened.forest, X.to_numpy(), data.y, 1)
    (tmp_path / "model.txt").write_text("tree\nnothing")
    with pytest.raises(BadInput, match=r"model\.txt: not a model that LightGBM stored"):
        open_model(str(tmp_path / "model.txt"))
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(BadInput, match=r"model\.json: not a model that XGBoost stored"):
        open_model(str(tmp_path / "model.json"))


def test_histograms_with_their_own_categories_are_followed(tmp_path: Path) -> None:
    """scikit-learn encodes them itself, and puts them first; a set of categories becomes several splits."""
    X, y = categories()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(X, y)
    assert any(p.nodes["is_categorical"].any() for (p,) in model._predictors)
    skops.io.dump(model, tmp_path / "model.skops")
    opened = open_model(str(tmp_path / "model.skops"))
    assert opened.read is not None
    schema = opened.schema(data=X)
    answers = rc.Explainer(
        opened.forest, schema, [rc.Naive(), rc.Margin(0.8)], target=1, judge=opened.read.judge(schema)
    ).explain_many(X.iloc[:80])
    assert {a.status for a in answers} >= {"optimal", "already_favourable"}
    assert "error" not in {a.status for a in answers}, [a.reason for a in answers]
    gone = X.assign(housing=X["housing"].cat.add_categories(["?"]).where(X.index % 7 > 0))
    lacking = HistGradientBoostingClassifier(max_iter=3).fit(gone, y)
    with pytest.raises(rc.SchemaError, match="column 'housing': missing categories become NaN"):
        rc.read_model(lacking)
    encoded = opened.read.transform(X)
    again = rc.validate.retrain(opened.forest, encoded, y, seed=1)
    assert np.array_equal(again.predict_proba(encoded), rc.Forest.from_sklearn(model).predict_proba(encoded))


def test_explaining_one_customer_measures_models_trained_on_resampled_rows(
    tmp_path: Path,
) -> None:
    X, y = synthetic()
    write_files(tmp_path, X, y, 40)
    model = boosted_pipeline(models()["lightgbm"])
    skops.io.dump(model, tmp_path / "model.skops")
    table = pd.read_csv(tmp_path / "customers.csv")
    whom = Customer(str(tmp_path / "customers.csv"), int(np.flatnonzero(model.predict(table) == 0)[0]))
    rows = Training(str(tmp_path / "training.csv"), "good")
    chosen = customer_of_table(whom, str(tmp_path / "model.skops"), None, rows, False)
    assert "without a schema, advice may change every column, even sex" in str(chosen.warning)
    done = explain(chosen, Request(target="1", forests=8, margins=(0.9,)))
    assert [cf.method.title for cf in done.answers] == ["Margin, score = 0.9"]
    agreed = [done.agreed(cf) for cf in done.menu if cf.works]
    assert agreed
    assert all(found is not None and found[1] == 8 for found in agreed)
    with pytest.raises(BadInput, match="trained independently"):
        explain(chosen, Request(target="1", alphas=(0.1,)))
