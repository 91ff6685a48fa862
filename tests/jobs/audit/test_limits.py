"""Limits on an audit's figures: exit code, alarms.json, terminal, report, and what `verify` recomputes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from robustcf_jobs.inputs.config import AuditConfig, config_hash, read_config
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.run.figures import Counted, figures
from robustcf_jobs.terminal.printing import print_counts

from tests.helpers.jobworld import customers, make_audit, run_audit, write_config
from tests.helpers.verifyworld import alter_manifest, found

LIMITS: dict[str, Any] = {
    "validity": {"warn": 1.0, "fail": 1.0},
    "without_recourse": {"warn": 1.0},
    "unproved": {"warn": 0.0, "fail": 0.0},
    "group_difference": {"warn": 0.5},
    "seconds": {"warn": 0.001, "fail": 3600},
}


def test_the_levels_of_a_limit_must_be_in_order(tmp_path: Path) -> None:
    config = make_audit(tmp_path, customers(3))
    wrong = {
        "validity": ({"warn": 0.8, "fail": 0.9}, "limits: validity: must be high, so warn must be at least"),
        "survival": ({"warn": 0.8, "fail": 0.9}, "limits: survival: must be high"),
        "unproved": ({"warn": 0.2, "fail": 0.1}, "limits: unproved: must be low, so warn must be at most"),
        "seconds": ({"warn": 20, "fail": 10}, "warn = 20, fail = 10"),
        "without_recourse": ({}, "give warn, fail or both"),
        "group_difference": ({"warn": 5}, "group_difference: warn must be at most 1, not 5"),
        "validty": ({"warn": 0.5}, "unknown key 'validty'; allowed keys: validity, without_recourse"),
    }
    for name, (limit, said) in wrong.items():
        with pytest.raises(BadInput) as caught:
            read_config(AuditConfig, make_audit(tmp_path, customers(3), limits={name: limit}))
        assert said in caught.value.format_message(), name
    for name, needs in (("survival", "a previous run"), ("validity", r"\[training\]")):
        with pytest.raises(BadInput, match=f"limits: {name} needs {needs}"):
            read_config(
                AuditConfig, make_audit(tmp_path, customers(3), limits={name: {"warn": 0.5}}, training=None)
            )
    bare = config_hash(read_config(AuditConfig, make_audit(tmp_path, customers(3))))
    limited = make_audit(tmp_path, customers(3), limits={"validity": {"warn": 0.92, "fail": 0.85}})
    assert config_hash(read_config(AuditConfig, limited)) == bare, "limits decide no row"
    assert config.exists()


def test_a_broken_limit_ends_with_exit_code_3_and_is_named_everywhere(
    local_ray: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    method = [{"name": "naive"}, {"name": "direct-saa", "alpha": 0.2}]
    config = make_audit(tmp_path, customers(60), method=method, limits=LIMITS)
    assert run_audit(config) == 3
    run = tmp_path / "run"
    alarms = json.loads((run / "alarms.json").read_text())
    states = {a["figure"]: a["state"] for a in alarms["alarms"]}
    assert alarms["state"] == "fail"
    assert alarms["method"] == "Direct-SAA, α = 0.2"
    assert states["validity"] == "fail"
    assert states["unproved"] == "ok"
    assert states["seconds"] == "warn"
    by_figure = {a["figure"]: a for a in alarms["alarms"]}
    rows = pd.read_parquet(run / "counterfactuals").query("method == 'direct-saa'")
    denied = rows[~rows["status"].isin(["already_favourable", "invalid_input"])]
    assert by_figure["without_recourse"]["value"] == pytest.approx((denied["status"] == "no_recourse").mean())
    valid = pd.read_parquet(run / "validation").query("method == 'direct-saa'")["valid"]
    assert by_figure["validity"]["value"] == pytest.approx(valid.explode().mean())
    print_counts(str(run))
    said = capsys.readouterr().out
    assert "! FAIL: validity after retraining:" in said
    assert "! WARN: run time:" in said
    summary = (run / "report.html").read_text().split('id="summary-h"')[1]
    assert summary.index("Limit broken") < summary.index("The model denied")
    assert "the limit that fails is at least 100 %" in summary
    assert not found(run)

    forged = json.loads((run / "alarms.json").read_text())
    forged["alarms"][0]["state"] = "ok"
    (run / "alarms.json").write_text(json.dumps(forged))
    assert any(line.startswith("alarms: alarms.json: validity") for line in found(run))

    write_config(config, _config(tmp_path) | {"limits": {"without_recourse": {"fail": 1.0}}})
    assert run_audit(config) == 0, "the same run with other limits: nothing is solved again"
    assert json.loads((run / "alarms.json").read_text())["state"] == "ok"
    assert not found(run)
    write_config(config, {k: v for k, v in _config(tmp_path).items() if k != "limits"})
    assert run_audit(config) == 0
    assert not (run / "alarms.json").exists()
    (run / "alarms.json").write_text("{}")
    assert found(run) == ["alarms: alarms.json: the run has no limits"]


def _config(folder: Path) -> dict[str, Any]:
    import tomllib

    return tomllib.loads((folder / "audit.toml").read_text())


def test_a_figure_that_cannot_be_measured_breaks_its_limit(local_ray: Any, tmp_path: Path) -> None:
    """A night on which nothing could be measured must not look like a good night."""
    frame = customers(60)
    config = make_audit(tmp_path, frame, method=[{"name": "naive"}], limits={"group_difference": {"fail": 1}})
    assert run_audit(config) == 3
    (alarm,) = json.loads((tmp_path / "run/alarms.json").read_text())["alarms"]
    assert (alarm["value"], alarm["state"]) == (None, "fail")
    assert "no group, or not 30 denied customers" in alarm["about"]
    assert "not measured" in (tmp_path / "run/report.html").read_text()
    alter_manifest(tmp_path / "run", lambda m: m["config"]["limits"].pop("group_difference"))
    assert "alarms: alarms.json: the run has no limits" in found(tmp_path / "run")


def test_only_a_difference_that_chance_does_not_explain_raises_an_alarm() -> None:
    key = ("direct-saa", 0.05, None, None)

    def of(cohort: str, value: str, denied: int, reached: int) -> Counted:
        return Counted(key, cohort, value, denied, reached, denied, 0.6)

    whole = Counted(key, "", "", 200, 160, 200, 0.6, {"bootstrap": 0.9, "same-data": 0.95})
    _, alike = figures([whole, of("sex", "a", 100, 78), of("sex", "b", 100, 82)], {})
    assert alike["group_difference"].value == 0.0
    assert alike["validity"].value == 0.9
    assert alike["validity"].about == "scenario bootstrap"
    _, apart = figures([whole, of("sex", "a", 100, 60), of("sex", "b", 100, 100)], {})
    assert 0.2 < (apart["group_difference"].value or 0) < 0.4
    assert apart["group_difference"].about.startswith("sex ")
    _, small = figures([whole, of("sex", "a", 29, 0)], {})
    assert small["group_difference"].value is None
    naive = ("naive", None, None, None)
    certified = ("certified", 0.1, None, None)
    watched, _ = figures(
        [Counted(k, "", "", 1, 1, 1, t) for k, t in ((naive, 0.5), (key, 0.6), (certified, 0.5))], {}
    )
    assert watched == certified
