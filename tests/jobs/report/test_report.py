"""`robustcf report` on real runs, read by a real headless Chromium."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.report.model import is_fully_grown
from robustcf_jobs.report.parts import METHOD, SAMPLE, MethodCounts, PopulationCounts, ReportParts
from robustcf_jobs.report.report import _compared, report_folder
from robustcf_jobs.report.rows import look_at
from robustcf_jobs.report.tables import Summary
from robustcf_jobs.run.folder import RunFolder
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import robustcf as rc
from tests.helpers.browser import Browser, browse
from tests.helpers.jobworld import (
    Command,
    customers,
    make_audit,
    make_forest,
    make_sweep,
    run_audit,
    run_sweep,
)

pytestmark = pytest.mark.usefixtures("local_ray")
EVIL = "<script>document.title = 'pwned'</script>"
PICTURE = '"><img src="http://example.invalid/x.png">'
CUSTOMERS = int(os.environ.get("ROBUSTCF_REPORT_CUSTOMERS", "10000"))


def table(n: int) -> pd.DataFrame:
    """Customers of whom every third has a name that would be a program, and two cannot be read."""
    frame = customers(n)
    frame["customer"] = [f"{EVIL}{i}" if i % 3 == 0 else f"c{i}" for i in range(n)]
    frame["region"] = np.where(np.arange(n) % 10 == 0, PICTURE, "north")
    frame["housing"] = frame["housing"].astype(object)
    frame.loc[[1, 3], "housing"] = EVIL
    return frame


@pytest.fixture(scope="module")
def nights(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nights: the forest and some customers have changed."""
    folder = tmp_path_factory.mktemp("report")
    cohorts = {"customers": {"data": "customers.parquet", "id": "customer", "cohort": ["sex", "region"]}}
    assert run_audit(make_audit(folder / "one", table(200)[:180], **cohorts)) == 0
    make_forest(folder / "two/forest", seed=3)
    frame = table(200)[20:]
    frame.loc[30, "savings"] += 100
    cohorts["previous"] = str(folder / "one/run")  # type: ignore[assignment]
    assert run_audit(make_audit(folder / "two", frame, **cohorts)) == 0
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browse() as opened:
        yield opened


def text_of(run: Path) -> str:
    html = (run / "report.html").read_text(encoding="utf-8")
    body = html[html.index("<body>") : html.index("<script>")]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))


def tile(run: Path, name: str) -> int:
    html = (run / "report.html").read_text(encoding="utf-8")
    found = re.search(rf"<dt>{name}</dt><dd>([\d,]+)</dd>", html)
    assert found is not None
    return int(found[1].replace(",", ""))


def test_the_counts_are_those_of_the_rows(nights: Path) -> None:
    run = nights / "one/run"
    rows = pd.read_parquet(run / "counterfactuals")
    naive, strict = (rows[rows["method"].eq("naive")], rows[rows["alpha"].eq(0.05)])
    denied = ~naive["status"].isin(["already_favourable", "invalid_input"])
    assert tile(run, "customers seen") == 180
    assert tile(run, "denied") == denied.sum() > 10
    assert tile(run, "with recourse") == naive["status"].eq("optimal").sum()
    summary = pd.read_parquet(run / "summary/summary.parquet").query("cohort == '' and alpha == 0.05")
    word = "robust" if summary["validity_reached"].item() >= 0.95 else "strict"
    assert tile(run, f"with {word} recourse") == strict["status"].isin(["optimal", "feasible"]).sum()
    assert tile(run, "proved none") == naive["status"].eq("no_recourse").sum()
    assert tile(run, "unresolved") == 0
    assert "2 unreadable" in text_of(run)


