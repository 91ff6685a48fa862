"""`robustcf export`: one line per customer, reasons ranked by cost, harmless in a spreadsheet."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from robustcf_jobs.export.export import ExportOptions, export_run
from robustcf_jobs.export.reasons import read_reasons
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.run.spreadsheet import harmless_text

import robustcf as rc
from tests.helpers.jobworld import customers, make_audit, make_forest, make_sweep, run_audit, run_sweep

REASONS = """feature,direction,code,text
savings,up,R01,Savings are low
months_employed,up,R02,Time with the employer is short
late_payments,down,R03,Late payments
income,increase,R01,Savings are low
loan_amount,,R04,The loan is large
"""
EVIL = '=HYPERLINK("http://evil")'


@pytest.fixture(scope="module")
def audit(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16 customers, most of them turned down; one calls himself a formula."""
    folder = tmp_path_factory.mktemp("export")
    forest = make_forest(folder / "forest")
    frame, data = customers(300), rc.datasets.synthetic_credit(300, seed=5)
    denied = forest.predict(data.encode(data.X)) == 0
    chosen = np.r_[np.flatnonzero(denied)[:12], np.flatnonzero(~denied)[:4]]
    frame = frame.iloc[chosen].reset_index(drop=True)
    frame.loc[15, "housing"] = "@castle"
    frame.loc[0, "customer"] = EVIL
    frame.loc[1, "customer"] = "-12"
    config = make_audit(
        folder,
        frame,
        method=[{"name": "naive"}, {"name": "direct-saa", "alpha": [0.2, 0.05]}],
        validation={"forests": 2, "scenarios": ["same-data", "bootstrap"]},
        shard={"rows": 8},
    )
    assert run_audit(config) == 0
    (folder / "reasons.csv").write_text(REASONS)
    return folder


def wide(audit: Path, tmp_path: Path, ending: str = "parquet", **options: Any) -> pd.DataFrame:
    output = tmp_path / f"wide.{ending}"
    assert export_run(str(audit / "run"), ExportOptions(str(output), **options)) == 16
    assert [p.name for p in tmp_path.iterdir()] == [output.name]
    return pd.read_parquet(output) if ending == "parquet" else pd.read_csv(output)


def test_one_line_per_customer_with_what_the_tables_hold(audit: Path, tmp_path: Path) -> None:
    table = wide(audit, tmp_path).set_index("id")
    rows = pd.read_parquet(audit / "run/counterfactuals")
    valid = pd.read_parquet(audit / "run/validation")
    assert table.index.is_unique
    assert set(table["decision"]) == {"denied", "favourable", "not readable"}
    for prefix, method, alpha in (
        ("naive", "naive", None),
        ("direct_saa_alpha0_2", "direct-saa", 0.2),
        ("direct_saa_alpha0_05", "direct-saa", 0.05),
    ):
        mine = rows[(rows["method"] == method) & (rows["alpha"].fillna(0) == (alpha or 0))]
        mine = mine.set_index("instance_id").loc[table.index]
        for column, stored in (
            ("status", "status"),
            ("distance", "distance"),
            ("score_after", "score_after"),
            ("validity_predicted", "predicted_validity"),
            ("note", "reason"),
        ):
            pd.testing.assert_series_equal(table[f"{prefix}_{column}"], mine[stored], check_names=False)
        for scenario in ("same-data", "bootstrap"):
            own = valid[(valid["method"] == method) & (valid["alpha"].fillna(0) == (alpha or 0))]
            own = own[own["scenario"] == scenario].set_index("instance_id")["valid"].map(np.mean)
            found = table[f"{prefix}_validity_{scenario.replace('-', '_')}"].dropna()
            assert found.to_dict() == own.to_dict()
        told = table[f"{prefix}_changes"].dropna()
        for name, text in told.items():
            changes = mine.loc[name, "changes"]
            assert text == "; ".join(f"{c['feature']}: {c['before']} -> {c['after']}" for c in changes)
    assert table["cohort_sex"].isin(["female", "male"]).all()
    assert table.loc[EVIL, "score_before"] < 0.5


