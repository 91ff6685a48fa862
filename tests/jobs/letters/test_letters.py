"""The files of customers: what they print works, nothing else is printed, and pages fit a phone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from robustcf_jobs.cli import app
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.letters.command import LetterOptions, denied_letters, one_letter
from robustcf_jobs.run.columns import COUNTERFACTUALS
from typer.testing import CliRunner

import robustcf as rc
from robustcf.schema.encode import encode, read_rows
from tests.helpers.browser import Browser, browse
from tests.helpers.jobworld import customers, make_audit, run_audit

EVIL = '<script>alert("x")</script>'
JSON = LetterOptions("json")


@pytest.fixture(scope="module")
def run(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit in which one change must do, so that some customers have no recourse."""
    folder, frame = tmp_path_factory.mktemp("letters"), customers(150)
    frame.loc[0, "customer"] = EVIL
    options = {"alternatives": 3, "method": [{"name": "naive"}, {"name": "direct-saa", "alpha": 0.05}]}
    config = make_audit(folder, frame, validation={"forests": 4}, **options)
    schema = rc.Schema.from_toml(folder / "schema.toml")
    schema = schema.replace("age", action="fixed").with_rules(max_changes=1)
    (folder / "schema.toml").write_text(schema.to_toml())
    assert run_audit(config) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def files(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("files")
    denied_letters(str(run), LetterOptions("json", str(folder)))
    facts = [json.loads(path.read_text()) for path in sorted(folder.iterdir())]
    return {one["customer"]: one for one in facts}


def strict(run: Path) -> pd.DataFrame:
    """The lines of the most demanding method."""
    table = pd.read_parquet(run / "counterfactuals")
    return table[table["method"] == "direct-saa"]


def number(text: str) -> float:
    return float(re.sub(r"[^0-9.-]", "", text.replace(",", "").split(" ")[0]))


def test_every_denied_customer_has_a_file_and_no_one_else(run: Path, files: dict[str, Any]) -> None:
    lines = strict(run)
    denied = lines[~lines["status"].isin(["already_favourable", "invalid_input"])]
    assert set(files) == set(denied["instance_id"])
    assert all(one["method"] == "Direct-SAA, α = 0.05" for one in files.values())
    assert all(one["decision"] == "denied" and one["reasons"] for one in files.values())
    assert all(len(one["reasons"]) <= 4 for one in files.values())


def test_what_is_printed_is_what_the_model_accepts(run: Path, files: dict[str, Any]) -> None:
    """The texts, with their few digits, are read back and scored by scikit-learn."""
    forest, schema = rc.load_forest(run / "forest"), rc.Schema.from_toml(run / "schema.toml")
    rows = pd.read_parquet(run.parent / "customers.parquet").set_index("customer")
    lines = strict(run).set_index(["instance_id", "alternative"])
    shown = 0
    for name, one in files.items():
        for option in one["options"]:
            row = rows.loc[name, list(schema.names)].to_dict()
            for change in option["changes"]:
                feature = schema[change["feature"]]
                row[change["feature"]] = number(change["after"]) if feature.is_number else change["after"]
            read = read_rows(schema, [row])
            score = forest.judge.predict_proba(encode(schema, read.numbers))[0, 1]
            needed = lines.loc[(name, option["alternative"]), "threshold"]
            assert score >= needed - 1e-9
            assert option["score"] == pytest.approx(score)
            assert any("4 models that were retrained" in line for line in option["sure"])
            shown += 1
    assert shown >= 5


def test_a_customer_without_recourse_reads_why_and_no_change(run: Path, files: dict[str, Any]) -> None:
    lines = strict(run)
    stuck = set(lines[lines["status"] == "no_recourse"]["instance_id"])
    assert stuck
    for name in stuck:
        one = files[name]
        assert one["options"] == []
        assert "no change within the limits reaches a score" in one["no_way"]
        assert one["blocked_by"]
        assert one["reasons"]
        text = one_letter(str(run), name, LetterOptions("text"))
        assert "Option" not in text
        assert "This change" not in text
    blocked = [line for name in stuck for line in files[name]["blocked_by"]]
    assert "- at most 1 feature may change" in blocked


def test_immutable_features_are_reasons_and_marked(run: Path, files: dict[str, Any]) -> None:
    everything = [reason for one in files.values() for reason in one["reasons"]]
    assert {r["changeable"] for r in everything if r["feature"] == "age"} == {False}
    name = next(n for n, one in files.items() if any(r["feature"] == "age" for r in one["reasons"]))
    assert "cannot be changed" in one_letter(str(run), name, LetterOptions("text"))
    assert "cannot be changed" in one_letter(str(run), name, LetterOptions("html"))


def test_the_user_sets_codes_order_and_number(run: Path, files: dict[str, Any], tmp_path: Path) -> None:
    name = next(n for n, one in files.items() if len(one["reasons"]) == 4)
    asked = [reason["feature"] for reason in files[name]["reasons"]]
    table = tmp_path / "codes.csv"
    order = list(reversed(asked))
    table.write_text(
        "feature,direction,code,text\n" + "".join(f"{f},any,R{k},words {k}\n" for k, f in enumerate(order))
    )
    options = LetterOptions("json", reasons=str(table), most_reasons=3, in_table_order=True)
    found = json.loads(one_letter(str(run), name, options))["reasons"]
    assert [(r["feature"], r["code"]) for r in found] == list(zip(order, ("R0", "R1", "R2"), strict=False))


def test_a_change_that_does_not_work_is_refused(run: Path, files: dict[str, Any], tmp_path: Path) -> None:
    name = next(n for n, one in files.items() if one["options"])
    forged = tmp_path / "run"
    shutil.copytree(run, forged)
    for file in sorted((forged / "counterfactuals").iterdir()):
        table = pq.read_table(file)
        rows = table.to_pylist()
        for row in rows:
            if row["instance_id"] == name and row["changes"]:
                row["changes"] = [dict(row["changes"][0], feature="months_employed", after="0")]
        made = pa.Table.from_pylist(rows, COUNTERFACTUALS).replace_schema_metadata(table.schema.metadata)
        pq.write_table(made, file)
    options = LetterOptions("json", customers=str(run.parent / "customers.parquet"))
    with pytest.raises(BadInput, match="fails its checks"):
        one_letter(str(forged), name, options)


def test_another_row_of_the_customer_is_refused(run: Path, files: dict[str, Any], tmp_path: Path) -> None:
    name = next(iter(files))
    frame = pd.read_parquet(run.parent / "customers.parquet")
    frame.loc[frame["customer"] == name, "income"] += 10
    frame.to_parquet(tmp_path / "other.parquet")
    with pytest.raises(BadInput, match="name the table with --customers"):
        one_letter(str(run), name, LetterOptions("json", customers=str(tmp_path / "other.parquet")))
    with pytest.raises(BadInput, match="no customer 'nobody'"):
        one_letter(str(run), "nobody", JSON)


def test_the_users_template_is_rendered_and_its_errors_are_one_line(
    run: Path, files: dict[str, Any], tmp_path: Path
) -> None:
    name = next(iter(files))
    own = tmp_path / "own.txt"
    own.write_text("Dear {{ customer }}: {{ reasons[0].text }}, until {{ valid_until }}\n")
    options = LetterOptions("text", template=str(own), valid_until="May")
    assert one_letter(str(run), name, options).endswith("until May")
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("{{ nonsense }}")
    with pytest.raises(BadInput, match="'nonsense' is undefined"):
        one_letter(str(run), name, LetterOptions("text", template=str(wrong)))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browse() as opened:
        yield opened


def test_pages_fit_and_ask_for_nothing(
    run: Path, files: dict[str, Any], tmp_path: Path, browser: Browser
) -> None:
    stuck = next(n for n, one in files.items() if one["no_way"])
    several = max(files, key=lambda n: len(files[n]["options"]))
    for name in (stuck, several, EVIL):
        page = tmp_path / "page.html"
        page.write_text(one_letter(str(run), name, LetterOptions("html", valid_until="31 December 2026")))
        for width in (1280, 390):
            browser.width(width)
            browser.open(page)
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert (browser.requests, browser.complaints) == ([], [])
            assert browser.run("getComputedStyle(document.querySelector('main')).maxWidth") == "704px"
        assert browser.run("document.scripts.length") == 0
        assert name in browser.run("document.title")


def test_the_card_has_figures_seeds_versions_and_hashes(run: Path) -> None:
    result = CliRunner().invoke(app, ["export", str(run), "--card"], catch_exceptions=False)
    assert result.exit_code == 0
    manifest = json.loads((run / "manifest.json").read_text())
    for words in (manifest["forest_hash"], manifest["config_hash"], "Direct-SAA, α = 0.05", "### Limits"):
        assert words in result.output
    assert str(next(iter(manifest["seeds"].values()))[0]) in result.output
    for status, count in manifest["counts"].items():
        assert f"- {status}: {count:,} rows" in result.output


def test_wrong_options_are_refused(run: Path) -> None:
    for arguments, message in (
        (["--card", "--denied"], "choose one of"),
        (["--denied"], "--denied needs --output"),
        (["--customer", "c00001", "--format", "pdf"], "choose html, json or text"),
        (["--customer", "c00001", "--reason-order", "table"], "needs --reasons"),
        ([], "Missing option '--output'"),
    ):
        result = CliRunner().invoke(app, ["export", str(run), *arguments])
        assert result.exit_code == 2
        assert message in result.output


def test_the_built_in_template_is_printed_and_renders(
    run: Path, files: dict[str, Any], tmp_path: Path
) -> None:
    for form in ("html", "text"):
        result = CliRunner().invoke(app, ["export", str(run), "--show-template", "--format", form])
        own = tmp_path / f"own.{form}"
        own.write_text(result.output)
        name = next(iter(files))
        mine = one_letter(str(run), name, LetterOptions(form, template=str(own)))  # type: ignore[arg-type]
        assert mine.split() == one_letter(str(run), name, LetterOptions(form)).split()  # type: ignore[arg-type]


def test_approved_customers_have_a_file_without_advice(run: Path) -> None:
    lines = strict(run)
    approved = lines[lines["status"] == "already_favourable"]["instance_id"].iloc[0]
    facts = json.loads(one_letter(str(run), str(approved), JSON))
    assert (facts["decision"], facts["options"], facts["reasons"]) == ("favourable", [], [])
    assert np.isfinite(facts["score"])