def test_a_customer_is_shown_with_changes_in_own_units(nights: Path) -> None:
    run = nights / "one/run"
    rows = pd.read_parquet(run / "counterfactuals")
    text = text_of(run)
    with_savings = 0
    for changes in rows["changes"].dropna():
        for change in changes:
            if change["feature"] == "savings":
                before, after = (f"{float(change[k]):,.0f}" for k in ("before", "after"))
                before, after = (v if len(v) > 5 else v.replace(",", "") for v in (before, after))
                assert f"Savings {before} EUR → {after} EUR" in text
                with_savings += 1
    assert with_savings > 3
    measured = pd.read_parquet(run / "validation")
    assert f"of {len(measured['valid'].iloc[0])} retrained forests" in text


def test_what_changed_since_last_night(nights: Path) -> None:
    text, manifest = text_of(nights / "two/run"), json.loads((nights / "two/run/manifest.json").read_text())
    assert "The forest has changed ." in text
    assert "The schema is the same" in text
    naive = next(row for row in manifest["survival"] if row["method"] == "naive")
    assert f"Naive {naive['given']} {naive['survived']}" in text
    for words, count in (
        ("only in this run", 20),
        ("only in the previous run", 20),
        ("with changed values", 1),
    ):
        assert f"{words} {count}" in text
    assert "in both, unchanged 159" in text
    before, after = (states(nights / night / "run") for night in ("one", "two"))
    both = before.index.intersection(after.index)
    moved = ((before[both] == "already_favourable") & (after[both] == "optimal")).sum()
    assert moved == 0 or f"favourable denied, with recourse {moved}" in text


def test_runs_are_compared_by_the_strictest_method_that_both_have() -> None:
    mild, strict, stricter = (
        ("naive", None, None, None),
        ("direct-saa", 0.05, None, None),
        ("robust-saa", 0.05, 0.1, None),
    )
    thresholds = {mild: 0.5, strict: 0.586, stricter: 0.667}
    facts = PopulationCounts(methods={key: MethodCounts(threshold=t) for key, t in thresholds.items()})
    found = ReportParts(populations={("customers", 100): facts})

    def earlier(*keys: Any) -> Summary:
        return Summary(tuple(dict(zip(METHOD, key, strict=True)) for key in keys), (), None)

    assert _compared(found, earlier(mild, strict)) == strict
    assert _compared(found, earlier(mild)) == mild
    assert _compared(found, earlier(("robx", None, None, 1.0))) is None


def states(run: Path) -> Any:
    rows = pd.read_parquet(run / "counterfactuals")
    return rows[rows["alpha"].eq(0.05)].set_index("instance_id")["status"]


def test_an_earlier_run_that_is_gone_is_said_to_be(nights: Path, tmp_path: Path) -> None:
    shutil.copytree(nights / "two/run", tmp_path / "run")
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    manifest["config"]["previous"] = str(tmp_path / "gone")
    (tmp_path / "run/manifest.json").write_text(json.dumps(manifest))
    report_folder(str(tmp_path / "run"))
    assert "the previous run cannot be read" in text_of(tmp_path / "run")


def test_the_page_does_not_depend_on_how_the_rows_are_cut(nights: Path, tmp_path: Path) -> None:
    folder = nights / "one"
    shutil.copytree(folder, tmp_path / "again", ignore=shutil.ignore_patterns("run"))
    config = (tmp_path / "again/audit.toml").read_text().replace("rows = 30", "rows = 90")
    (tmp_path / "again/audit.toml").write_text(config)
    assert run_audit(tmp_path / "again/audit.toml") == 0
    one, other = (body(run) for run in (folder / "run", tmp_path / "again/run"))
    assert one == other


def body(run: Path) -> str:
    """Without times, paths, and the digests of the shards."""
    html = (run / "report.html").read_text()
    html = html[html.index('<section id="summary"') : html.index('<section id="trouble"')]
    return re.sub(r'<td class="n">[\d.]+ m?s</td>', "", html)


def test_without_training_rows_validity_is_said_not_to_be_measured(tmp_path: Path) -> None:
    assert run_audit(make_audit(tmp_path, customers(60), training=None)) == 0
    text = text_of(tmp_path / "run")
    assert "Nothing was measured: the run had no training data" in text
    assert "robust recourse" not in text
    assert "Validity was not measured." in text