def test_reasons_are_ranked_by_their_share_of_the_cost(audit: Path, tmp_path: Path) -> None:
    reasons = str(audit / "reasons.csv")
    table = wide(audit, tmp_path, reasons=reasons).set_index("id")
    schema = rc.Schema.from_toml(audit / "run/schema.toml")
    known = read_reasons(reasons, schema.names)
    rows = pd.read_parquet(audit / "run/counterfactuals")
    rows = rows[(rows["method"] == "direct-saa") & (rows["alpha"] == 0.05) & rows["point"].notna()]
    seen = set()
    for row in rows.itertuples():
        shares: dict[str, float] = {}
        for change in row.changes:
            feature = schema[change["feature"]]
            up = 0 if change["delta"] is None or np.isnan(change["delta"]) else int(np.sign(change["delta"]))
            old, new = (
                float(change[k]) if feature.is_number else float(feature.values.index(change[k]))
                for k in ("before", "after")
            )
            code = known.of(feature.name, up)[0]
            shares[code] = shares.get(code, 0.0) + float(feature.costs(np.array(new), old))
        found = table.loc[row.instance_id, "direct_saa_alpha0_05_reason_codes"].split("; ")
        assert set(found) <= shares.keys()
        assert len(found) == min(4, len(shares))
        assert [shares[c] for c in found] == sorted(shares.values(), reverse=True)[: len(found)]
        seen.update(found)
    assert seen & {"R01", "R02", "R03", "R04"}
    few = tmp_path / "few"
    few.mkdir()
    one = wide(audit, few, reasons=reasons, most_reasons=1).set_index("id")
    assert not one["direct_saa_alpha0_05_reason_codes"].dropna().str.contains(";").any()


def test_some_methods_only(audit: Path, tmp_path: Path) -> None:
    table = wide(audit, tmp_path, methods=("naive", "direct-saa"), alphas=(0.05,))
    statuses = [c for c in table.columns if c.endswith("_status")]
    assert statuses == ["naive_status", "direct_saa_alpha0_05_status"]
    with pytest.raises(
        BadInput, match=r"its methods are naive, direct-saa alpha=0\.2, direct-saa alpha=0\.05"
    ):
        wide(audit, tmp_path, methods=("robx",))


def test_a_spreadsheet_finds_no_formula_in_it(audit: Path, tmp_path: Path) -> None:
    wide(audit, tmp_path, "csv")
    with (tmp_path / "wide.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert f"'{EVIL}" in [row[0] for row in rows]
    assert "-12" in [row[0] for row in rows]  # a number is no formula
    for row in rows:
        for cell in row:
            assert harmless_text(cell) == cell
    frame = pd.read_csv(tmp_path / "wide.csv")
    assert frame["score_before"].dtype == np.float64
    assert len(head) == len(frame.columns)


@pytest.mark.parametrize("text", ["=1", "+a", "-a", "@a", "\ta", "\ra", "\na", "-1+1", "=-1", "＝1", "+"])
def test_formulas_are_neutralised(text: str) -> None:
    assert harmless_text(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a", "1", "-1", "+1.5", "-.5", "-1e-9", "a=1", "'=1", "1-2", "α"])
def test_other_words_and_numbers_are_not_touched(text: str) -> None:
    assert harmless_text(text) == text


def test_a_sweep_has_its_simulations_as_lines(local_ray: Any, tmp_path: Path) -> None:
    assert run_sweep(make_sweep(tmp_path / "sweep")) == 0
    output = tmp_path / "wide.parquet"
    assert export_run(str(tmp_path / "sweep/run"), ExportOptions(str(output))) == 6
    table = pd.read_parquet(output)
    assert list(table.columns[:4]) == ["dataset", "simulation", "n_trees", "id"]
    assert not table.duplicated(["dataset", "simulation", "n_trees", "id"]).any()
    assert {"naive_validity_same_data", "naive_validity_trees_5"} <= set(table.columns)


# ------------------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("r.csv", "feature,code\nluck,R1\n", "the run has no feature 'luck'"),
        ("r.csv", "feature,text\nsavings,R1\n", "column 'code' is missing"),
        ("r.csv", "feature,code,more\nsavings,R1,x\n", "unknown key; the allowed keys are"),
        ("r.csv", "feature,code\nsavings,\n", "has no code"),
        ("r.csv", "feature,direction,code\nsavings,sideways,R1\n", "direction is 'sideways'"),
        (
            "r.csv",
            "feature,direction,code\nsavings,up,R1\nsavings,increase,R2\n",
            "already has a code for this direction",
        ),
        ("r.csv", "feature,code\n", "no reason"),
        ("r.toml", "[[reason]]\nfeature = 'savings'\ncode = 3\n", "must be strings"),
        ("r.toml", "reason = 1", r"expected \[\[reason\]\]"),
        ("r.toml", "[[", "not a table of reasons"),
        ("gone.csv", None, "cannot be read"),
    ],
)
def test_bad_tables_of_reasons(tmp_path: Path, name: str, text: str | None, complaint: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=complaint):
        read_reasons(str(tmp_path / name), ["savings", "age"])


