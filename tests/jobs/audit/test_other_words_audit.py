"""An audit of customers with words that the encoder ignores: complete, and confirmed by `verify`."""

from pathlib import Path

import pandas as pd
import pytest
from robustcf_jobs.verify.auditor import Auditor
from robustcf_jobs.verify.command import lines
from robustcf_jobs.verify.run import verify_run

from tests.helpers.byoworld import synthetic, write_files
from tests.helpers.jobworld import run_audit


@pytest.mark.usefixtures("local_ray")
def test_customers_with_new_words_are_explained_and_verified(tmp_path: Path) -> None:
    X, y = synthetic()
    write_files(tmp_path, X, y, 40, validation={"forests": 1})
    table = pd.read_csv(tmp_path / "customers.csv")
    table.loc[::3, "housing"] = "castle"
    table.to_csv(tmp_path / "customers.csv", index=False)
    assert run_audit(tmp_path / "audit.toml") == 0
    rows = pd.read_parquet(tmp_path / "run/counterfactuals")
    assert set(rows["status"]) <= {"optimal", "no_recourse", "already_favourable"}
    mine = rows[rows["instance_id"].isin([f"c{i}" for i in range(0, 40, 3)])]
    assert (mine["status"] == "optimal").any()
    changes = [c for made in mine["changes"].dropna() for c in made if c["feature"] == "housing"]
    assert all(c["before"] == "castle" for c in changes)
    done = verify_run(str(tmp_path / "run"), Auditor())
    assert done.findings.total == 0, lines(done)
