"""Audits with the method "certified": their tables, report, export, resumed runs and previous runs."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from robustcf_jobs.export.export import ExportOptions, export_run
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.reduce.partial import merge, partial_of
from robustcf_jobs.report.rows import look_at
from robustcf_jobs.report.tables import Summary, population
from robustcf_jobs.run.columns import CERTIFICATE
from robustcf_jobs.run.folder import RunFolder
from robustcf_jobs.terminal.printing import print_counts

from robustcf.certificate.bounds import forests_needed, lower_bound
from robustcf.certificate.certificate import claim
from tests.helpers.jobworld import (
    customers,
    make_audit,
    make_forest,
    make_sweep,
    rows,
    run_audit,
    run_sweep,
    same_rows,
)

pytestmark = pytest.mark.usefixtures("local_ray")
CERTIFIED = {"name": "certified", "alpha": [0.3, 0.2], "forests": 20, "pool": 30, "pilot": 60}
SETTINGS: dict[str, Any] = {
    "method": [{"name": "naive"}, {"name": "direct-saa", "alpha": 0.2}, CERTIFIED],
    "validation": {"forests": 4, "scenarios": ["same-data", "trees-5"]},
    "shard": {"rows": 20},
}
SLUG = "certified_alpha0_2_parameter0_05"


@pytest.fixture(scope="module")
def night(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certified")
    assert run_audit(make_audit(folder, customers(80), **SETTINGS)) == 0
    return folder


def certified(run: Path, alpha: float | None = None) -> pd.DataFrame:
    """The rows with a certificate."""
    found = pd.read_parquet(run / "counterfactuals").query("method == 'certified'")
    table = found[found["certificate_forests"].notna()].reset_index(drop=True)
    return table if alpha is None else table[table["alpha"] == alpha]


def text_of(run: Path) -> str:
    html = (run / "report.html").read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html[html.index("<body>") : html.index("<script>")]))


def test_rows_hold_what_the_certification_forests_said(night: Path) -> None:
    found = certified(night / "run")
    assert len(found) > 20
    assert found["certified"].mean() > 0.5
    for row in found.itertuples():
        assert row.certificate_forests == 20
        assert row.certificate_low == lower_bound(row.certificate_agree, 20, 0.05)
        assert row.certified == (row.certificate_low >= 1 - row.alpha)


def test_the_summary_counts_certificates_and_what_validation_measured(night: Path) -> None:
    run = night / "run"
    summary = pd.read_parquet(run / "summary/summary.parquet")
    new = ["validity_reached_low", "validity_reached_high", "n_certified", "held", "held_low", "held_high"]
    assert list(summary.columns[-7:]) == [*new, "threshold"]
    valid = pd.read_parquet(run / "validation")
    whole = summary[(summary["cohort"] == "") & (summary["method"] == "certified")]
    assert len(whole) == 4
    for line in whole.itertuples():
        own = certified(run, line.alpha)
        names = own.loc[own["certified"], "instance_id"]
        assert line.n_certified == len(names)
        pairs = valid.query("method == 'certified' and alpha == @line.alpha and scenario == @line.scenario")
        mine = np.concatenate(pairs[pairs["instance_id"].isin(names)]["valid"].tolist())
        assert line.held == pytest.approx(mine.mean(), abs=1e-15)
        assert line.held_low <= line.held <= line.held_high
        assert line.validity_reached_low <= line.validity_reached <= line.validity_reached_high
    groups = summary[(summary["cohort"] == "sex") & (summary["method"] == "certified")]
    same = groups[groups["scenario"] == "same-data"].groupby("alpha")["n_certified"].sum()
    assert (
        same.to_dict() == whole[whole["scenario"] == "same-data"].set_index("alpha")["n_certified"].to_dict()
    )
    others = summary[summary["method"] != "certified"]
    assert others[["n_certified", "held", "held_low", "held_high"]].isna().all(axis=None)


def test_the_counts_of_certificates_do_not_depend_on_the_shards(night: Path) -> None:
    run = RunFolder(str(night / "run"))
    names = sorted(p.name for p in (night / "run/counterfactuals").iterdir())
    assert len(names) > 1
    whole, parts = partial_of(run, names, ["sex"], 4, True), {}
    for name in reversed(names):
        merge(parts, partial_of(run, [name], ["sex"], 4, True))
    assert whole == parts


def test_runs_of_versions_without_certificates_are_summarised_and_reported(
    night: Path, tmp_path: Path
) -> None:
    shutil.copytree(night / "run", tmp_path / "run")
    folder, names = RunFolder(str(tmp_path / "run")), []
    for path in sorted((tmp_path / "run/counterfactuals").iterdir()):
        table = pq.read_table(path)
        pq.write_table(table.drop_columns([field.name for field in CERTIFICATE.values()]), path)
        names.append(path.name)
    summary = pq.read_table(tmp_path / "run/summary/summary.parquet")
    pq.write_table(summary.select(summary.column_names[:-7]), tmp_path / "run/summary/summary.parquet")
    total = partial_of(folder, names, [], 4, True)
    assert sum(part.points for part in total.values()) > 20
    assert {part.certified for part in total.values()} == {0}
    found, lines = look_at(folder, names), Summary.read(folder)
    (place,) = found.populations
    people = population("customers", place, found.populations[place], lines, None)
    direct = next(m for m in people.methods if m.title == "Direct-SAA, α = 0.2")
    assert direct.promised.value is not None
    assert not direct.falls_short  # without an interval, nothing is significant
    assert {m.certificates.certified for m in people.methods if m.certificates} == {0}


def test_a_sweep_reports_its_certificates(tmp_path: Path) -> None:
    grid = {"datasets": ["synthetic-credit"], "simulations": 2, "rows": 3, "trees": [10], "depth": 3}
    method = [{"name": "naive"}, CERTIFIED | {"alpha": 0.2}]
    assert run_sweep(make_sweep(tmp_path, sweep=grid, method=method)) == 0
    found = certified(tmp_path / "run")
    assert len(found) > 2
    summary = pd.read_parquet(tmp_path / "run/summary/summary.parquet").query("method == 'certified'")
    assert set(summary["n_certified"]) == {found["certified"].sum()}
    assert f"Each certificate claims: {claim(0.2, 0.05, 'same-data', 10)}." in text_of(tmp_path / "run")


def test_the_report_sets_certificates_against_validation(night: Path) -> None:
    run = night / "run"
    text = text_of(run).replace("\u00a0", " ")
    summary = pd.read_parquet(run / "summary/summary.parquet")
    own = summary[(summary["cohort"] == "") & (summary["scenario"] == "same-data")]
    for alpha in (0.3, 0.2):
        (line,) = own[(own["method"] == "certified") & (own["alpha"] == alpha)].itertuples()
        title = f"Certified, α = {alpha}, δ = 0.05"
        cells = f"{title} {line.n_reached} {line.n_certified:.0f} "
        assert cells in text
        assert text.count(f"Each certificate claims: {claim(alpha, 0.05, 'same-data', 15)}.") == 1
    assert f"{line.n_certified:.0f} of {line.n_reached} are certified" in text
    assert "held, same-data" in text
    assert "with certified recourse" in text
    found = certified(run)
    assert text.count(" certification forests agree; lower bound") == len(found)


def test_the_terminal_says_what_was_measured(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_counts(str(night / "run"))
    said = capsys.readouterr().out
    assert re.search(r"Direct-SAA, α = 0.2: measured \d+\.\d % \(.* to .*\), target 80 %", said)
    assert re.search(r"Certified, α = 0.2, δ = 0.05: \d+ of \d+ certified; measured .* target 80 %", said)
    assert "Naive: measured" not in said


def test_export_has_the_certificates_after_all_other_columns(night: Path, tmp_path: Path) -> None:
    assert export_run(str(night / "run"), ExportOptions(str(tmp_path / "wide.parquet"))) == 80
    wide = pd.read_parquet(tmp_path / "wide.parquet")
    names = ["certified", "certificate_agree", "certificate_forests", "certificate_low"]
    assert list(wide.columns[-4:]) == [f"{SLUG}_{name}" for name in names]
    assert wide.columns[-9] == f"{SLUG}_reason_texts"  # 8 new columns, for two methods
    wide = wide.set_index("id")
    found = certified(night / "run", 0.2).set_index("instance_id")
    stored = found[names]
    exported = wide.loc[found.index, [f"{SLUG}_{name}" for name in names]]
    assert exported.to_numpy().tolist() == stored.to_numpy().tolist()
    assert wide.drop(found.index)[f"{SLUG}_certified"].isna().all()
    only = ExportOptions(str(tmp_path / "naive.parquet"), methods=("naive",))
    export_run(str(night / "run"), only)
    assert not [c for c in pd.read_parquet(tmp_path / "naive.parquet") if "certif" in c]


@pytest.mark.parametrize(
    ("method", "model", "words"),
    [
        ({"test": "trees"}, {}, "method 'certified': test 'trees' needs hard votes and two classes"),
        ({"test": "trees-asymptotic"}, {"voting": "hard"}, "test 'trees-asymptotic' is for soft votes"),
        ({"forests": 10, "alpha": 0.2}, {}, "forests is 10; at alpha = 0.2 and delta = 0.05, at least 14"),
        ({"tests": 5, "forests": 40}, {}, "certificates; set tests = "),
    ],
    ids=["trees", "asymptotic", "forests", "tests"],
)
def test_a_certificate_that_cannot_be_is_refused_before_any_training(
    tmp_path: Path, method: dict[str, Any], model: dict[str, Any], words: str
) -> None:
    asked = SETTINGS | {"method": [CERTIFIED | method]}
    asked["model"] = {"forest": "forest", "schema": "schema.toml", "favourable": 1} | model
    with pytest.raises(BadInput) as caught:
        run_audit(make_audit(tmp_path, customers(80), **asked))
    message = caught.value.format_message()
    assert words in message
    assert "\n" not in message
    assert not list((tmp_path / "run").rglob("*.zip"))
    assert not (tmp_path / "run/counterfactuals").exists()


def test_too_few_shared_tests_say_how_many_and_how_many_forests(tmp_path: Path) -> None:
    method = CERTIFIED | {"tests": 5, "alpha": [0.3, 0.2], "forests": 40}
    with pytest.raises(BadInput) as caught:
        run_audit(make_audit(tmp_path, customers(80), **(SETTINGS | {"method": [method]})))
    found = re.search(
        r"tests is 5, but (\d+) rejected customers and 2 certified methods make up to (\d+) certificates; "
        r"set tests = (\d+), which needs at least (\d+) forests",
        caught.value.format_message(),
    )
    assert found is not None
    denied, made, tests, forests = map(int, found.groups())
    assert made == tests == 2 * denied
    assert forests == forests_needed(0.3, 0.05 / made)


def test_a_sweep_refuses_a_test_that_does_not_fit_its_votes(tmp_path: Path) -> None:
    method = [{"name": "certified", "alpha": 0.2, "test": "trees"}]
    with pytest.raises(BadInput, match="test 'trees' needs hard votes"):
        run_sweep(make_sweep(tmp_path, method=method))
    method = [{"name": "certified", "alpha": 0.2, "tests": 2}]
    with pytest.raises(BadInput, match=r"6 explained rows and 1 certified method make up to 6 certificates"):
        run_sweep(make_sweep(tmp_path, method=method))
    assert not (tmp_path / "run").exists()


def times(run: Path) -> dict[str, int]:
    return {str(p.relative_to(run)): p.stat().st_mtime_ns for p in sorted((run / "fresh").rglob("*.zip"))}


def test_a_stopped_run_goes_on_with_its_forests(night: Path, tmp_path: Path) -> None:
    """Fresh forests are not trained again; a deleted one is, to the same bytes."""
    shutil.copytree(night / "run", tmp_path / "whole")
    run = night / "run"
    before = times(run)
    assert len(before) == 2 + 4 + 20
    lost = run / "fresh/same-data-20-30-60/certification-0003.zip"
    content = lost.read_bytes()
    lost.unlink()
    sorted((run / "counterfactuals").iterdir())[0].unlink()
    about = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(about | {"state": "running"}))
    assert run_audit(night / "audit.toml") == 0
    after = times(run)
    assert {name for name in after if after[name] != before[name]} == {str(lost.relative_to(run))}
    assert lost.read_bytes() == content
    same_rows(tmp_path / "whole", run)


def test_an_altered_forest_is_trained_again(night: Path, tmp_path: Path) -> None:
    shutil.copytree(night / "run", tmp_path / "whole")
    run = night / "run"
    broken = run / "fresh/same-data-20-30-60/certification-0004.zip"
    content = broken.read_bytes()
    broken.write_bytes(content[:1000])
    sorted((run / "counterfactuals").iterdir())[0].unlink()
    assert run_audit(night / "audit.toml") == 0
    assert broken.read_bytes() == content
    same_rows(tmp_path / "whole", run)


def test_certified_answers_are_copied_with_their_certificates(night: Path, tmp_path: Path) -> None:
    config = make_audit(tmp_path, customers(80), previous=str(night / "run"), **SETTINGS)
    assert run_audit(config) == 0
    same_rows(night / "run", tmp_path / "run")
    copied = certified(tmp_path / "run").query("status == 'optimal'")
    assert len(copied) > 10
    assert (copied["seconds"] == 0).all()


@pytest.mark.parametrize("change", ["seed", "forests"])
def test_certificates_for_other_forests_are_not_copied(night: Path, tmp_path: Path, change: str) -> None:
    other: dict[str, Any] = {"seed": 2}
    if change == "forests":
        other = {"method": [*SETTINGS["method"][:2], CERTIFIED | {"forests": 21}]}
    config = make_audit(tmp_path, customers(80), previous=str(night / "run"), **(SETTINGS | other))
    assert run_audit(config) == 0
    assert (certified(tmp_path / "run")["seconds"] > 0).all()
    naive = rows(tmp_path / "run").query("method == 'naive' and status == 'optimal'")
    stored = pd.read_parquet(tmp_path / "run/counterfactuals").query("method == 'naive'")
    assert (stored[stored["instance_id"].isin(naive["instance_id"])]["seconds"] == 0).all()


def test_certified_answers_are_never_kept(night: Path, tmp_path: Path) -> None:
    """A point that the new forest accepts has no certificate about its retraining."""
    make_forest(tmp_path / "forest", seed=9)
    earlier = str(night / "run")
    config = make_audit(tmp_path, customers(80), previous=earlier, keep_valid=True, **SETTINGS)
    assert run_audit(config) == 0
    stored = pd.read_parquet(tmp_path / "run/counterfactuals")
    kept = stored[stored["reason"].fillna("").str.contains("kept from the previous run")]
    assert "direct-saa" in set(kept["method"])
    assert "certified" not in set(kept["method"])
    assert (certified(tmp_path / "run")["seconds"] > 0).all()
