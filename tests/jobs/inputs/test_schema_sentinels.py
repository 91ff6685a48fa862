"""Numbers that stand for something else: `robustcf schema` warns, and only where there is reason to."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from robustcf_jobs.cli import app
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import robustcf as rc
from robustcf.schema.sentinels import find_sentinels
from robustcf.schema.values import numbers_of


def lenders(**codes: float) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows with three numbers; a column named in `codes` has that number in every tenth row."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.uniform(500, 9000, 300).round(2),
            "savings": rng.exponential(2000, 300).round(2),
            "late": rng.integers(0, 30, 300).astype(float),
        }
    )
    y = (frame["income"] + frame["savings"] > 6000).astype(int).to_numpy()
    for name, code in codes.items():
        frame.loc[::10, name] = code
    return frame, y


def schema_of(folder: Path, frame: pd.DataFrame, y: np.ndarray, *, pipeline: bool) -> tuple[str, list[str]]:
    """The file that `robustcf schema` writes, and the lines on the error stream."""
    if pipeline:
        model = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(frame, y)
        skops.io.dump(model, folder / "model")
    else:
        encoded = rc.datasets.Dataset("rows", frame, y, rc.Schema.from_frame(frame)).encode(frame)
        forest = RandomForestClassifier(5, random_state=0).fit(encoded, y)
        rc.save_forest(rc.Forest.from_sklearn(forest), folder / "model")
    name = folder / "model"
    if pipeline:
        name = name.rename(folder / "model.skops")
    frame.to_csv(folder / "rows.csv", index=False)
    output = folder / "schema.toml"
    arguments = ["schema", str(name), str(folder / "rows.csv"), "--output", str(output)]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert rc.Schema.from_toml(output).names == tuple(frame.columns)
    return output.read_text(encoding="utf-8"), result.stderr.splitlines()


@pytest.mark.parametrize("code", [99999, 999999, -999, -9999, 1e12, 2**31 - 1])
@pytest.mark.parametrize("pipeline", [True, False])
def test_a_sentinel_in_a_range_is_named_in_the_file_and_on_the_terminal(
    code: float, pipeline: bool, tmp_path: Path
) -> None:
    """A range up to 1e12 made a move of 76 units look as cheap as one of 47, and nothing said so."""
    frame, y = lenders(late=code)
    text, warnings = schema_of(tmp_path, frame, y, pipeline=pipeline)
    (warning,) = warnings
    assert warning.startswith(f"robustcf: warning: late: {code:.15g} (30 rows) is far from all other values")
    assert warning.endswith("or set allowed to the other values.")  # whole numbers are a list of values
    table = next(part for part in text.split("[[feature]]") if 'name = "late"' in part)
    assert f"# WARNING: {code:.15g} (30 rows)" in table
    assert text.count("WARNING") == 1


@pytest.mark.parametrize(
    ("pipeline", "cure"), [(True, "high = {:.15g}."), (False, "upper = {:.15g} (customers outside it are")]
)
def test_a_range_that_scales_what_the_forest_sees_is_kept_and_a_bound_advised(
    pipeline: bool, cure: str, tmp_path: Path
) -> None:
    """With a pipeline the range is only the unit of the distance; a bare forest was trained on it."""
    frame, y = lenders(income=1e12)
    _, (warning,) = schema_of(tmp_path, frame, y, pipeline=pipeline)
    assert f"or set {cure.format(frame['income'][frame['income'] < 1e12].max())}" in warning


def test_ordinary_columns_have_no_warning(tmp_path: Path) -> None:
    frame, y = lenders()
    text, warnings = schema_of(tmp_path, frame, y, pipeline=True)
    assert warnings == []
    assert "WARNING" not in text


def test_codes_at_both_ends_and_several_codes_are_found() -> None:
    column = np.concatenate([np.arange(50.0), [-999, 9997, 9998, 9999, np.nan, np.inf]])
    found = find_sentinels(column)
    assert found is not None
    assert found.numbers == (-999.0, 9997.0, 9998.0, 9999.0)
    assert (found.rows, found.low, found.high) == (4, 0.0, 49.0)


@pytest.mark.parametrize(
    "column",
    [
        np.arange(0.0, 1000.0),  # ends at 999, like the numbers before
        np.random.default_rng(0).lognormal(0, 2, 5000),  # a heavy tail
        np.array([0.0, 1.0, 99999.0]),  # too few others to tell
        np.full(50, 999.0),
        np.array([]),
        np.array([np.nan, np.nan]),
    ],
)
def test_what_is_no_sentinel(column: np.ndarray) -> None:
    assert find_sentinels(column) is None


def test_the_papers_data_have_three_columns_with_such_numbers() -> None:
    if not Path(os.environ.get("ROBUSTCF_DATA", "none")).is_dir():
        pytest.skip("the paper's data sets: set ROBUSTCF_DATA to their folder")
    flagged = {}
    for source in rc.datasets.available():
        if source.where is None:
            continue
        data = rc.datasets.load(source.name)
        for feature in data.schema.features:
            found = find_sentinels(numbers_of(data.X[feature.name])) if feature.is_number else None
            if found is not None:
                flagged[source.name, feature.name] = found.numbers
    assert flagged == {
        ("adult", "CapitalGain"): (99999.0,),  # capped
        ("onlinenewspopularity", "n_unique_tokens"): (701.0,),  # one broken row: a rate
        ("onlinenewspopularity", "n_non_stop_unique_tokens"): (650.0,),
    }
