"""Bring your own model: from a pipeline's file to an audit, on the command line and with no code."""

import os
import pickle
import re
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
import tomli_w
from robustcf_jobs.cli import app, main
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.inputs.model_file import open_model
from robustcf_jobs.inputs.schema_file import advised_action
from robustcf_jobs.verify.command import verify
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from typer.testing import CliRunner

import robustcf as rc
from robustcf.pipeline.read import read_model
from robustcf.schema.encode import encode, read_rows
from robustcf.schema.feature import SchemaError
from tests.helpers.byoworld import paper_set, pipeline, synthetic, write_files
from tests.helpers.jobworld import rows, run_audit


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("byo")
    write_files(folder, *synthetic(), customers=40)
    return folder


def check_audit(folder: Path, model: Any, label: str = "customer") -> None:
    """Every recourse of a run flips the user's own pipeline on the raw row, and the auditor agrees."""
    found = pd.read_parquet(folder / "run/counterfactuals")
    customers = pd.read_csv(folder / "customers.csv").set_index(label)
    assert len(found) == 2 * len(customers)
    assert set(found["status"]) <= {"optimal", "no_recourse", "already_favourable"}
    before = dict(zip(customers.index, model.predict_proba(customers), strict=True))
    flipped = 0
    for row in found[found["status"] == "optimal"].to_dict("records"):
        point = customers.loc[[row["instance_id"]]]
        for change in row["changes"]:
            name, after = change["feature"], change["after"]
            kind = customers[name].dtype
            point[name] = pd.Series([after], index=point.index).astype(kind if kind.kind != "i" else float)
        target = list(model.classes_).index(1)
        assert row["score_before"] == pytest.approx(before[row["instance_id"]][target], abs=1e-12)
        assert model.predict(point)[0] == 1
        assert model.predict_proba(point)[0, target] == pytest.approx(row["score_after"], abs=1e-12)
        flipped += 1
    assert flipped > 5
    validation = pd.read_parquet(folder / "run/validation")
    assert len(validation) == found["point"].notna().sum()
    assert verify(str(folder / "run")) == 0


def free_marked(schema: Path) -> None:
    """Undo the actions that `robustcf schema` sets because of a column's name."""
    text = schema.read_text(encoding="utf-8")
    schema.write_text(
        re.sub(r'action = "\w+"  # set because', 'action = "free"  # set because', text), encoding="utf-8"
    )


def test_a_pipeline_is_audited_from_its_file_alone(local_ray: Any, tmp_path: Path) -> None:
    model = write_files(tmp_path, *synthetic(), customers=40)
    assert run_audit(tmp_path / "audit.toml") == 0
    check_audit(tmp_path, model)
    found = rows(tmp_path / "run")

    # With the schema file that `robustcf schema` writes, and no marked column, the answers are the same.
    run(
        "schema",
        str(tmp_path / "model.skops"),
        str(tmp_path / "training.csv"),
        "--output",
        str(tmp_path / "s.toml"),
    )
    free_marked(tmp_path / "s.toml")
    config = {
        "output": "again",
        "model": {"file": "model.skops", "favourable": 1, "schema": "s.toml"},
        "customers": {"data": "customers.csv", "id": "customer"},
        "method": [{"name": "naive"}, {"name": "direct-saa", "alpha": 0.1}],
    }
    (tmp_path / "again.toml").write_text(tomli_w.dumps(config))
    assert run_audit(tmp_path / "again.toml") == 0
    assert rc.Schema.from_toml(tmp_path / "again/schema.toml") == rc.Schema.from_toml(
        tmp_path / "run/schema.toml"
    )
    pd.testing.assert_frame_equal(rows(tmp_path / "again"), found, check_exact=True)


