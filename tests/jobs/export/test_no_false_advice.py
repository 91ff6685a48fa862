"""A point that does not work appears nowhere as advice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from robustcf_jobs.export.export import ExportOptions, export_run
from robustcf_jobs.reduce.reduce import reduce_run
from robustcf_jobs.report.report import report_folder
from robustcf_jobs.run.columns import COUNTERFACTUALS
from robustcf_jobs.run.folder import RunFolder, require_run

from tests.helpers.jobworld import customers, make_audit, run_audit

PLANTED = "987654.25"  # a value that no customer has


class _Here:
    """Tasks in this process."""

    def run(self, function: Any, calls: Any) -> Any:
        return ((call, function(*call)) for call in calls)


@pytest.fixture(scope="module")
def planted(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """A run in which the points of ten customers (20 rows) do not reach the score that is required."""
    folder = tmp_path_factory.mktemp("planted")
    methods = [{"name": "naive"}, {"name": "direct-saa", "alpha": 0.2}]
    config = make_audit(folder, customers(150), method=methods, validation=None, training=None)
    assert run_audit(config) == 0
    names: set[str] = set()
    for file in sorted((folder / "run/counterfactuals").iterdir()):
        table = pq.read_table(file)
        rows = table.to_pylist()
        able = list(dict.fromkeys(r["instance_id"] for r in rows if r["changes"]))
        names |= set(able[: 10 - len(names)])
        for k, row in enumerate(r for r in rows if r["instance_id"] in names and r["changes"]):
            row["changes"] = [dict(row["changes"][0], feature="income", before="1.0", after=PLANTED)]
            row["distance"] = row["objective"] = 1e-7
            row["score_after"] = row["threshold"] - 0.01
            row["status"] = ("no_recourse", "optimal", "error")[k % 3]
            row["verified"] = row["status"] != "error"
        pq.write_table(
            pa.Table.from_pylist(rows, COUNTERFACTUALS).replace_schema_metadata(table.schema.metadata), file
        )
    manifest = json.loads((folder / "run/manifest.json").read_text())
    for name, facts in manifest["shards"].items():
        facts["size"] = (folder / "run/counterfactuals" / Path(name).name).stat().st_size
    (folder / "run/manifest.json").write_text(json.dumps(manifest))
    assert len(names) == 10
    return folder / "run", names


def test_planted_points_are_in_no_export(planted: tuple[Path, set[str]], tmp_path: Path) -> None:
    run, names = planted
    export_run(str(run), ExportOptions(str(tmp_path / "all.csv")))
    text = (tmp_path / "all.csv").read_text()
    assert PLANTED not in text
    table = pd.read_csv(tmp_path / "all.csv").set_index("id").loc[sorted(names)]
    for prefix in ("naive", "direct_saa_alpha0_2"):
        for column in ("distance", "score_after", "changes", "reason_codes", "validity_predicted"):
            assert table[f"{prefix}_{column}"].isna().all()
        stuck = table[table[f"{prefix}_status"] == "no_recourse"]
        assert stuck[f"{prefix}_note"].str.contains("no change within the limits reaches a score").all()


def test_planted_points_are_in_no_mean_and_no_page(planted: tuple[Path, set[str]]) -> None:
    run, names = planted
    _, manifest = require_run(str(run))
    summary = reduce_run(RunFolder(str(run)), manifest, _Here()).to_pandas()  # type: ignore[arg-type]
    rows = pd.concat(pd.read_parquet(f) for f in sorted((run / "counterfactuals").iterdir()))
    good = rows[rows["distance"].notna() & ~rows["instance_id"].isin(names)]
    for _, line in summary[summary["cohort"] == ""].iterrows():
        mine = good[good["method"] == line["method"]]
        assert line["n_reached"] == len(mine)
        assert np.isclose(line["distance"], mine["distance"].mean())
    report_folder(str(run))
    assert "987654" not in (run / "report.html").read_text().replace(",", "")
