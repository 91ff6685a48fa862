"""The tutorial runs as printed: its Python, its files, its commands, in order and in an empty folder."""

import csv
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from robustcf_jobs.cli import app
from typer.testing import CliRunner

from tests.helpers.jobworld import ROOT

PAGE = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def run(commands: str) -> str:
    """What the commands print; each begins with `$ robustcf`, and `\\` carries it to the next line."""
    printed = ""
    for line in commands.replace("\\\n", " ").splitlines():
        prompt, program, *arguments = shlex.split(line)
        assert (prompt, program) == ("$", "robustcf"), line
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        printed += result.output
    return printed


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_the_tutorial_runs_from_model_to_report(
    local_ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed, ran = "", 0
    for language, text in BLOCKS:
        match language:
            case "python":
                exec(compile(text, "tutorial.md", "exec"), {"__name__": "tutorial"})
            case "toml":
                named = re.match(r"# (\w+\.toml)\n", text)
                assert named is not None, text
                (tmp_path / named[1]).write_text(text, encoding="utf-8")
            case "console":
                printed = run(text)
                ran += text.count("$ robustcf")
            case "text":
                said = iter(lines(printed))
                for line in lines(text):
                    assert line in said, f"{line!r} is not printed, or not there:\n{printed}"
            case other:
                raise AssertionError(f"a block in {other}")
    assert ran == 6
    assert "</html>" in (tmp_path / "run/report.html").read_text(encoding="utf-8")
    with (tmp_path / "advice.csv").open(newline="", encoding="utf-8") as file:
        (advice,) = [row for row in csv.DictReader(file) if row["id"] == "c329"]
    assert advice["decision"] == "denied"
    assert "R2; R1" in advice.values()

    # The table of prices is that of this run.
    with (tmp_path / "run/summary/summary.csv").open(newline="", encoding="utf-8") as file:
        found = [
            (row["alpha"], f"{100 * float(row['validity']):.0f} %", f"{float(row['distance']):.3f}")
            for row in csv.DictReader(file)
            if not row["cohort"]
        ]
    table = re.findall(
        r"^\| (?:Naive|Direct-SAA, α = ([\d.]+)) \| (\d+ %) \| ([\d.]+) \|$", PAGE, re.MULTILINE
    )
    assert len(table) == 3
    assert sorted(table) == sorted(found)
