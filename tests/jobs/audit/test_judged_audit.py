"""Audits in which the customers' own pipeline judges every row and every point."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import skops.io
import tomli_w
from robustcf_jobs.audit.ranges import merge_range
from robustcf_jobs.audit.rejudge import Copied, rejected
from robustcf_jobs.audit.scan import columns_of, scan_chunks
from robustcf_jobs.audit.shard import AuditJob, explain_shard
from robustcf_jobs.inputs.config import Customers
from robustcf_jobs.inputs.model_file import ModelFile, open_model
from robustcf_jobs.inputs.tables import plan_table
from robustcf_jobs.run.folder import RunFolder
from robustcf_jobs.run.manifest import ShardDone
from robustcf_jobs.run.planned import shard_name
from robustcf_jobs.run.question import Question
from robustcf_jobs.verify.command import verify
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import robustcf as rc
from tests.helpers.byoworld import pipeline, synthetic, write_files
from tests.helpers.jobworld import run_audit


def test_a_sparse_pipeline_is_audited_and_judges_every_point(local_ray: Any, tmp_path: Path) -> None:
    X, y = synthetic()
    X = X.fillna("unknown")
    before = ColumnTransformer(
        [
            ("words", OneHotEncoder(), make_column_selector(dtype_exclude=np.number)),
            ("numbers", "passthrough", make_column_selector(dtype_include=np.number)),
        ],
        sparse_threshold=1.0,
    )
    forest = RandomForestClassifier(20, max_depth=4, random_state=0)
    model = Pipeline([("before", before), ("scale", StandardScaler(with_mean=False)), ("forest", forest)])
    skops.io.dump(model.fit(X, y), tmp_path / "model.skops")
    schema = open_model(str(tmp_path / "model.skops")).schema(data=X)
    (tmp_path / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
    customers = X.head(60).assign(customer=[f"c{i}" for i in range(60)])
    customers.to_csv(tmp_path / "customers.csv", index=False)
    config = {
        "output": "run",
        "model": {"file": "model.skops", "favourable": 1, "schema": "schema.toml"},
        "customers": {"data": "customers.csv", "id": "customer"},
        "method": [{"name": "naive"}, {"name": "direct-saa", "alpha": 0.2}],
        "shard": {"rows": 32},
    }
    (tmp_path / "audit.toml").write_text(tomli_w.dumps(config))
    assert run_audit(tmp_path / "audit.toml") == 0
    found = pd.read_parquet(tmp_path / "run/counterfactuals")
    scores = dict(zip(customers["customer"], model.predict_proba(X.head(60))[:, 1], strict=True))
    for row in found.to_dict("records"):
        assert row["score_before"] == scores[row["instance_id"]]
        own = customers[customers["customer"] == row["instance_id"]]
        assert (row["status"] == "already_favourable") is bool(model.predict(own)[0] == 1)
        if row["status"] == "optimal":
            point = own.copy()
            for change in row["changes"]:
                number = pd.api.types.is_numeric_dtype(point[change["feature"]])
                point[change["feature"]] = float(change["after"]) if number else change["after"]
            assert model.predict_proba(point)[0, 1] == row["score_after"]
            assert model.predict(point)[0] == 1
    assert (found["status"] == "optimal").sum() > 10
    assert verify(str(tmp_path / "run")) == 0

    # The next night copies these answers, since the pipeline still confirms them.
    (tmp_path / "next.toml").write_text(tomli_w.dumps(config | {"output": "next", "previous": "run"}))
    assert run_audit(tmp_path / "next.toml") == 0
    shards = json.loads((tmp_path / "next/manifest.json").read_text())["shards"]
    assert sum(shard.get("copied", 0) for shard in shards.values()) == (found["status"] == "optimal").sum()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nights: tonight's pipeline is trained on other rows, with other scales and another forest."""
    folder = tmp_path_factory.mktemp("two")
    X, y = synthetic()
    write_files(folder, X, y, customers=60)
    tonight = pipeline().set_params(forest__random_state=7)
    skops.io.dump(tonight.fit(X[1::2], y[1::2]), folder / "tonight.skops")
    return folder


