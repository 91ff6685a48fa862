"""A method of another package: one file and one entry point, and every part of the product knows it."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd

from tests.helpers.jobworld import ROOT, Command, customers, make_audit

TOY = str(ROOT / "tests/helpers/toy_method")
ASKED = {"name": "fixed-threshold", "score": [0.55, 0.65]}


def test_explainer_answers_a_new_method() -> None:
    program = """
import toy_method, robustcf as rc
from sklearn.ensemble import RandomForestClassifier
data = rc.datasets.synthetic_credit(300, seed=0)
model = RandomForestClassifier(15, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
explainer = rc.Explainer(rc.Forest.from_sklearn(model), data.schema, toy_method.FixedThreshold(0.6), target=1)
found = [cf for cf in explainer.explain_many(data.X[:40]) if cf.status == "optimal"]
print(len(found), min(cf.score for cf in found), found[0].method.title)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": TOY}, capture_output=True, text=True, check=True
    )
    count, least, title = done.stdout.split(maxsplit=2)
    assert int(count) > 3
    assert float(least) >= 0.6 - 1e-9
    assert title.strip() == "Fixed threshold, score = 0.6"


def test_a_new_method_works_in_a_config_the_report_and_verify(tmp_path: Path) -> None:
    config = make_audit(tmp_path, customers(30), method=[{"name": "naive"}, ASKED], shard={"rows": 30})
    code, output = Command("audit", str(config), "--cpus", "2", PYTHONPATH=TOY).finish()
    assert code == 0, output
    rows = pd.read_parquet(tmp_path / "run/counterfactuals").query("method == 'fixed-threshold'")
    assert set(rows["parameter"]) == {0.55, 0.65}
    given = rows[rows["status"] == "optimal"]
    assert len(given)
    assert (given["score_after"] >= given["parameter"] - 1e-9).all()
    assert "Fixed threshold, score = 0.55" in (tmp_path / "run/report.html").read_text()
    code, output = Command("verify", str(tmp_path / "run"), PYTHONPATH=TOY).finish()
    assert code == 0, output
    assert "not checked: the threshold of fixed-threshold" in output
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    manifest["answer_keys"][1]["key"] = "0" * 64
    (tmp_path / "run/manifest.json").write_text(json.dumps(manifest))
    assert Command("verify", str(tmp_path / "run"), PYTHONPATH=TOY).finish()[0] == 1
