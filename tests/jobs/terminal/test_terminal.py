"""Words from anyone's data on a terminal: they are shown, and do nothing."""

import json
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from robustcf_jobs.cli import main
from robustcf_jobs.terminal.printing import console
from sklearn.tree import DecisionTreeClassifier

import robustcf as rc
from robustcf.datasets import read_typed_csv

COMMANDS = "\x1b[31mRED\x1b]0;title\x07\x9b2J\u202e\x7f\x08"
MARKUP = "[bold]no[/b] [/] [link=https://evil]x[/link] :smile:"


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A typed CSV whose name, columns and categories are commands and markup."""
    path = tmp_path / f"{COMMANDS} [bold].csv"
    rng = np.random.default_rng(0)
    lines = [f"Age,Job {COMMANDS},Town {MARKUP},Class", "D,C,C,B", "INC,FREE,FREE,PREDICT"]
    for _ in range(200):
        age, job, town = (
            rng.integers(20, 60),
            rng.choice([f"a{COMMANDS}", "b", "c"]),
            rng.choice([MARKUP, "d", "e"]),
        )
        lines.append(f"{age},{job},{town},{MARKUP if age > 40 and job == 'b' else '[/x]'}")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def said(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    return "".join(outputs(capfd, *arguments, code=code))


def outputs(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    out, err = capfd.readouterr()
    assert end.value.code == code, err
    text = out + err
    odd = {c for c in text if c not in "\n\t" and (unicodedata.category(c) == "Cc" or c == "\u202e")}
    assert odd == set()
    return out, err


def test_data_cannot_command_the_terminal_nor_dress_up(
    evil: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    described = said(capfd, "datasets", "describe", str(evil))
    explained = said(capfd, "explain", str(evil), "--row", "3", "--trees", "5")
    for text in (described, explained):
        assert "�[31mRED�]0;title" in text
    assert MARKUP in described
    console().print(f"decision {MARKUP}")
    assert capfd.readouterr().out == f"decision {MARKUP}\n"


def test_json_says_the_same_in_plain_characters(evil: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record = json.loads(said(capfd, "explain", str(evil), "--row", "3", "--trees", "5", "--json"))
    assert f"Job {COMMANDS}" in {change["feature"] for change in record["answers"][0]["changes"]}


def test_a_complaint_is_one_line_of_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / f"{COMMANDS}\n[/b].csv")
    text = said(capfd, "explain", missing, "--row", "0", code=2)
    assert text.startswith("robustcf: ")
    assert text.count("\n") == 1


def test_a_schema_file_with_such_words_is_read_back(
    evil: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = read_typed_csv(evil)
    model = DecisionTreeClassifier(max_depth=2).fit(data.encode(data.X), data.y)
    rc.save_forest(rc.Forest.from_sklearn(model), tmp_path / "forest")
    pd.DataFrame(data.X).to_parquet(tmp_path / "rows.parquet")
    names = [str(tmp_path / "forest"), str(tmp_path / "rows.parquet")]
    printed, _ = outputs(capfd, "schema", *names)
    said(capfd, "schema", *names, "--output", str(tmp_path / "schema.toml"))
    (tmp_path / "printed.toml").write_text(printed, encoding="utf-8")
    read = rc.Schema.from_toml(tmp_path / "schema.toml")
    assert read.names == data.schema.names
    assert read == rc.Schema.from_toml(tmp_path / "printed.toml")
