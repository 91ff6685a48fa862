"""The benchmark runs end to end on embedded data, resumes, and notices a wrong answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from robustcf_benchmarks.agree import disagreements
from robustcf_benchmarks.bench import present
from robustcf_benchmarks.cases import PLAUSIBLE, Case, realise
from robustcf_benchmarks.contenders import PROVED
from robustcf_benchmarks.options import Options, options_of
from robustcf_benchmarks.store import read
from robustcf_jobs.cli import app, main

CONTENDERS = ["ours", "ours-grid", "incumbent", "highs-reduced"]
SMALL = ["--data", "synthetic-credit", "--trees", "20", "--depth", "3", "--rows", "1", "--alphas", "0.05"]


def run(arguments: list[str]) -> int | str | None:
    """The exit code of `robustcf bench`."""
    with pytest.raises(SystemExit) as ended:
        main(["bench", *arguments])
    return ended.value.code


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench")
    assert run([*SMALL, "--limit", "30", "--out", str(out), "--contenders", *CONTENDERS]) == 0
    return out


def _records(folder: Path) -> list[dict]:
    return [r for r in read(folder / "measurements.jsonl") if r["status"] != "setup"]


def test_measures_every_contender_at_every_threshold(folder: Path) -> None:
    records = _records(folder)
    expected = {(c, m) for c in CONTENDERS for m in ("naive", "0.05")}
    assert {(r["contender"], r["method"]) for r in records} == expected
    assert all(r["status"] in PROVED for r in records if r["contender"] != "incumbent")
    assert all(r["seconds"] > 0 for r in records)


def test_writes_tables_and_plots(folder: Path) -> None:
    for name in ("times.csv", "ratios.csv", "incumbents.csv", "bars.csv", "setup.csv", "disagreements.txt"):
        assert (folder / name).exists(), name
    assert all((folder / name).stat().st_size > 5000 for name in ("times.png", "ratios.png"))


def test_goes_on_where_it_was_interrupted(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "measurements.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run.json").write_text((folder / "run.json").read_text())
    path = tmp_path / "measurements.jsonl"
    path.write_text("".join(lines[:3]) + lines[3][:20])  # the last line was cut short
    assert run([*SMALL, "--limit", "30", "--out", str(tmp_path), "--contenders", *CONTENDERS]) == 0
    assert path.read_text().startswith("".join(lines[:3]))
    assert len(_records(tmp_path)) == len(_records(folder))


def test_refuses_to_mix_measurements_of_different_settings(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*SMALL, "--limit", "7", "--out", str(folder), "--contenders", "ours"]) == 2
    assert "a different limit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"objective": 1e-5}, "highs-reduced optimal 1e-05"),
        ({"status": "no_recourse", "objective": None}, "highs-reduced no_recourse"),
        ({"status": "feasible", "lower_bound": 9.0}, "highs-reduced bounds by 9.0"),
        ({"contender": "treecf", "status": "feasible", "objective": 1e-5}, "treecf feasible 1e-05"),
        ({"contender": "incumbent", "objective": 1e-5}, "incumbent"),
    ],
)
def test_a_wrong_answer_is_a_disagreement(folder: Path, change: dict, said: str) -> None:
    wrong, _ = disagreements(pd.DataFrame(_with_change(folder, change)))
    assert len(wrong) == 1
    assert said in wrong[0]


def _with_change(folder: Path, change: dict) -> list[dict]:
    """The measurements with one answer of HiGHS changed, or given to another contender."""
    records = _records(folder)
    answer = next(r for r in records if r["contender"] == "highs-reduced")
    kept = records if "contender" in change else [r for r in records if r is not answer]
    return [*kept, answer | change]


def test_a_wrong_objective_fails_the_run(folder: Path, tmp_path: Path) -> None:
    records = _with_change(folder, {"objective": 1e-5})
    (tmp_path / "measurements.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    assert run(["--summary-only", "--out", str(tmp_path)]) == 1
    assert "highs-reduced optimal 1e-05" in (tmp_path / "disagreements.txt").read_text()


def test_a_peer_that_proves_more_than_the_optimum_is_only_noted(folder: Path) -> None:
    records = _records(folder)
    records.append(records[0] | {"contender": "oceanpy", "status": "optimal", "objective": 9.0})
    wrong, notes = disagreements(pd.DataFrame(records))
    assert wrong == []
    assert len(notes) == 1


def test_peers_that_are_not_installed_are_left_out_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    options = Options(contenders=("ours", "treecf", "oceanpy"), peer_python="/no/python")
    assert present(options) == ["ours"]
    assert "oceanpy skipped" in capsys.readouterr().out


def test_frozen_features_leave_some_without_recourse_and_all_agree(tmp_path: Path) -> None:
    asked = ["--suite", "frozen", "--extra-rows", "4", "--contenders", "ours", "highs-full"]
    assert run([*SMALL, *asked, "--out", str(tmp_path)]) == 0
    statuses = {r["status"] for r in _records(tmp_path)}
    assert statuses == {"optimal", "no_recourse"}


def test_plausible_methods_are_compared_too(tmp_path: Path) -> None:
    asked = [
        "--suite",
        "plausible",
        "--extra-rows",
        "1",
        "--contenders",
        "ours",
        "highs-full",
        "highs-reduced",
    ]
    assert run([*SMALL, *asked, "--out", str(tmp_path)]) == 0
    records = _records(tmp_path)
    assert {(r["contender"], r["method"]) for r in records} == {
        (c, m) for c in ("ours", "highs-reduced") for m in PLAUSIBLE
    }
    assert all(r["status"] in PROVED for r in records)


def test_an_unknown_data_set_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--data", "nowhere", "--contenders", "ours", "--out", str(tmp_path)]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_customers_were_held_out_and_come_from_both_sides() -> None:
    world = realise(Case("synthetic-credit", trees=5, depth=3))
    customers = world.customers(6)
    assert {c.target for c in customers} == set(world.forest.classes)
    assert len({c.row for c in customers}) == 6
    for c in customers:
        assert world.model.predict(c.encoded[None])[0] != c.target


def parsed(*arguments: str) -> dict[str, Any]:
    command = typer.main.get_command(app).commands["bench"]  # type: ignore[attr-defined]
    found: dict[str, Any] = command.make_context("bench", list(arguments)).params
    return found


def test_list_options_take_several_values_one_after_another_or_repeated() -> None:
    for arguments in (
        ["--suite", "frozen", "main", "--rows", "4", "--contenders", "ours", "highs-full", "--fresh"],
        ["--suite", "frozen", "--rows=4", "--fresh", "--suite=main", "--contenders=ours", "highs-full"],
    ):
        found = parsed(*arguments)
        assert list(found["suite"]) == ["frozen", "main"]
        assert list(found["contenders"]) == ["ours", "highs-full"]
        assert (found["rows"], found["fresh"]) == (4, True)
    assert list(parsed("--alphas", "0.1", "0.2", "--limit", "5")["alphas"]) == [0.1, 0.2]


def test_without_any_alpha_only_naive_is_measured(tmp_path: Path) -> None:
    assert run([*SMALL[:-2], "--alphas", "--contenders", "ours", "--out", str(tmp_path)]) == 0
    assert [r["method"] for r in _records(tmp_path)] == ["naive"]


def test_quick_changes_the_defaults_and_no_option_that_is_given() -> None:
    assert options_of(False, {"rows": None, "alphas": []}) == Options(alphas=())
    found = options_of(True, {"rows": 7, "limit": None, "data": ["adult"]})
    assert found == Options(("adult",), rows=7, extra_rows=1, alphas=(0.05,), limit=10.0, quick=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--contenders", "ours", "cplex"], "--contenders has 'cplex'; choose among ours,"),
        (["--suite", "main", "small"], "'small' is not one of 'main', 'frozen'"),
        (["--suite"], "requires an argument"),
        (["--alphas", "0.7"], "--alphas has 0.7; each must lie in (0, 0.5]"),
        (["--limit", "0"], "--limit is 0.0; it must be positive"),
        (["--rows", "0"], "--rows"),
        (["--colour"], "No such option: --colour"),
        (["stray"], "stray"),
    ],
)
def test_a_wrong_option_is_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1