def test_reasons_in_toml(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("[[reason]]\nfeature = 'savings'\ndirection = 'up'\ncode = 'R1'\ntext = 'Save'\n")
    reasons = read_reasons(str(path), ["savings"])
    assert reasons.of("savings", 1) == ("R1", "Save")
    assert reasons.of("savings", -1) == ("savings", "savings")


def test_bad_outputs(audit: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"must end in \.csv or \.parquet"):
        export_run(str(audit / "run"), ExportOptions(str(tmp_path / "wide.xlsx")))
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        export_run(str(audit / "run"), ExportOptions(str(tmp_path / "file/wide.csv")))
    with pytest.raises(BadInput, match=r"no manifest\.json"):
        export_run(str(tmp_path), ExportOptions(str(tmp_path / "wide.csv")))


# ------------------------------------------------------------------------------ other tools


def test_the_folder_is_one_dataset_in_pandas_and_duckdb(audit: Path) -> None:
    import duckdb

    folder = audit / "run/counterfactuals"
    frame = pd.read_parquet(folder)
    found = duckdb.sql(f"SELECT count(*), count(DISTINCT instance_id) FROM '{folder}/*.parquet'").fetchall()[
        0
    ]
    counts = json.loads((audit / "run/manifest.json").read_text())["counts"]
    assert found == (len(frame), 16) == (sum(counts.values()), 16)
    statuses = duckdb.sql(f"SELECT status, count(*) FROM '{folder}/*.parquet' GROUP BY status").fetchall()
    assert dict(statuses) == counts
    assert len(pd.read_parquet(audit / "run/validation")) == 2 * frame["point"].notna().sum()


def test_the_queries_of_the_documentation_run(audit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every SQL and Python block of docs/tables.md, on a real run."""
    import duckdb

    monkeypatch.chdir(audit)
    text = (Path(__file__).parents[3] / "docs/tables.md").read_text()
    blocks = [part.split("```")[0] for part in text.split("```sql\n")[1:]]
    assert len(blocks) >= 3
    for query in blocks:
        assert duckdb.sql(query.replace("runs/tonight", "run")).fetchall(), query
    for program in (part.split("```")[0] for part in text.split("```python\n")[1:]):
        exec(compile(program.replace("runs/tonight", "run"), "docs/tables.md", "exec"), {})
    listed = {
        w for line in text.splitlines() if line.startswith("| `") for w in line.split("|")[1].split("`")
    }
    columns = set(pq.read_schema(next((audit / "run/counterfactuals").iterdir())).names)
    columns |= set(pq.read_schema(next((audit / "run/validation").iterdir())).names)
    assert columns <= listed
