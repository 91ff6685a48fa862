"""An audit at a cut-off of 0.7: rows, validation, certificates and `verify` agree on it."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from robustcf_jobs.inputs.config import AuditConfig, read_config
from robustcf_jobs.inputs.errors import BadInput

import robustcf as rc
from robustcf.thresholds import p_star
from tests.helpers.jobworld import customers, make_audit, run_audit
from tests.helpers.verifyworld import alter_rows, found

pytestmark = pytest.mark.usefixtures("local_ray")
METHODS = [
    {"name": "naive"},
    {"name": "direct-saa", "alpha": [0.2]},
    {"name": "certified", "alpha": 0.2, "delta": 0.2, "forests": 20, "pool": 20, "pilot": 100},
]


@pytest.fixture(scope="module")
def finished(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cutoff")
    config = make_audit(folder, customers(24), method=METHODS, validation={"forests": 3})
    text = config.read_text()
    assert "[model]" in text
    config.write_text(text.replace("[model]", "[model]\ncutoff = 0.7", 1))
    assert run_audit(config) == 0
    return folder


def test_rows_and_validation_use_the_cutoff(finished: Path) -> None:
    rows = pd.read_parquet(finished / "run/counterfactuals")
    forest = rc.load_forest(finished / "run/forest")
    read = rows[rows["status"] != "invalid_input"]
    assert set(read["cutoff"]) == {0.7}
    done = read["status"] == "already_favourable"
    assert done.any()
    assert not done.all()
    assert ((read["score_before"] >= 0.7) == done).all()
    reached = read[read["status"] == "optimal"]
    assert (reached["score_after"] >= 0.7).all()
    assert len(reached)
    assert (reached[reached["method"] == "direct-saa"]["threshold"] == p_star(len(forest), 0.2, 0.7)).all()
    assert forest.decision == rc.Forest.decided_at(forest, 1, 0.7).decision
    assert "at least 0.7" in (finished / "run/report.html").read_text()


def test_verify_accepts_the_run_and_finds_another_cutoff(finished: Path, tmp_path: Path) -> None:
    assert found(finished / "run") == []
    shutil.copytree(finished / "run", tmp_path / "run")

    def lower(rows: list[dict[str, Any]]) -> dict[str, Any]:
        row = next(r for r in rows if r["status"] == "optimal")
        row["cutoff"] = 0.5
        return row

    alter_rows(tmp_path / "run", lower)
    assert any("cutoff: stored 0.5, recomputed 0.7" in line for line in found(tmp_path / "run"))


def test_a_bad_cutoff_is_one_clear_line(finished: Path, tmp_path: Path) -> None:
    text = (finished / "audit.toml").read_text()
    for wrong in ("cutoff = 1.2", "cutoff = 1", 'cutoff = "high"'):
        (tmp_path / "audit.toml").write_text(text.replace("cutoff = 0.7", wrong))
        with pytest.raises(BadInput, match="cutoff"):
            read_config(AuditConfig, tmp_path / "audit.toml")
