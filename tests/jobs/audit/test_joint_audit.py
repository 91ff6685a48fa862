"""Audits and sweeps with `joint = true`: all certificates of the run hold together."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.verify.command import lines
from robustcf_jobs.verify.run import verify_run

from robustcf.certificate.bounds import forests_needed, granting_forests, lower_bound
from tests.helpers.certifiedworld import CERTIFIED, make_certified
from tests.helpers.forger import Forger, Row
from tests.helpers.jobworld import customers, make_audit, make_sweep, run_audit, run_sweep, same_rows
from tests.helpers.verifyworld import found

pytestmark = pytest.mark.usefixtures("local_ray")
JOINT: dict[str, Any] = {"alpha": [0.3, 0.2], "forests": 40, "joint": True}
TESTS = 12  # 6 rejected customers and 2 methods


@pytest.fixture(scope="module")
def night(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certified(tmp_path_factory.mktemp("joint"), "soft", **JOINT).parent


def manifest_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "manifest.json").read_text())


def certificates(run: Path) -> pd.DataFrame:
    rows = pd.read_parquet(run / "counterfactuals").query("method == 'certified'")
    return rows[rows["certificate_forests"].notna()].reset_index(drop=True)


def test_every_certificate_has_its_share_of_delta(night: Path) -> None:
    run = night / "run"
    rows = pd.read_parquet(run / "counterfactuals").query("method == 'certified'")
    assert (rows["status"] != "already_favourable").sum() == TESTS
    assert manifest_of(run)["joint_tests"] == TESTS
    given = certificates(run)
    assert given["certified"].any()
    for one in given.itertuples():
        assert one.certificate_delta == 0.05 / TESTS
        assert one.certificate_low == lower_bound(one.certificate_agree, 40, 0.05 / TESTS)
        assert one.certified == (one.certificate_low >= 1 - one.alpha)


def test_the_report_says_that_all_certificates_hold_together(night: Path) -> None:
    html = (night / "run/report.html").read_text(encoding="utf-8")
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))
    together = (
        "δ is divided among 12 certificates, so all 12 certificates hold together with confidence 0.95."
    )
    assert said.count(together) == 2  # one line per method


def test_verify_finds_nothing_in_an_honest_run(night: Path) -> None:
    done = verify_run(str(night / "run"))
    assert done.findings.total == 0, lines(done)


def test_a_resumed_run_keeps_the_number(night: Path, tmp_path: Path) -> None:
    run = night / "run"
    shutil.copytree(run, tmp_path / "whole")
    sorted((run / "counterfactuals").iterdir())[0].unlink()
    (run / "manifest.json").write_text(json.dumps(manifest_of(run) | {"state": "running"}))
    assert run_audit(night / "audit.toml") == 0
    same_rows(tmp_path / "whole", run)
    assert manifest_of(run)["joint_tests"] == TESTS
    assert set(certificates(run)["certificate_delta"]) == {0.05 / TESTS}


def test_a_forged_number_is_found(night: Path, tmp_path: Path, local_ray: Any) -> None:
    shutil.copytree(night / "run", tmp_path / "run")
    Forger(tmp_path / "run", local_ray).manifest(lambda m: m.update(joint_tests=1))
    said = found(tmp_path / "run", customers=False)
    assert any("manifest.json: joint_tests: stored 1, recomputed 12" in line for line in said), said


@pytest.mark.parametrize("forged", ["number", "number and customers", "config"])
def test_a_larger_share_of_delta_is_found(night: Path, tmp_path: Path, local_ray: Any, forged: str) -> None:
    """The forger divides δ by too small a number, everywhere in the run."""
    shutil.copytree(night / "run", tmp_path / "run")
    forger = Forger(tmp_path / "run", local_ray)

    def larger(rows: list[Row]) -> None:
        for row in rows:
            if row["certificate_forests"] is not None:
                bound = lower_bound(row["certificate_agree"], 40, 0.05 / 2)
                row |= {"certificate_delta": 0.05 / 2, "certificate_low": bound}
                row["certified"] = bound >= 1 - row["alpha"]

    def fewer(manifest: dict[str, Any]) -> None:
        manifest["joint_tests"] = 2
        if forged == "number and customers":
            manifest["plan"]["denied"] = 1
        if forged == "config":
            del manifest["joint_tests"]
            manifest["config"]["method"][1] |= {"joint": False, "tests": 2}

    forger.rows(larger)
    forger.manifest(fewer)
    said = found(tmp_path / "run", customers=False)
    wanted = {
        "number": "delta: stored 0.025, recomputed 0.00416",
        "number and customers": "manifest.json: plan.denied: stored 1, recomputed 6",
        "config": "manifest.json: answer_keys",
    }[forged]
    assert any(wanted in line for line in said), said


def test_too_few_forests_are_refused_before_any_training(tmp_path: Path) -> None:
    method = CERTIFIED | JOINT | {"alpha": 0.2, "forests": 20}
    with pytest.raises(BadInput) as caught:
        run_audit(make_audit(tmp_path, customers(80), method=[method]))
    message = caught.value.format_message()
    counted = re.search(r"joint = true with (\d+) rejected customers: forests is 20; ", message)
    assert counted is not None, message
    each = 0.05 / int(counted.group(1))
    needed, enough = forests_needed(0.2, each), granting_forests(0.2, each)[0]
    assert f"at least {needed} forests are needed; about {enough} grant nearly all" in message
    assert "at a true validity of 0.99" in message
    assert "\n" not in message
    assert not list((tmp_path / "run").rglob("*.zip"))
    assert not (tmp_path / "run/counterfactuals").exists()


def test_joint_methods_share_one_delta(tmp_path: Path) -> None:
    methods = [CERTIFIED | JOINT | {"alpha": 0.2, "delta": delta} for delta in (0.05, 0.1)]
    with pytest.raises(BadInput, match=r"joint methods have delta = 0.05 and delta = 0.1; they share one"):
        run_audit(make_audit(tmp_path, customers(20), method=methods))


def test_only_joint_methods_share(tmp_path: Path) -> None:
    """A method without `joint` keeps its whole δ and does not count."""
    alone = CERTIFIED | {"alpha": 0.3, "forests": 40}
    config = make_audit(tmp_path, customers(40), method=[alone | {"alpha": 0.2, "joint": True}, alone])
    assert run_audit(config) == 0
    run = tmp_path / "run"
    denied = manifest_of(run)["plan"]["denied"]
    assert denied > 1
    assert manifest_of(run)["joint_tests"] == denied
    given = certificates(run)
    assert set(given.query("alpha == 0.2")["certificate_delta"]) == {0.05 / denied}
    assert set(given.query("alpha == 0.3")["certificate_delta"]) == {0.05}
    done = verify_run(str(run))
    assert done.findings.total == 0, lines(done)


def test_a_sweep_counts_its_rows(tmp_path: Path, local_ray: Any) -> None:
    method = [{"name": "naive"}, CERTIFIED | JOINT | {"alpha": 0.2}]
    assert run_sweep(make_sweep(tmp_path, method=method)) == 0
    run = tmp_path / "run"
    assert manifest_of(run)["joint_tests"] == 6  # 3 simulations of 2 rows
    assert set(certificates(run)["certificate_delta"]) == {0.05 / 6}
    done = verify_run(str(run))
    assert done.findings.total == 0, lines(done)
    Forger(run, local_ray).manifest(lambda m: m.update(joint_tests=3))
    assert any("joint_tests: stored 3, recomputed 6" in line for line in lines(verify_run(str(run))))
    with pytest.raises(BadInput, match=r"joint = true with 6 explained rows: forests is 14; .* at least 22"):
        run_sweep(make_sweep(tmp_path / "few", method=[method[1] | {"forests": 14}]))
    assert not (tmp_path / "few/run").exists()