def shard_of(two: Path, folder: Path, ray: Any, file: ModelFile) -> tuple[ShardDone, pd.DataFrame]:
    """One shard of the customers, explained by the first pipeline's forest and judged by a file."""
    first = open_model(str(two / "model.skops"))
    schema = first.schema(data=pd.read_csv(two / "training.csv"))
    question = Question((rc.Naive(), rc.DirectSAA(0.1)), 1, "soft", "auto", 60.0, 1, 0)
    run, customers = RunFolder(str(folder)), Customers(str(two / "customers.csv"), id="customer")
    plan = plan_table(customers.data, columns_of(customers, schema))
    scanned = scan_chunks(run, customers, question, schema, first.forest, plan.chunks)
    files = (merge_range(run, scanned.files, 0, 0, 0),)
    job = AuditJob(run, "customers", question, schema, (), files, 0, ("",) * len(question.methods), file=file)
    done = ray.get(ray.remote(explain_shard).remote(ray.put(job), ray.put(first.forest), None, None, 0))
    return done, pd.read_parquet(folder / "counterfactuals" / shard_name(0))


def test_what_the_pipeline_in_the_workers_rejects_is_an_error(
    local_ray: Any, two: Path, tmp_path: Path
) -> None:
    """The workers open the file that they are given: another pipeline than the one the forest is of."""
    tonight = open_model(str(two / "tonight.skops"))
    assert tonight.file is not None
    done, found = shard_of(two, tmp_path / "run", local_ray, tonight.file)
    model = tonight.file.open()
    customers = pd.read_csv(two / "customers.csv").set_index("customer")
    ours = dict(zip(customers.index, skops_model(two).predict(customers), strict=True))
    theirs = dict(zip(customers.index, model.predict(customers), strict=True))
    decided = [name for name in customers.index if ours[name] != theirs[name]]
    assert decided
    by_customer = found.set_index("instance_id")
    for name in decided:
        assert set(by_customer.loc[name, "status"]) == {"error"}
        assert by_customer.loc[name, "reason"].str.contains("the model decides").all()
    points = found[found["point"].notna()]
    errors = points[points["status"] == "error"]
    assert len(errors) > 5
    assert not errors["verified"].any()
    assert errors["reason"].str.contains("the model gives the point the score|the model predicts 0 at").all()
    assert done.counts["error"] == (found["status"] == "error").sum()


def test_the_pipeline_that_the_forest_is_of_rejects_nothing(
    local_ray: Any, two: Path, tmp_path: Path
) -> None:
    file = open_model(str(two / "model.skops")).file
    assert file is not None
    done, found = shard_of(two, tmp_path / "run", local_ray, file)
    assert "error" not in done.counts
    assert found.loc[found["status"] == "optimal", "verified"].all()


def skops_model(folder: Path) -> Any:
    file = open_model(str(folder / "model.skops")).file
    assert file is not None
    return file.open()


def test_a_copied_answer_that_the_pipeline_does_not_confirm_is_not_copied(two: Path) -> None:
    """Answers of the first pipeline are confirmed by itself, and many are not by tonight's."""
    first, tonight = open_model(str(two / "model.skops")), open_model(str(two / "tonight.skops"))
    assert first.read is not None
    assert tonight.read is not None
    schema = first.schema(data=pd.read_csv(two / "training.csv"))
    question = Question((rc.Naive(),), 1, "soft", "auto", 60.0, 1, 0)
    customers = pd.read_csv(two / "customers.csv")[list(schema.names)]
    rows = customers.to_dict("records")
    answers = rc.Explainer(first.forest, schema, rc.Naive(), target=1).explain_many(customers)
    kept = [k for k, cf in enumerate(answers) if cf.status == "optimal"]
    table = pa.Table.from_pylist(
        [
            {
                "status": answers[k].status,
                "score_after": answers[k].score,
                "changes": [{"feature": c.feature, "after": str(c.after)} for c in answers[k].changes],
            }
            for k in kept
        ]
    )
    copied = [Copied(rows[k], place, "soft") for place, k in enumerate(kept)]  # type: ignore[arg-type]
    assert rejected(first.read.judge(schema), first.forest, question, table, copied) == []
    found = rejected(tonight.read.judge(schema), first.forest, question, table, copied)
    model = tonight.file.open() if tonight.file is not None else None
    points = pd.DataFrame([answers[k].point for k in kept])
    wrong = (model.predict(customers.iloc[kept]) == 1) | (
        np.abs(model.predict_proba(points)[:, 1] - [answers[k].score for k in kept]) > 1e-9
    )
    assert found == np.flatnonzero(wrong).tolist()
    assert len(found) > 5
