"""`robustcf verify`: the validation, the summary, the keys and the customers' own rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from robustcf_jobs.verify.run import verify_run

from tests.helpers.verifyworld import Manifest, Rows, alter_manifest, alter_rows, found


def flipped(rows: Rows) -> dict[str, Any]:
    rows[0]["valid"] = [not v for v in rows[0]["valid"]]
    return rows[0]


def dropped(rows: Rows) -> dict[str, Any]:
    return rows.pop(0)


def twice(rows: Rows) -> dict[str, Any]:
    rows.append(rows[0])
    return rows[0]


def shorter(rows: Rows) -> dict[str, Any]:
    rows[0]["valid"] = rows[0]["valid"][:-1]
    return rows[0]


def other_seeds(rows: Rows) -> dict[str, Any]:
    rows[0]["seeds"] = [1, 2, 3]
    return rows[0]


def other_scenario(rows: Rows) -> dict[str, Any]:
    rows[0]["scenario"] = "bootstrap"
    return rows[0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (flipped, "validity: stored"),
        (dropped, "is missing"),
        (twice, "is repeated"),
        (shorter, "does not have 3 entries"),
        (other_seeds, "seeds are not those"),
        (other_scenario, "is not one of the run's"),
    ],
)
def test_the_validation(run: Path, change: Callable[[Rows], Any], named: str) -> None:
    alter_rows(run, change, "validation")
    said = found(run)
    assert any(named in line for line in said), said


@pytest.mark.parametrize(
    "column", ["n", "n_optimal", "n_no_recourse", "n_reached", "validity", "distance", "changed"]
)
def test_the_summary(run: Path, column: str) -> None:
    path = run / "summary/summary.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    row = next(r for r in rows if r[column])
    row[column] += 1
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    said = found(run)
    assert any(
        f"summary/summary.parquet: customers {row['method']}" in s and f" {column}: stored" in s for s in said
    )
    assert any("summary/summary.csv: line" in line for line in said)


def test_a_summary_line_too_few_or_too_many(run: Path) -> None:
    path = run / "summary/summary.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(1), table.slice(1, 1)]), path)
    said = found(run)
    assert any("the line is missing" in line for line in said), said
    assert any("the line is repeated or unknown" in line for line in said)


def test_the_csv_beside_the_summary(run: Path) -> None:
    path = run / "summary/status.csv"
    path.write_text(path.read_text().replace("optimal", "perfect", 1))
    assert any(line.startswith("csv: summary/status.csv: line") for line in found(run))


def test_the_keys(run: Path) -> None:
    path = run / "keys/shard-00000.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[0]["row"] = bytes(16)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    assert f"customers: {rows[0]['instance_id']}: keys/ has the digest of a different row" in found(run)
    pq.write_table(table.slice(1), path)
    assert "counts: keys/shard-00000.parquet: the customers are not those of the shard" in found(run)


def with_other_customers(
    audited: Path, run: Path, tmp_path: Path, change: Callable[[pd.DataFrame], Any]
) -> None:
    """The run beside another customer table, its size in the manifest made to fit."""
    frame = pd.read_parquet(audited / "customers.parquet")
    change(frame)
    path = tmp_path / "customers.parquet"
    frame.to_parquet(path, row_group_size=40)

    def point_there(manifest: Manifest) -> None:
        manifest["config"]["customers"]["data"] = str(path)
        manifest["inputs"] = [[str(path), path.stat().st_size, "0"]]

    alter_manifest(run, point_there)


def test_customers_who_are_not_those_of_the_run(audited: Path, run: Path, tmp_path: Path) -> None:
    rows = pd.read_parquet(run / "counterfactuals").set_index("instance_id")
    denied = rows.index[rows["status"] == "optimal"][0]
    favoured = rows.index[rows["status"] == "already_favourable"][0]

    def change(frame: pd.DataFrame) -> None:
        place = frame.set_index("customer").index
        a, b = place.get_loc(denied), place.get_loc(favoured)
        columns = frame.columns[1:]
        frame.loc[a, columns], frame.loc[b, columns] = frame.loc[b, columns], frame.loc[a, columns]
        frame.loc[0 if 0 not in (a, b) else 2, "customer"] = "stranger"

    with_other_customers(audited, run, tmp_path, change)
    said = found(run)
    assert f"customers: {denied}: should be already_favourable according to the customer's row" in said
    assert f"customers: {favoured}: should be turned down according to the customer's row" in said
    assert f"customers: {denied}: the changes do not start from the customer's row" in said
    assert "customers: stranger: the customer is in the table but not in the run" in said
    assert any("data_hash" in line for line in said)


def test_a_customer_table_that_is_gone_or_grown_is_said(audited: Path, run: Path, tmp_path: Path) -> None:
    alter_manifest(run, lambda m: m["inputs"][0].__setitem__(1, 5))
    assert "the table's size has changed since the run" in verify_run(str(run)).notes[0]
    alter_manifest(run, lambda m: m["config"]["customers"].update(data=str(tmp_path / "gone.parquet")))
    assert "no file ending in" in verify_run(str(run)).notes[0]
    alter_manifest(run, lambda m: m["config"]["customers"].update(data="s3://elsewhere/x.parquet"))
    assert "remote" in verify_run(str(run)).notes[0]
