"""A pipeline that is trained again on new rows: its scaler differs, its raw columns do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
import tomli_w
from robustcf_jobs.inputs.config import AuditConfig, read_config
from robustcf_jobs.run.previous import GIVEN
from robustcf_jobs.run.raw import incomparable, unlike_rows
from robustcf_jobs.terminal.printing import print_counts

from robustcf import Feature, Schema
from tests.helpers.byoworld import pipeline, synthetic, write_files
from tests.helpers.jobworld import run_audit
from tests.helpers.verifyworld import found

METHODS = [{"name": "naive"}, {"name": "direct-saa", "alpha": 0.1}]


@pytest.fixture(scope="module")
def first(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    X, y = synthetic()
    write_files(folder, X, y, 80)
    assert run_audit(folder / "audit.toml") == 0
    return folder


def second(folder: Path, first: Path, X: pd.DataFrame, y: np.ndarray, **changes: Any) -> Any:
    """The next night's audit of the same customers, with a model trained on these rows; the model."""
    model = pipeline().fit(X, y)
    skops.io.dump(model, folder / "model.skops")
    X.assign(good=y).to_csv(folder / "training.csv", index=False)
    config = {
        "output": "run",
        "previous": str(first / "run"),
        "model": {"file": "model.skops", "favourable": 1},
        "customers": {"data": str(first / "customers.csv"), "id": "customer"},
        "method": METHODS,
        "training": {"data": "training.csv", "label": "good"},
        "validation": {"forests": 1},
        "shard": {"rows": 128},
    }
    (folder / "audit.toml").write_text(tomli_w.dumps(config | changes))
    return model


def recourses(run: Path) -> pd.DataFrame:
    rows = pd.read_parquet(run / "counterfactuals")
    return rows[rows["status"].isin(GIVEN)]


def survival(run: Path) -> dict[str, tuple[int, int]]:
    manifest = json.loads((run / "manifest.json").read_text())
    return {row["method"]: (row["given"], row["survived"]) for row in manifest.get("survival", [])}


def test_a_refitted_scaler_tests_every_earlier_recourse(first: Path, tmp_path: Path) -> None:
    """The schema's fingerprint holds the scaler's values, so nothing was tested on the next night."""
    X, y = synthetic()
    rows = np.arange(len(X)) % 3 != 1
    model = second(tmp_path, first, X[rows], y[rows], keep_valid=True, limits={"survival": {"warn": 1.0}})
    assert run_audit(tmp_path / "audit.toml") == 0
    one, other = (json.loads((f / "run/manifest.json").read_text()) for f in (first, tmp_path))
    assert one["schema_hash"] != other["schema_hash"]
    table = pd.read_csv(first / "customers.csv", index_col="customer")
    given = recourses(first / "run")
    points = []
    for row in given.itertuples():
        point = table.loc[row.instance_id].to_dict()
        for change in row.changes:
            old = point[change["feature"]]
            point[change["feature"]] = change["after"] if isinstance(old, str) else float(change["after"])
        points.append(point)
    accepted = model.predict(pd.DataFrame(points)[list(X.columns)]) == 1
    wanted = {
        method: (len(own), int(accepted[(given["method"] == method).to_numpy()].sum()))
        for method, own in given.groupby("method")
    }
    assert survival(tmp_path / "run") == wanted, "the pipeline itself decides on every earlier recourse"
    assert sum(given for given, _ in wanted.values()) > 20
    assert 0 < wanted["naive"][1] < wanted["naive"][0]
    kept = recourses(tmp_path / "run")["reason"].fillna("").str.contains("kept from the previous run")
    assert kept.any(), "rows are compared in raw units, so recourses that still work can be kept"
    assert not found(tmp_path / "run")


def test_what_cannot_be_compared_is_said_on_the_terminal(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was said only in the report."""
    X, y = synthetic()
    second(tmp_path, first, X.assign(shoe_size=np.arange(len(X)) % 9 + 36.5), y)
    table = pd.read_csv(first / "customers.csv").assign(shoe_size=40.5)
    table.to_csv(tmp_path / "customers.csv", index=False)
    config = (tmp_path / "audit.toml").read_text().replace(str(first / "customers.csv"), "customers.csv")
    (tmp_path / "audit.toml").write_text(config)
    assert run_audit(tmp_path / "audit.toml") == 0
    said = capsys.readouterr().err
    assert "robustcf: warning: " in said
    assert (
        "its schema differs: it has no column 'shoe_size'; nothing was copied and no earlier recourse" in said
    )
    assert survival(tmp_path / "run") == {}
    print_counts(str(tmp_path / "run"))
    assert "previous run: its schema differs" in capsys.readouterr().out
    read_config(AuditConfig, tmp_path / "audit.toml")


def test_a_column_more_or_other_categories_still_let_recourses_be_tested(first: Path, tmp_path: Path) -> None:
    X, y = synthetic()
    fewer = X.drop(columns="housing")
    model = second(tmp_path, first, fewer, y)
    assert run_audit(tmp_path / "audit.toml") == 0
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert manifest["previous"].startswith("its schema differs (its columns differ): nothing was")
    given = recourses(first / "run")
    assert sum(g for g, _ in survival(tmp_path / "run").values()) == len(given)
    assert len(model.feature_names_in_) == fewer.shape[1]


def test_which_schemas_can_be_compared() -> None:
    age = Feature("age", "continuous", low=0, high=100)
    job = Feature("job", "categorical", values=("clerk", "cook"))
    scaled = Schema((Feature("age", "continuous", low=1, high=90, lower=0, weight=2), job))
    assert incomparable(Schema((age, job)), scaled) is None
    assert unlike_rows(Schema((age, job)), scaled) is None
    assert incomparable(Schema((age,)), scaled) == "it has no column 'job'"
    worded = Schema((Feature("age", "binary", values=("old", "young")), job))
    assert incomparable(worded, scaled) == "column 'age' is a number in only one of the two schemas"
    assert unlike_rows(Schema((job, age)), scaled) == "its columns differ"
    other = Schema((age, Feature("job", "categorical", values=("cook", "clerk"))))
    assert unlike_rows(other, scaled) == "the categories of column 'job' differ"