def test_a_sweep_has_a_section_for_each_size_of_forest(tmp_path: Path, browser: Browser) -> None:
    grid = {"datasets": ["synthetic-credit"], "simulations": 2, "rows": 2, "trees": [5, 10], "depth": 3}
    assert run_sweep(make_sweep(tmp_path, sweep=grid)) == 0
    text = text_of(tmp_path / "run")
    assert text.count("synthetic-credit, 5 trees") >= 2
    assert text.count("synthetic-credit, 10 trees") >= 2
    browser.open(tmp_path / "run/report.html")
    assert not browser.requests
    assert not browser.complaints
    assert browser.run("document.querySelectorAll('details.population').length") == 2
    browser.run("location.hash = 'population-1'")
    assert browser.run(
        "new Promise(d => setTimeout(() => d(document.querySelector('#population-1').open), 50))"
    )


def test_the_command_writes_it_again(nights: Path) -> None:
    page = nights / "one/run/report.html"
    page.unlink()
    code, output = Command("report", str(nights / "one/run")).finish()
    assert code == 0, output
    assert output.strip().endswith(str(page))
    assert page.exists()


def test_what_is_no_run_folder_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a run folder"):
        report_folder(str(tmp_path))


def test_a_report_on_s3_holds_no_credentials(nights: Path) -> None:
    from moto.server import ThreadedMotoServer
    from pyarrow import fs

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        where = f"?scheme=http&endpoint_override=127.0.0.1:{server.get_host_and_port()[1]}&region=us-east-1"
        bucket, _ = fs.FileSystem.from_uri(f"s3://test:hush@bucket/{where}&allow_bucket_creation=true")
        bucket.create_dir("bucket")
        fs.copy_files(str(nights / "one/run"), "bucket/run", destination_filesystem=bucket)
        address = f"s3://test:hush@bucket/run{where}"
        said = report_folder(address)
        page = RunFolder(address).read("report.html").decode()
    finally:
        server.stop()
    assert said.startswith("s3://bucket/run/report.html?")
    assert "hush" not in said + page
    assert re.search("with (robust|strict) recourse", page)


@pytest.mark.parametrize("file", ["counterfactuals/shard-00000.parquet", "summary/summary.parquet"])
def test_a_damaged_run_is_bad_input(nights: Path, tmp_path: Path, file: str) -> None:
    shutil.copytree(nights / "one/run", tmp_path / "run")
    whole = (tmp_path / "run" / file).read_bytes()
    (tmp_path / "run" / file).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match="damaged"):
        report_folder(str(tmp_path / "run"))


def test_the_sample_is_bounded_and_holds_the_same_customers_whatever_the_order(nights: Path) -> None:
    run = RunFolder(str(nights / "one/run"))
    names = [name.split("/")[1] for name in run.names("counterfactuals")]
    assert len(names) > 3
    one, other = look_at(run, names), look_at(run, names[::-1])
    assert one.sample == other.sample
    assert all(len(rows) <= SAMPLE[kind] for kind, rows in one.sample.items())


def test_the_page_asks_for_nothing_and_has_no_error(nights: Path, browser: Browser) -> None:
    for night in ("one", "two"):
        browser.open(nights / night / "run/report.html")
        assert browser.requests == []
        assert browser.complaints == []


def test_a_customer_named_script_is_text(nights: Path, browser: Browser) -> None:
    browser.open(nights / "two/run/report.html")
    names = browser.run("[...document.querySelectorAll('.card h3')].map(e => e.textContent)")
    assert any(name.startswith(EVIL) for name in names)
    assert browser.run("document.title").startswith("Recourse audit")
    assert browser.run("document.scripts.length") == 1
    assert browser.run("document.images.length") == 0
    assert EVIL in browser.run("document.querySelector('#trouble').textContent")
    assert PICTURE in browser.run("document.querySelector('#groups').textContent")


