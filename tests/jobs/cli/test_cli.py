"""The command line: what it prints, what it refuses, and with which exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from robustcf_jobs.cli import app, main
from typer.testing import CliRunner

ROOT = Path(__file__).parents[3]
TYPED = "Age,Pay,Job,Good\nD,N,C,B\nINC,FREE,FREE,PREDICT\n"


@pytest.fixture(autouse=True)
def no_data_sets_at_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROBUSTCF_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def typed_csv(folder: Path) -> Path:
    path = folder / "Staff.csv"
    rows = [f"{20 + i},{1000 + 37.5 * i},{'cook' if i % 3 else 'clerk'},{int(i > 20)}" for i in range(40)]
    path.write_text(TYPED + "\n".join(rows) + "\n")
    return path


def test_demo_explains_and_shows_what_retraining_does() -> None:
    output = run("demo", "--customers", "2", "--retrain", "2", "--seed", "1")
    for words in ("rejected", "Naive", "Direct-SAA, α = 0.05", "proved nearest", "of 2", "all 2 customers"):
        assert words in output


def test_explain_prints_the_change_in_own_units() -> None:
    output = run("explain", "synthetic-credit", "--row", "804", "--naive", "--trees", "20")
    for words in ("row 804", "decision 0", "from", "to", "proved nearest", "distance"):
        assert words in output


def test_explain_reads_a_typed_csv_and_gives_full_precision(tmp_path: Path) -> None:
    path = typed_csv(tmp_path)
    output = run("explain", str(path), "--row", "3", "--alpha", "0.2", "--alpha", "0.05", "--json")
    record = json.loads(output)
    assert (record["dataset"], record["row"]) == ("staff", 3)
    assert [answer["alpha"] for answer in record["answers"]] == [0.2, 0.05]
    for answer in record["answers"]:
        assert answer["status"] in ("optimal", "no_recourse")
        assert answer["verified"]


def test_explain_certifies_if_asked() -> None:
    arguments = (
        "explain",
        "synthetic-credit",
        "--row",
        "804",
        "--trees",
        "10",
        "--alpha",
        "0.2",
        "--no-menu",
    )
    plain = run(*arguments)
    assert "--certify asks for one" in plain
    output = " ".join(run(*arguments, "--certify").split())
    assert "--certify asks for one" not in output
    claimed = (
        "a forest retrained on the same data with 10 trees accepts this point with probability at least 0.8"
    )
    assert f"✓ certified: with confidence 0.95 over the certification forests, {claimed}" in output


def test_explain_lets_the_certificates_of_several_alphas_hold_together() -> None:
    arguments = ["explain", "synthetic-credit", "--row", "804", "--trees", "10", "--no-menu", "--json"]
    arguments += ["--alpha", "0.2", "--alpha", "0.3", "--joint"]
    answers = json.loads(run(*arguments, "--certify"))["answers"]
    assert [answer["method"] for answer in answers] == ["direct-saa"] * 2 + ["certified"] * 2
    assert [answer["certificate"] for answer in answers[:2]] == [None, None]
    for alpha, answer in zip((0.2, 0.3), answers[2:], strict=True):
        found = answer["certificate"]
        assert found["certified"]
        assert (found["forests"], found["alpha"], found["delta"], found["tests"]) == (100, alpha, 0.025, 2)
        claimed = f"accepts this point with probability at least {1 - alpha:g}"
        assert f"{claimed}; all 2 certificates hold together with confidence 0.95" in found["text"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "--joint needs --certify" in result.output


def test_explain_is_reproducible() -> None:
    arguments = ("explain", "synthetic-credit", "--row", "804", "--trees", "20", "--json")
    first, second = (json.loads(run(*arguments))["answers"][0] for _ in range(2))
    for answer in (first, second):
        del answer["seconds"], answer["nodes"]
    assert first == second


def test_a_wanted_label_that_is_there_already_is_said_so() -> None:
    output = run("explain", "synthetic-credit", "--row", "804", "--target", "0", "--trees", "20")
    assert "already favourable" in output


def test_datasets_are_listed_and_described(tmp_path: Path) -> None:
    output = run("datasets", "list")
    assert "synthetic-credit" in output
    assert "students-performance" in output
    assert "fetch NAME" in output
    output = run("datasets", "describe", "synthetic-credit")
    assert "13 features" in output
    assert "months_employed" in output
    assert "0 to 10,000 EUR" in output
    assert "Pay" in run("datasets", "describe", str(typed_csv(tmp_path)))


BAD_INPUT = {
    "explain nope --row 1": "no data set is called 'nope'",
    "explain german-credit --row 1": "robustcf datasets fetch german-credit",
    "explain nothing.csv --row 1": "nothing.csv: cannot be read",
    "explain {tests}/test_cli.py --row 1": "test_cli.py, line",
    "explain synthetic-credit": "Missing option '--row'",
    "explain synthetic-credit --row 1000": "its rows are 0 to 999",
    "explain synthetic-credit --row -1": "--row",
    "explain synthetic-credit --row one": "--row",
    "explain synthetic-credit --row 1 --alpha 0.7": "alpha is 0.7",
    "explain synthetic-credit --row 1 --alpha 0": "alpha is 0",
    "explain synthetic-credit --row 1 --alpha nan": "alpha is nan",
    "explain synthetic-credit --row 1 --trees 0": "--trees",
    "explain synthetic-credit --row 1 --trees 5 --solver magic": "no solver 'magic'",
    "explain synthetic-credit --row 1 --trees 5 --time-limit 0": "time_limit is 0",
    "explain synthetic-credit --row 1 --trees 5 --target 7": "no class 7",
    "datasets describe nope": "no data set is called 'nope'",
    "datasets fetch nope": "no data set is called 'nope'",
    "datasets fetch synthetic-credit": "built in",
    "demo --customers 0": "--customers",
    "nonsense": "nonsense",
}


@pytest.mark.parametrize("command", BAD_INPUT)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(command.replace("{tests}", str(Path(__file__).parent)).split())
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1, captured.err
    assert BAD_INPUT[command] in captured.err


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [("30,1.5,cook,1\n", "1 rows"), ("30,1.5,cook,1\n40,2.5,cook,1\n", "only the class 1")],
)
def test_data_that_trains_no_forest_is_refused(
    tmp_path: Path, rows: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.csv"
    path.write_text(TYPED + rows)
    with pytest.raises(SystemExit) as stopped:
        main(["explain", str(path), "--row", "0"])
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_real_process_behaves_and_its_help_needs_nothing_heavy() -> None:
    def process(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        environment = os.environ | {"PYTHONIOENCODING": "utf-8"}
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
        )

    done = process("-m", "robustcf_jobs.cli", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("robustcf")
    done = process("-m", "robustcf_jobs.cli", "explain", "nope", "--row", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    heavy = "{'sklearn', 'pandas', 'numba', 'ray', 'pydantic', 'numpy', 'pyarrow'}"
    code = f"import sys, robustcf_jobs.cli; sys.exit(bool({heavy} & {{*sys.modules}}))"
    assert process("-c", code).returncode == 0
