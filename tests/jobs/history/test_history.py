"""`robustcf history` on the nights of a synthetic bank, with drift and two retrainings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from robustcf_jobs.cli import main
from robustcf_jobs.history.find import nights_of
from robustcf_jobs.history.history import history
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.run.previous import GIVEN
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from tests.helpers.browser import Browser, browse
from tests.helpers.jobworld import customers, make_audit, run_audit
from tests.helpers.verifyworld import alter_manifest

METHODS = [{"name": "naive"}, {"name": "direct-saa", "alpha": 0.2}]
LIMITS = {"without_recourse": {"warn": 0.9}}


def bank(folder: Path, nights: int) -> tuple[int, int]:
    """Audits of the same customers, whose savings fall night by night; the numbers of the retrainings."""
    training = rc.datasets.synthetic_credit(300, seed=0)
    retrained = (nights // 3, 2 * nights // 3)
    frame, forest = customers(60), 0
    for night in range(nights):
        place = folder / f"night-{night:02d}"
        if night in retrained:
            forest += 1
        rows = training.encoded[forest * 40 :], training.y[forest * 40 :]
        model = RandomForestClassifier(15, max_depth=3, random_state=forest).fit(*rows)
        rc.save_forest(rc.Forest.from_sklearn(model), place / "forest")
        frame = frame.assign(income=frame["income"] - 500 // nights, savings=frame["savings"] * 0.9)
        previous = str(folder / f"night-{night - 1:02d}/run") if night else None
        changes: dict[str, Any] = {"method": METHODS, "limits": LIMITS, "validation": {"forests": 2}}
        changes |= {"shard": {"rows": 60}, "previous": previous}
        assert run_audit(make_audit(place, frame, **changes)) == 0
    return retrained


@pytest.fixture(
    scope="module", params=[5, pytest.param(20, marks=pytest.mark.slow)], ids=["5 nights", "20 nights"]
)
def nights(local_ray: Any, tmp_path_factory: pytest.TempPathFactory, request: Any) -> tuple[Path, Any, int]:
    folder = tmp_path_factory.mktemp("bank")
    return folder, bank(folder, request.param), request.param


@pytest.fixture(scope="module")
def made(nights: tuple[Path, Any, int]) -> Path:
    folder, _, count = nights
    history(
        [str(folder / f"night-{night:02d}/run") for night in reversed(range(count))], str(folder / "page")
    )
    return folder / "page"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browse() as opened:
        yield opened


def test_the_table_has_every_night_and_method(nights: tuple[Path, Any, int], made: Path) -> None:
    folder, retrained, count = nights
    table = pd.read_parquet(made / "history.parquet")
    assert len(table) == count * len(METHODS)
    strict = table[table["strictest"]]
    assert set(strict["method"]) == {"direct-saa"}
    assert list(strict["run"]) == [str(folder / f"night-{k:02d}/run") for k in range(count)]
    assert list(strict["position"]) == list(range(1, count + 1)), "in the order of their beginning"
    assert tuple(strict["position"][strict["model_changed"] == True] - 1) == retrained  # noqa: E712
    assert set(strict["schema_change"].dropna()) == {""}
    assert strict["data_changed"].iloc[1:].all()
    assert strict["denied"].iloc[-1] > strict["denied"].iloc[0], "the customers have drifted"
    assert set(strict["alarms"]) == {"ok"}
    for name in ("denial_rate", "without_recourse", "validity", "distance"):
        assert (strict[f"{name}_low"] <= strict[name]).all()
        assert (strict[name] <= strict[f"{name}_high"]).all()


def test_each_broken_promise_has_its_customer_and_the_retraining_that_broke_it(
    nights: tuple[Path, Any, int], made: Path
) -> None:
    folder, retrained, _ = nights
    broken, table = (pd.read_parquet(made / f"{name}.parquet") for name in ("broken", "history"))
    wanted = []
    for night in retrained:
        before, after = (folder / f"night-{k:02d}/run" for k in (night - 1, night))
        rows = pd.read_parquet(before / "counterfactuals")
        rows = rows[rows["status"].isin(GIVEN)]
        forest = rc.load_forest(after / "forest")
        accepted = forest.predict(pd.DataFrame(rows["point"].tolist()).to_numpy()) == forest.class_index(1)
        wanted += [(r.instance_id, r.method, str(before), str(after)) for r in rows[~accepted].itertuples()]
        own = table[table["position"] == night + 1].set_index("method")
        for method, given in rows.groupby("method").size().items():
            assert own.loc[method, "promises_given"] == given
    columns = ["instance_id", "method", "promised_by", "broken_by"]
    assert sorted(map(tuple, broken[columns].to_numpy())) == sorted(wanted)
    assert len(wanted) > 0
    assert table["promises_broken"].sum() == len(wanted)
    survived = table[table["position"].isin([k + 1 for k in retrained])]
    kept = 1 - survived["promises_broken"] / survived["promises_given"]
    assert kept.to_numpy() == pytest.approx(survived["survival"].to_numpy()), "as each run itself recorded"


def test_the_page_marks_both_retrainings_and_names_the_customers(
    nights: tuple[Path, Any, int], made: Path
) -> None:
    _, _, count = nights
    html = (made / "history.html").read_text()
    assert f"History of {count} audits" in html
    assert "the model changed 2 times" in html
    broken = pd.read_parquet(made / "broken.parquet")
    for customer in sorted(broken[broken["method"] == "direct-saa"]["instance_id"])[:1]:
        assert customer in html.split('id="promises-h"')[1]
    assert html.count('class="change"') == 2 * html.count("<figure>")


@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_the_page_without_overflow_or_a_message(
    made: Path, browser: Browser, width: int
) -> None:
    browser.width(width)
    browser.open(made / "history.html")
    assert browser.requests == []
    assert browser.complaints == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    unnamed = (
        "[...document.querySelectorAll('svg[role=img]')].filter(s => !s.getAttribute('aria-labelledby'))"
    )
    assert browser.run(f"{unnamed}.length") == 0


def test_a_folder_of_runs_and_what_is_refused(
    nights: tuple[Path, Any, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, (retrained, _), _ = nights
    for night in (0, 1):
        shutil.copytree(folder / f"night-{retrained + night:02d}/run", tmp_path / f"runs/{night}")
    assert [night.run.address for night in nights_of([str(tmp_path / "runs")])] == [
        str(tmp_path / "runs/0"),
        str(tmp_path / "runs/1"),
    ]
    with pytest.raises(SystemExit) as ended:
        main(["history", str(tmp_path / "runs"), "--output", str(tmp_path / "out")])
    assert ended.value.code == 0
    assert "out/history.html" in capsys.readouterr().out
    assert "No model changed" in (tmp_path / "out/history.html").read_text()
    alter_manifest(tmp_path / "runs/1", lambda m: m.update(state="running"))
    assert len(nights_of([str(tmp_path / "runs")])) == 1
    assert "left out, because the run is not complete" in capsys.readouterr().err
    with pytest.raises(BadInput, match="is a run folder; choose another --output"):
        history([str(tmp_path / "runs")], str(tmp_path / "runs/0"))
    with pytest.raises(BadInput, match="no complete audit found"):
        history([str(tmp_path / "nowhere")], str(tmp_path / "out"))
    manifest = json.loads((tmp_path / "runs/0/manifest.json").read_text())
    assert manifest["began"] > 0


def test_a_run_of_an_older_version_has_a_place_in_the_history(
    nights: tuple[Path, Any, int], tmp_path: Path
) -> None:
    """Runs of robustcf 0.2 noted neither when they began nor how long they took."""
    folder, _, _ = nights
    for night in (0, 1):
        shutil.copytree(folder / f"night-{night:02d}/run", tmp_path / f"runs/{night}")
    for key in ("began", "seconds", "alarms"):
        alter_manifest(tmp_path / "runs/0", lambda m, k=key: m.pop(k))
    table = pd.read_parquet(tmp_path / "runs/0/summary/summary.parquet").drop(columns="threshold")
    table.to_parquet(tmp_path / "runs/0/summary/summary.parquet")
    history([str(tmp_path / "runs")], str(tmp_path / "out"))
    made = pd.read_parquet(tmp_path / "out/history.parquet")
    assert list(made["run"].unique()) == [str(tmp_path / "runs/0"), str(tmp_path / "runs/1")]