def test_every_figure_has_words(nights: Path, browser: Browser) -> None:
    browser.open(nights / "two/run/report.html")
    figures = browser.run(
        """[...document.querySelectorAll('figure')].map(f => {
            const image = f.querySelector('svg[role=img]');
            const words = image.getAttribute('aria-labelledby').split(' ').map(
                id => document.getElementById(id).textContent);
            return [words[0].length, words[1].length, f.querySelectorAll('details table tbody tr').length];
        })"""
    )
    assert len(figures) >= 7
    assert all(name > 5 and description > 20 and lines for name, description, lines in figures)
    bare = "document.querySelectorAll('svg:not([role=img]):not([aria-hidden])').length"
    assert browser.run(bare) == 0


@pytest.mark.parametrize("width", [320, 375, 768, 1280])
def test_nothing_is_wider_than_the_screen(nights: Path, browser: Browser, width: int) -> None:
    browser.width(width)
    browser.open(nights / "two/run/report.html")
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.width(1280)


def test_the_keyboard_reaches_search_and_pages(nights: Path, browser: Browser) -> None:
    browser.open(nights / "two/run/report.html")
    shown = "[...document.querySelectorAll('.card')].filter(c => c.offsetParent).map(c => c.textContent)"
    first = browser.run(shown)
    assert len(first) == 5
    tab_to(browser, "next")
    browser.press("Enter")
    second = browser.run(shown)
    assert second
    assert not set(first) & set(second)
    assert "page 2 of" in browser.run("document.querySelector('#where').textContent")
    browser.run("document.activeElement.blur()")
    tab_to(browser, "search")
    browser.write("zzz-nobody")
    assert browser.run(shown) == []
    assert browser.run("document.querySelector('#nobody').offsetParent !== null")
    browser.run("document.querySelector('#search').value = ''")
    browser.write("script")
    found = browser.run(shown)
    assert found
    assert all("<script>" in card for card in found)


def tab_to(browser: Browser, identity: str) -> None:
    for _ in range(80):
        browser.press("Tab")
        if browser.run("document.activeElement.id") == identity:
            return
    pytest.fail(f"80 tabs do not reach {identity}")


def test_without_a_script_everyone_is_shown_and_on_paper_only_a_page(nights: Path, browser: Browser) -> None:
    shown = (
        "[...document.querySelectorAll('.card')].filter(c => getComputedStyle(c).display !== 'none').length"
    )
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(nights / "two/run/report.html")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    everyone = browser.run("document.querySelectorAll('.card').length")
    assert browser.run(shown) == everyone > 5
    browser.open(nights / "two/run/report.html")
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.run(shown) == 5
    assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.call("Emulation.setEmulatedMedia", media="")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_customers_open_in_two_seconds(tmp_path: Path, browser: Browser) -> None:
    """The best of three, from the request to the end of the load event."""
    config = make_audit(tmp_path, table(CUSTOMERS), shard={"seconds": 20.0})
    assert run_audit(config) == 0
    page = tmp_path / "run/report.html"
    seconds = [browser.open(page) for _ in range(3)]
    sys.stdout.write(json.dumps({"customers": CUSTOMERS, "bytes": page.stat().st_size, "seconds": seconds}))
    assert browser.requests == []
    assert browser.complaints == []
    assert min(seconds) < 2.0


def test_a_default_forest_is_recognised_as_fully_grown(tmp_path: Path) -> None:
    for n, (model, grown) in enumerate(
        [
            (RandomForestClassifier(5), True),
            (RandomForestClassifier(5, min_samples_leaf=5), False),
            (BaggingClassifier(DecisionTreeClassifier(), 3), True),
            (BaggingClassifier(DecisionTreeClassifier(max_depth=3), 3), False),
        ]
    ):
        data = rc.datasets.synthetic_credit(200, seed=0)
        folder = tmp_path / str(n)
        rc.save_forest(rc.Forest.from_sklearn(model.fit(data.encode(data.X), data.y)), folder / "forest")
        assert is_fully_grown(RunFolder(str(folder))) == grown
    assert not is_fully_grown(RunFolder(str(tmp_path / "sweep")))