@pytest.mark.parametrize("name", ["german-credit", "adult"])
def test_the_papers_data_in_raw_columns_are_audited(name: str, local_ray: Any, tmp_path: Path) -> None:
    if not Path(os.environ.get("ROBUSTCF_DATA", "none")).is_dir():
        pytest.skip("the paper's data sets: set ROBUSTCF_DATA to their folder")
    X, y = paper_set(name)
    keep = np.arange(len(X)) % max(1, len(X) // 3000) == 0
    model = write_files(tmp_path, X[keep].reset_index(drop=True), y[keep], customers=40)
    assert run_audit(tmp_path / "audit.toml") == 0
    check_audit(tmp_path, model)


def test_the_schema_file_is_read_back_unchanged_and_has_advice(files: Path) -> None:
    output = files / "schema.toml"
    run("schema", str(files / "model.skops"), str(files / "training.csv"), "--output", str(output))
    text = output.read_text(encoding="utf-8")
    marked = 'action = "fixed"  # set because of the name; "free" lets advice change it'
    for words in (marked, "observed:", "missing", "How the model encodes it"):
        assert words in text
    opened = open_model(str(files / "model.skops"))
    assert opened.read is not None
    training = pd.read_csv(files / "training.csv")
    assert rc.Schema.from_toml(output) == opened.schema(str(output))
    printed = run("schema", str(files / "model.skops"), str(files / "training.csv"))
    assert text.strip() in printed.strip()
    free_marked(output)
    assert rc.Schema.from_toml(output) == opened.schema(data=training)


@pytest.mark.parametrize(
    ("name", "kind", "action"),
    [
        ("Sex", "categorical", "fixed"),
        ("maritalStatus", "categorical", "fixed"),
        ("date_of_birth", "continuous", "fixed"),
        ("customer-age", "continuous", "increase"),
        ("mortgage", "continuous", None),
        ("racetrack_visits", "continuous", None),
        ("income", "continuous", None),
    ],
)
def test_columns_named_like_protected_attributes_are_marked(name: str, kind: str, action: str | None) -> None:
    values = {"values": ("a", "b")} if kind == "categorical" else {"low": 0, "high": 1}
    assert advised_action(rc.Feature(name, kind, **values)) == action  # type: ignore[arg-type]


def test_suggested_bounds_are_never_tighter_than_the_data(tmp_path: Path) -> None:
    frame = pd.DataFrame({"amount": [0.1234567891, 17116.25, 3.5] * 20, "y": [0, 1, 0] * 20})
    model = RandomForestClassifier(3, random_state=0).fit(frame[["amount"]], frame["y"])
    skops.io.dump(model, tmp_path / "model.skops")
    frame.to_csv(tmp_path / "t.csv", index=False)
    text = run("schema", str(tmp_path / "model.skops"), str(tmp_path / "t.csv"))
    assert "# lower = 0.1234567891" in text
    assert "# upper = 17116.25" in text


def test_a_forest_folder_has_a_schema_file_too(tmp_path: Path) -> None:
    data = rc.datasets.synthetic_credit(200, seed=0)
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
    rc.save_forest(rc.Forest.from_sklearn(model), tmp_path / "forest")
    data.X.assign(good=data.y).to_csv(tmp_path / "t.csv", index=False)
    run(
        "schema",
        str(tmp_path / "forest"),
        str(tmp_path / "t.csv"),
        "--label",
        "good",
        "--output",
        str(tmp_path / "s.toml"),
    )
    assert rc.Schema.from_toml(tmp_path / "s.toml").names == data.schema.names


def test_skops_pickle_and_joblib_hold_the_same_model(files: Path, tmp_path: Path) -> None:
    model = skops.io.load(
        files / "model.skops", trusted=skops.io.get_untrusted_types(file=files / "model.skops")
    )
    joblib.dump(model, tmp_path / "m.joblib", compress=3)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(model))
    first = open_model(str(files / "model.skops"))
    for name in ("m.joblib", "m.pkl"):
        with pytest.raises(BadInput, match="--trust-pickle"):
            open_model(str(tmp_path / name))
        assert open_model(str(tmp_path / name), trust_pickle=True).forest == first.forest


