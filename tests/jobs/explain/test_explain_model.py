"""`robustcf explain` with the user's own model: one customer of a table, printed, drawn, as JSON."""

import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from robustcf_jobs.cli import app, main
from typer.testing import CliRunner

import robustcf as rc
from tests.helpers.byoworld import synthetic, write_files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    write_files(folder, *synthetic(), customers=60)
    return folder


@pytest.fixture(scope="module")
def model(files: Path) -> Any:
    path = files / "model.skops"
    return skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))


@pytest.fixture(scope="module")
def denied(files: Path, model: Any) -> pd.DataFrame:
    customers = pd.read_csv(files / "customers.csv")
    return customers[model.predict(customers) == 0]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["explain", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def own(files: Path, *more: str) -> tuple[str, ...]:
    given = more if "--target" in more else ("--target", "1", *more)
    return ("--model", str(files / "model.skops"), "--customers", str(files / "customers.csv"), *given)


def test_a_customer_is_explained_for_a_person(files: Path, denied: pd.DataFrame, tmp_path: Path) -> None:
    who, picture = str(denied["customer"].iloc[0]), tmp_path / "path.svg"
    training = ("--training", str(files / "training.csv"), "--label", "good", "--forests", "3")
    output = run(*own(files, "--id", who, "--naive", "--target", "1", "--plot", str(picture), *training))
    said = f"customer {who}|decision 0|score for 1|from|to|proved nearest|predicted|of 3 retrained forests"
    for words in f"{said}|What more robustness costs|α = 0.01|measured".split("|"):
        assert words in output
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_the_record_flips_the_users_own_pipeline(files: Path, denied: pd.DataFrame, model: Any) -> None:
    for position in denied.index[:3]:
        record = json.loads(run(*own(files, "--row", str(position), "--json", "--alpha", "0.1")))
        assert record["decision"] == 0
        (answer,) = record["answers"]
        assert answer["status"] in ("optimal", "no_recourse")
        if answer["status"] == "optimal":
            point = denied.loc[[position]].assign(**answer["point"])
            assert model.predict(point.fillna(np.nan))[0] == 1
        distances = [m["distance"] for m in record["menu"] if m["status"] == "optimal"]
        assert distances == sorted(distances)
        assert [m["alpha"] for m in record["menu"]] == [None, 0.5, 0.3, 0.2, 0.1, 0.05, 0.01]


def test_measured_validity_is_that_of_forests_trained_again(files: Path, denied: pd.DataFrame) -> None:
    where = own(files, "--row", str(denied.index[0]), "--json")
    training = ("--training", str(files / "training.csv"), "--label", "good", "--forests", "4")
    first, second = (json.loads(run(*where, *training)) for _ in range(2))
    measured = [m["measured_validity"] for m in first["menu"] if m["distance"] is not None]
    assert measured
    assert all(v in (0.0, 0.25, 0.5, 0.75, 1.0) for v in measured)
    assert measured == [m["measured_validity"] for m in second["menu"] if m["distance"] is not None]
    assert json.loads(run(*where))["menu"][0]["measured_validity"] is None


def test_a_schema_file_is_obeyed(files: Path, denied: pd.DataFrame, tmp_path: Path) -> None:
    free = json.loads(run(*own(files, "--row", str(denied.index[0]), "--json", "--no-menu")))
    assert free["menu"] == []
    changed = free["answers"][0]["changes"][0]["feature"]
    schema = tmp_path / "schema.toml"
    schema.write_text(f'[[feature]]\nname = "{changed}"\naction = "fixed"\n')
    training = ("--training", str(files / "training.csv"), "--label", "good", "--forests", "0")
    bound = json.loads(
        run(*own(files, "--row", str(denied.index[0]), "--json", "--schema", str(schema), *training))
    )
    assert changed not in [c["feature"] for c in bound["answers"][0]["changes"]]


def test_a_forest_folder_and_a_trusted_pickle_do_too(files: Path, model: Any, tmp_path: Path) -> None:
    data = rc.datasets.synthetic_credit(200, seed=0)
    forest = rc.Forest.from_sklearn(
        model[-1].__class__(10, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
    )
    rc.save_forest(forest, tmp_path / "forest")
    (tmp_path / "schema.toml").write_text(data.schema.to_toml(), encoding="utf-8")
    data.X.to_parquet(tmp_path / "all.parquet")
    row = int(np.flatnonzero(forest.predict(data.encode(data.X)) == 0)[0])
    asked = ("--target", "1", "--json", "--no-menu")
    table = ("--customers", str(tmp_path / "all.parquet"), "--row", str(row), *asked)
    record = json.loads(
        run("--model", str(tmp_path / "forest"), "--schema", str(tmp_path / "schema.toml"), *table)
    )
    cf = rc.Explainer(forest, data.schema, rc.DirectSAA(0.05)).explain(data.X.iloc[row])
    assert record["answers"][0]["distance"] == cf.distance
    joblib.dump(model, tmp_path / "m.joblib")
    table = ("--customers", str(files / "customers.csv"), "--row", "0", *asked)
    assert run("--model", str(tmp_path / "m.joblib"), "--trust-pickle", *table)


def test_a_short_schema_takes_its_ranges_from_the_customers(
    files: Path, denied: pd.DataFrame, tmp_path: Path
) -> None:
    """It was refused without training rows, although the customers' table has the columns."""
    (tmp_path / "schema.toml").write_text('[[feature]]\nname = "age"\naction = "fixed"\n')
    output = run(*own(files, "--row", str(denied.index[0]), "--schema", str(tmp_path / "schema.toml")))
    assert "ranges from the customers' table" in output


BAD_INPUT = {
    "--model {files}/model.skops --row 1": "--model and --customers must be used together",
    "synthetic-credit --model {files}/model.skops --customers c.csv --row 1": "either a data set or your own",
    "--row 1": "either a data set or your own",
    "{own}": "Missing option '--row'",
    "{own} --row 1 --id c1": "use either --id or --row, not both",
    "{own} --row 60": "rows are 0 to 59",
    "{own} --id nobody": "customer nobody: not found in column customer",
    "{own} --id c1 --id-column town": "column 'town' is missing",
    "{own} --row 1 --training t.csv": "--training and --label must be used together",
    "{own} --row 1 --forests 3": "--training and --label",
    "{own} --row 1 --plot picture.txt": "must end in .png",
    "--model {files}/model.skops --customers {files}/customers.csv --row 1": "name the favourable label",
    "{maybe} --row 1": "no class 'maybe'",
    "{own} --row 1 --schema nothing.toml": "nothing.toml: cannot be read",
    "--model {files}/customers.csv --customers {files}/customers.csv --row 1": "a pickle can run any code",
    "--model {files}/nowhere --customers {files}/customers.csv --row 1": "cannot be read",
}


@pytest.mark.parametrize("command", BAD_INPUT)
def test_bad_input_is_one_clear_line(command: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = command.replace("{own}", " ".join(own(files))).replace("{files}", str(files))
    text = text.replace("{maybe}", " ".join(own(files, "--target", "maybe")))
    with pytest.raises(SystemExit) as stopped:
        main(["explain", *text.split()])
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1, captured.err
    assert BAD_INPUT[command] in captured.err


def test_a_customer_who_cannot_be_read_is_said_so(files: Path, tmp_path: Path, capsys: Any) -> None:
    customers = pd.read_csv(files / "customers.csv").head(3)
    customers["age"] = customers["age"].astype(str)
    customers.loc[1, "age"] = "old"
    customers.to_csv(tmp_path / "c.csv", index=False)
    table = [
        "--customers",
        str(tmp_path / "c.csv"),
        "--training",
        str(files / "training.csv"),
        "--label",
        "good",
    ]
    with pytest.raises(SystemExit) as stopped:
        main(["explain", "--model", str(files / "model.skops"), *table, "--row", "1", "--target", "1"])
    assert stopped.value.code == 2
    assert "column 'age': 'old' is not a number" in capsys.readouterr().err
