"""`robustcf audit`, end to end on a real local Ray."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.run.columns import COUNTERFACTUALS, VALIDATION

import robustcf as rc
from tests.helpers.jobworld import (
    customers,
    make_audit,
    make_forest,
    rows,
    run_audit,
    same_rows,
    same_summary,
    shards,
)

pytestmark = pytest.mark.usefixtures("local_ray")
METHODS = [rc.Naive(), rc.DirectSAA(0.2), rc.DirectSAA(0.05)]


def table() -> pd.DataFrame:
    """100 customers: some equal ones, one that is not usable."""
    frame = customers(100)
    frame.loc[50:69, frame.columns[1:]] = frame.loc[0:19, frame.columns[1:]].to_numpy()
    frame.loc[99, "housing"] = "castle"
    return frame


@pytest.fixture(scope="module")
def finished(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    assert run_audit(make_audit(folder, table())) == 0
    return folder


def manifest(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "run/manifest.json").read_text())
    return read


def test_every_row_has_the_answer_that_explain_many_gives(finished: Path) -> None:
    found = rows(finished / "run")
    frame = table()
    explainer = rc.Explainer(
        rc.load_forest(finished / "forest"), rc.datasets.synthetic_credit(1).schema, METHODS, target=1
    )
    answers = explainer.explain_many(frame.drop(columns="customer"))
    assert len(found) == len(answers) == 300
    assert not found.duplicated(["instance_id", "method", "alpha"]).any()
    by_key = found.set_index(["instance_id", "method", found["alpha"].fillna(-1)])
    for cf in answers:
        row = by_key.loc[(frame["customer"][cf.row], cf.method.name, cf.method.alpha or -1)]
        assert row["status"] == cf.status
        if cf.encoded is not None:
            assert row["point"] == repr(cf.encoded.tolist())
            assert row["distance"] == cf.distance
            assert row["n_changed"] == cf.n_changed
    assert set(found["status"]) >= {"optimal", "already_favourable", "invalid_input"}
    assert (found["reason"].dropna().str.contains("castle")).all()


def test_the_run_folder_is_as_promised(finished: Path) -> None:
    run = finished / "run"
    for shard in shards(run):
        assert pq.read_schema(shard).equals(COUNTERFACTUALS)
        assert pq.ParquetFile(shard).metadata.row_group(0).column(0).compression == "ZSTD"
        assert pq.read_schema(run / "validation" / shard.name).equals(VALIDATION)
    about = manifest(finished)
    assert about["state"] == "complete"
    assert sum(about["counts"].values()) == 300
    assert about["plan"]["rows"] == 100
    assert {"robustcf", "ray", "scikit-learn"} <= about["versions"].keys()
    assert len(about["shards"]) == 2 * len(shards(run))
    assert rc.load_forest(run / "forest") == rc.load_forest(finished / "forest")
    assert rc.Schema.from_toml(run / "schema.toml") == rc.datasets.synthetic_credit(1).schema
    assert not (run / "_work").exists()
    assert not list(run.glob("**/.*"))


def test_equal_rows_are_solved_once(finished: Path) -> None:
    solved = sum(facts.get("solved", 0) for facts in manifest(finished)["shards"].values())
    found = rows(finished / "run")
    asked = found[found["status"].isin(["optimal", "no_recourse"]) & (found["method"] == "naive")]
    frame = table().set_index("customer").loc[asked["instance_id"]]
    assert 0 < solved == len(frame.drop_duplicates()) < len(frame)


def test_validation_and_summary_agree_with_the_rows(finished: Path) -> None:
    run = finished / "run"
    found, valid = pd.read_parquet(run / "counterfactuals"), pd.read_parquet(run / "validation")
    assert len(valid) == found["point"].notna().sum()
    assert {len(v) for v in valid["valid"]} == {3}
    summary = pd.read_parquet(run / "summary/summary.parquet").set_index(
        ["cohort", "cohort_value", "method", "alpha"]
    )
    for (cohort, value, method, alpha), line in summary.iterrows():
        mine = found[
            (found["method"] == method) & (found["alpha"].fillna(-1) == (-1 if pd.isna(alpha) else alpha))
        ]
        if cohort:
            mine = mine[[dict(c)[cohort] == value for c in mine["cohort"]]]
        assert line["n"] == len(mine)
        assert line["distance"] == pytest.approx(mine["distance"].mean(), nan_ok=True)
        assert line["changed"] == pytest.approx(mine["n_changed"].mean(), nan_ok=True)
        ids = set(mine["instance_id"])
        own = valid[
            (valid["method"] == method) & (valid["alpha"].fillna(-1) == (-1 if pd.isna(alpha) else alpha))
        ]
        hits = [v for i, vs in zip(own["instance_id"], own["valid"], strict=True) if i in ids for v in vs]
        assert line["validity"] == pytest.approx(sum(hits) / len(hits) if hits else float("nan"), nan_ok=True)
        assert not hits or line["validity_low"] <= line["validity"] <= line["validity_high"]
    assert set(summary.index.get_level_values("cohort_value")) == {"", "female", "male"}


def by_method(frame: pd.DataFrame, method: str, alpha: float) -> pd.DataFrame:
    same_alpha = frame["alpha"].isna() if pd.isna(alpha) else frame["alpha"] == alpha
    return frame[(frame["method"] == method) & same_alpha]


def test_the_same_command_again_recomputes_nothing(finished: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (finished / "run").glob("[cvk]*/*.parquet")}
    assert run_audit(finished / "audit.toml") == 0
    assert before == {path: path.stat().st_mtime_ns for path in (finished / "run").glob("[cvk]*/*.parquet")}


def test_what_is_missing_or_broken_is_made_again(finished: Path, tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", finished / "run"
    shutil.copytree(run, whole)
    first, second, third, *_ = shards(run)
    first.unlink()
    second.write_bytes(second.read_bytes()[:-7])
    third.write_bytes(b"x" + third.read_bytes()[1:])
    kept = shards(whole)[3:]
    times = [path.stat().st_mtime_ns for path in kept]
    assert run_audit(finished / "audit.toml") == 0
    same_rows(whole, run)
    same_summary(whole, run)
    kept = [run / "counterfactuals" / path.name for path in kept]
    assert times == [path.stat().st_mtime_ns for path in kept]


@pytest.mark.parametrize("size", [7, 1000])
def test_shard_size_changes_nothing(finished: Path, tmp_path: Path, size: int) -> None:
    assert run_audit(make_audit(tmp_path, table(), shard={"rows": size})) == 0
    assert len(shards(tmp_path / "run")) != len(shards(finished / "run"))
    same_rows(finished / "run", tmp_path / "run")
    same_summary(finished / "run", tmp_path / "run")


def test_a_csv_of_the_same_customers_gives_the_same_rows(finished: Path, tmp_path: Path) -> None:
    frame = table()
    where = {"data": "parts/*.csv", "id": "customer", "cohort": ["sex"]}
    config = make_audit(tmp_path, frame, customers=where)
    (tmp_path / "parts").mkdir()
    frame[:60].to_csv(tmp_path / "parts/a.csv", index=False)
    frame[60:].iloc[::-1].to_csv(tmp_path / "parts/b.csv", index=False)
    assert run_audit(config) == 0
    same_rows(finished / "run", tmp_path / "run")
    same_summary(finished / "run", tmp_path / "run")


def test_another_schema_copies_nothing(finished: Path, tmp_path: Path) -> None:
    config = make_audit(tmp_path, customers(20), previous=str(finished / "run"), training=None)
    schema = rc.Schema.from_toml(tmp_path / "schema.toml").replace("income", action="increase")
    (tmp_path / "schema.toml").write_text(schema.to_toml())
    assert run_audit(config) == 0
    assert "schema differs: nothing was copied" in manifest(tmp_path)["previous"]
    assert not any(facts.get("copied") for facts in manifest(tmp_path)["shards"].values())
    assert all(0 < line["given"] == line["survived"] for line in manifest(tmp_path)["survival"])


def test_the_next_night_solves_only_what_changed(finished: Path, tmp_path: Path) -> None:
    frame = table()
    denied = rows(finished / "run").query("method == 'naive' and status == 'optimal'")["instance_id"]
    changed = frame.index[frame["customer"].isin(list(denied)[:2])]
    frame.loc[changed, "income"] += 10
    config = make_audit(tmp_path, frame, previous=str(finished / "run"))
    assert run_audit(config) == 0
    shards_now = manifest(tmp_path)["shards"].values()
    assert sum(facts.get("solved", 0) for facts in shards_now) <= len(changed)
    assert sum(facts.get("copied", 0) for facts in shards_now) > 0
    fresh = make_audit(tmp_path / "fresh", frame)
    assert run_audit(fresh) == 0
    same_rows(tmp_path / "fresh/run", tmp_path / "run")
    survival = manifest(tmp_path)["survival"]
    assert all(line["survived"] == line["given"] for line in survival)


@pytest.mark.parametrize("keep", [False, True])
def test_a_changed_forest_tells_which_recourses_survive(finished: Path, tmp_path: Path, keep: bool) -> None:
    forest = make_forest(tmp_path / "forest", seed=9)
    config = make_audit(
        tmp_path, table(), previous=str(finished / "run"), keep_valid=keep, training=None, shard={"rows": 50}
    )
    assert run_audit(config) == 0
    earlier = pd.read_parquet(finished / "run/counterfactuals").query("status == 'optimal'")
    survival = {(r["method"], r["alpha"]): r for r in manifest(tmp_path)["survival"]}
    for (method, alpha), group in earlier.groupby(["method", "alpha"], dropna=False):
        accepted = forest.predict(pd.DataFrame(group["point"].tolist()).to_numpy()) == 1
        line = survival[method, None if pd.isna(alpha) else alpha]
        assert (line["given"], line["survived"]) == (len(group), accepted.sum())
    now = rows(tmp_path / "run")
    kept = now["reason"].fillna("").str.contains("kept from the previous run")
    assert kept.any() == keep
    assert now["verified"][kept].all()
    assert (now["status"][kept] == "feasible").all()
    assert (now["status"] != "error").all()
    summary = pd.read_parquet(tmp_path / "run/summary/summary.parquet")
    assert summary["validity"].isna().all()
    assert "not measured" in manifest(tmp_path)["validation"]


def test_a_method_that_looks_at_training_rows(tmp_path: Path) -> None:
    methods = [{"name": "naive"}, {"name": "isolation-forest", "contamination": 0.1}]
    assert run_audit(make_audit(tmp_path, customers(40), method=methods, validation={"forests": 1})) == 0
    found = rows(tmp_path / "run")
    assert set(found["method"]) == {"naive", "isolation-forest"}
    assert found["status"].isin(["optimal", "relaxed", "no_recourse", "already_favourable"]).all()


def refused(config: Path, words: str, leaves: bool = False) -> None:
    with pytest.raises(BadInput) as caught:
        run_audit(config)
    message = caught.value.format_message()
    assert words in message
    assert "\n" not in message
    assert (config.parent / "run").exists() == leaves


def test_bad_tables_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    frame = customers(30)
    frame.loc[7, "customer"] = "c00003"
    refused(make_audit(tmp_path, frame), "id 'c00003' occurs 2 times")
    frame.loc[7, "customer"] = None
    refused(make_audit(tmp_path, frame), "row 7 has no 'customer'")
    refused(make_audit(tmp_path, customers(30).drop(columns="income")), "column 'income' is missing")
    refused(make_audit(tmp_path, customers(30)[:0]), "no rows")
    config = make_audit(tmp_path, customers(30))
    (tmp_path / "customers.parquet").write_bytes(b"PAR1 is not enough")
    refused(config, "not a readable Parquet file")
    (tmp_path / "customers.parquet").unlink()
    refused(config, "no file ending in")


def test_bad_settings_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    model = {"forest": "forest", "schema": "schema.toml", "favourable": 1}
    refused(make_audit(tmp_path, customers(9), model=model | {"favourable": 7}), "no class 7")
    refused(
        make_audit(tmp_path, customers(9), model=model | {"forest": "none"}), "forest.json: cannot be read"
    )
    refused(make_audit(tmp_path, customers(9), model=model | {"schema": "none"}), "none: cannot be read")
    training = {"data": "training.parquet", "label": "paid"}
    refused(make_audit(tmp_path, customers(9), training=training), "column 'paid' is missing")
    refused(make_audit(tmp_path, customers(9), previous="elsewhere"), "not a run folder")
    refused(make_audit(tmp_path, customers(9), solver={"threads": 64}), "this machine's Ray has 2 CPUs")


def test_an_output_that_belongs_to_something_else_is_refused(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "run", tmp_path / "run")
    refused(make_audit(tmp_path, table(), seed=2), "belongs to another audit run", leaves=True)
    shutil.rmtree(tmp_path / "run")
    assert run_audit(make_audit(tmp_path, customers(20), training=None)) == 0
    refused(make_audit(tmp_path, customers(21), training=None), "customer table has changed", leaves=True)
    make_audit(tmp_path, customers(20), training=None)
    (tmp_path / "run/manifest.json").write_text("{}")
    refused(tmp_path / "audit.toml", "not a manifest", leaves=True)
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/thesis.txt").write_text("mine")
    refused(make_audit(tmp_path, table()), "is not a run folder", leaves=True)


def test_bad_training_rows_are_refused(tmp_path: Path) -> None:
    config = make_audit(tmp_path, customers(9))
    training = pd.read_parquet(tmp_path / "training.parquet")
    training.assign(repaid=7).to_parquet(tmp_path / "training.parquet")
    refused(config, "training row 0: label 7 is not one of [0, 1]")
    training.assign(housing="castle").to_parquet(tmp_path / "training.parquet")
    refused(config, "training row 0: column 'housing'")


def test_words_stored_as_categories(tmp_path: Path) -> None:
    frame = customers(60)
    assert run_audit(make_audit(tmp_path / "words", frame, training=None)) == 0
    frame = frame.astype({"sex": "category", "housing": "category", "customer": "category"})
    assert run_audit(make_audit(tmp_path / "categories", frame, training=None)) == 0
    same_rows(tmp_path / "words/run", tmp_path / "categories/run")


def test_mixed_types_across_files_are_one_table(tmp_path: Path) -> None:
    frame = customers(40)
    (tmp_path / "parts").mkdir(parents=True)
    frame[:20].to_parquet(tmp_path / "parts/a.parquet")
    frame[20:].astype({"income": "int64", "age": "str"}).to_parquet(tmp_path / "parts/b.parquet")
    where = {"data": "parts", "id": "customer"}
    assert run_audit(make_audit(tmp_path, frame, customers=where, training=None)) == 0
    assert (
        run_audit(
            make_audit(
                tmp_path / "one",
                frame,
                customers={"data": "customers.parquet", "id": "customer"},
                training=None,
            )
        )
        == 0
    )
    same_rows(tmp_path / "one/run", tmp_path / "run")


def test_the_table_of_counterfactuals_opens_as_one_dataset(finished: Path) -> None:
    assert pa.dataset.dataset(finished / "run/counterfactuals").count_rows() == 300


def test_the_temporary_folder_of_a_submitted_job_is_no_output(tmp_path: Path) -> None:
    """A relative output under `ray job submit` "succeeded", and Ray removed the run."""
    copied = tmp_path / "session/runtime_resources/working_dir_files/_ray_pkg_0"
    config = make_audit(copied, customers(3))
    with pytest.raises(BadInput, match="in the temporary folder of a submitted job, which Ray removes"):
        run_audit(config)
    assert not (copied / "run").exists()