class Malicious:
    """What a pickle can do to whoever loads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_a_pickle_runs_nothing_before_it_is_trusted(tmp_path: Path) -> None:
    mark = tmp_path / "pwned"
    for name in ("model.pkl", "model.skops", "model"):
        (tmp_path / name).write_bytes(pickle.dumps(Malicious(mark)))
        with pytest.raises(BadInput, match="a pickle can run any code"):
            open_model(str(tmp_path / name))
        assert not mark.exists()


def test_types_that_are_not_allowed_are_named(tmp_path: Path) -> None:
    model = pipeline(2, 2)
    model.steps.insert(0, ("run", FunctionTransformer(os.system)))
    skops.io.dump(model, tmp_path / "m.skops")
    with pytest.raises(BadInput, match=r"not allowed: .*system"):
        open_model(str(tmp_path / "m.skops"))


def test_broken_files_are_one_clear_line(files: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.skops").write_bytes((files / "model.skops").read_bytes()[:3000])
    with pytest.raises(BadInput, match=r"cut\.skops"):
        open_model(str(tmp_path / "cut.skops"))
    (tmp_path / "no.pkl").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="cannot be loaded"):
        open_model(str(tmp_path / "no.pkl"), trust_pickle=True)
    with pytest.raises(BadInput, match="cannot be read"):
        open_model(str(tmp_path / "gone.skops"))


def test_a_tree_that_leads_nowhere_is_refused_before_it_is_asked(tmp_path: Path) -> None:
    X, y = synthetic()
    model = pipeline(3, 3).fit(X, y)
    tree = model[-1].estimators_[0].tree_
    state = tree.__getstate__()
    state["nodes"]["left_child"][0] = 10_000_000
    tree.__setstate__(state)
    with pytest.raises(rc.ForestError, match="child"):
        read_model(model)


BAD_CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "both": (
        {"file": "model.skops", "forest": "forest", "favourable": 1},
        "give either forest or file",
    ),
    "neither": ({"favourable": 1}, "give either forest or file"),
    "no-schema": ({"forest": "forest", "favourable": 1}, "a forest folder also needs a schema"),
    "typo": ({"file": "model.skops", "favourable": 1, "trust_pickles": True}, "unknown key 'trust_pickles'"),
    "gone": ({"file": "gone.skops", "favourable": 1}, "gone.skops: cannot be read"),
    "label": ({"file": "model.skops", "favourable": 7}, "no class 7"),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_a_bad_model_table_is_one_line_and_exit_code_2(
    case: str, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, complaint = BAD_CONFIGS[case]
    for name in ("model.skops", "customers.csv", "training.csv"):
        (tmp_path / name).write_bytes((files / name).read_bytes())
    config = {
        "output": "run",
        "model": table,
        "customers": {"data": "customers.csv"},
        "method": [{"name": "naive"}],
        "training": {"data": "training.csv", "label": "good"},
    }
    (tmp_path / "audit.toml").write_text(tomli_w.dumps(config))
    with pytest.raises(SystemExit) as stopped:
        main(["audit", str(tmp_path / "audit.toml")])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert complaint in error
    assert not (tmp_path / "run").exists()


def test_without_ranges_the_audit_says_what_to_do(files: Path, tmp_path: Path) -> None:
    (tmp_path / "model.skops").write_bytes((files / "model.skops").read_bytes())
    (tmp_path / "customers.csv").write_bytes((files / "customers.csv").read_bytes())
    config = {
        "output": "run",
        "model": {"file": "model.skops", "favourable": 1},
        "customers": {"data": "customers.csv", "id": "customer"},
        "method": [{"name": "naive"}],
    }
    (tmp_path / "audit.toml").write_text(tomli_w.dumps(config))
    with pytest.raises((BadInput, SchemaError), match="does not contain its range"):
        run_audit(tmp_path / "audit.toml")


def test_text_files_know_categories_that_are_numbers() -> None:
    """A CSV file is text: "3" is the category 3, which the model may know as 3.0."""
    X = pd.DataFrame({"code": [3.0, 7.0, np.nan] * 20, "flag": [True, False] * 30})
    model = make_pipeline(OneHotEncoder(), RandomForestClassifier(3, random_state=0))
    read = read_model(model.fit(X, (X["code"] == 3) & X["flag"]))
    text = pd.DataFrame({"code": ["3", "7.0", None], "flag": ["True", "false", "True"]})
    schema = read.schema(text)
    found = read_rows(schema, text)
    assert found.reasons == [None] * 3
    typed = pd.DataFrame({"code": [3.0, 7.0, np.nan], "flag": [True, False, True]})
    assert np.array_equal(encode(schema, found.numbers), read.transform(typed))
