"""Audits of three classes, by plurality and one against rest: rows, report and `verify` agree."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from robustcf_jobs.inputs.config import AuditConfig, config_hash, read_config
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.verify.auditor import Auditor
from robustcf_jobs.verify.claims import Claims
from robustcf_jobs.verify.command import lines
from robustcf_jobs.verify.run import verify_run
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from tests.helpers.jobworld import customers, make_audit, run_audit
from tests.helpers.verifyworld import alter_rows, found

pytestmark = pytest.mark.usefixtures("local_ray")


def three_grades() -> tuple[rc.datasets.Dataset, np.ndarray]:
    """The embedded credit data, with a third class between the two."""
    data = rc.datasets.synthetic_credit(300, seed=0)
    X = data.encode(data.X)
    grade = np.where(data.y == 1, 2, 0)
    near = np.argsort(np.abs(X[:, 0] - np.median(X[:, 0])), kind="stable")[:90]
    grade[near] = 1
    return data, grade


@pytest.fixture(scope="module")
def runs(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    data, grade = three_grades()
    made = {}
    for rule in ("plurality", "one-against-rest"):
        folder = tmp_path_factory.mktemp(rule)
        model = RandomForestClassifier(15, max_depth=3, random_state=0).fit(data.encode(data.X), grade)
        rc.save_forest(rc.Forest.from_sklearn(model), folder / "forest")
        asked = {"forest": "forest", "schema": "schema.toml", "favourable": 2}
        if rule != "plurality":  # which is the default
            asked["decision"] = rule
        config = make_audit(
            folder,
            customers(24),
            model=asked,
            method=[{"name": "naive"}, {"name": "direct-saa", "alpha": 0.2}],
        )
        data.X.assign(repaid=grade).to_parquet(folder / "training.parquet")
        assert run_audit(config) == 0
        made[rule] = folder
    return made


def test_the_default_is_what_predict_does(runs: dict[str, Path]) -> None:
    tables = {rule: pd.read_parquet(folder / "run/counterfactuals") for rule, folder in runs.items()}
    naive = {rule: t[(t["method"] == "naive") & (t["status"] == "optimal")] for rule, t in tables.items()}
    assert tables["plurality"]["cutoff"].isna().all()
    assert (tables["one-against-rest"]["cutoff"].dropna() == 0.5).all()
    assert (naive["plurality"]["score_after"] < 0.5).any()
    assert (naive["one-against-rest"]["score_after"] > 0.5).all()
    robust = [t[(t["method"] == "direct-saa") & (t["status"] == "optimal")] for t in tables.values()]
    assert all((t["score_after"] > 0.5).all() and len(t) for t in robust)
    assert "one of 3 classes with the highest score" in (runs["plurality"] / "run/report.html").read_text()
    assert "one against rest" in (runs["one-against-rest"] / "run/report.html").read_text()


@pytest.mark.parametrize("rule", ["plurality", "one-against-rest"])
def test_verify_accepts_both_runs(runs: dict[str, Path], rule: str) -> None:
    assert found(runs[rule] / "run") == []
    claims = Claims(8, attack=True, seed=1, limit=30.0)
    done = verify_run(str(runs[rule] / "run"), Auditor(), claims)
    assert done.findings.total == 0, lines(done)
    assert any(line.startswith("resolve: 8 of ") and " 0 refuted" in line for line in done.challenges)


def test_verify_finds_a_point_that_another_class_wins(runs: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(runs["plurality"] / "run", tmp_path / "run")

    def forge(rows: list[dict[str, Any]]) -> dict[str, Any]:
        row = next(r for r in rows if r["method"] == "naive" and r["status"] == "optimal")
        row["cutoff"] = 0.5
        return row

    alter_rows(tmp_path / "run", forge)
    assert any("the highest score decides" in line for line in found(tmp_path / "run"))


def test_a_decision_that_does_not_exist_is_one_clear_line(runs: dict[str, Path], tmp_path: Path) -> None:
    config = runs["one-against-rest"] / "audit.toml"
    text = config.read_text()
    for new, words in (('"most"', "decision"), ('"plurality"\ncutoff = 0.4', "no cutoff")):
        (tmp_path / "audit.toml").write_text(text.replace('"one-against-rest"', new))
        with pytest.raises(BadInput, match=words):
            read_config(AuditConfig, tmp_path / "audit.toml")
    hashes = [config_hash(read_config(AuditConfig, f / "audit.toml")) for f in runs.values()]
    assert hashes[0] != hashes[1]
