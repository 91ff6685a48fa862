"""The benchmark runs end to end on embedded data, resumes, and notices a wrong answer."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from robustcf_benchmarks import bench
from robustcf_benchmarks.agree import disagreements
from robustcf_benchmarks.cases import PLAUSIBLE, Case, realise
from robustcf_benchmarks.contenders import PROVED
from robustcf_benchmarks.store import read

CONTENDERS = ["ours", "ours-grid", "incumbent", "highs-reduced"]
SMALL = ["--data", "synthetic-credit", "--trees", "20", "--depth", "3", "--rows", "1", "--alphas", "0.05"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench")
    assert bench.main([*SMALL, "--limit", "30", "--out", str(out), "--contenders", *CONTENDERS]) == 0
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
    assert bench.main([*SMALL, "--limit", "30", "--out", str(tmp_path), "--contenders", *CONTENDERS]) == 0
    assert path.read_text().startswith("".join(lines[:3]))
    assert len(_records(tmp_path)) == len(_records(folder))


def test_refuses_to_mix_measurements_of_different_settings(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main([*SMALL, "--limit", "7", "--out", str(folder), "--contenders", "ours"]) == 2
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
    assert bench.main(["--summary-only", "--out", str(tmp_path)]) == 1
    assert "highs-reduced optimal 1e-05" in (tmp_path / "disagreements.txt").read_text()


def test_a_peer_that_proves_more_than_the_optimum_is_only_noted(folder: Path) -> None:
    records = _records(folder)
    records.append(records[0] | {"contender": "oceanpy", "status": "optimal", "objective": 9.0})
    wrong, notes = disagreements(pd.DataFrame(records))
    assert wrong == []
    assert len(notes) == 1


def test_peers_that_are_not_installed_are_left_out_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    options = bench.parse(["--contenders", "ours", "treecf", "oceanpy", "--peer-python", "/no/python"])
    assert bench.present(options) == ["ours"]
    assert "oceanpy skipped" in capsys.readouterr().out


def test_frozen_features_leave_some_without_recourse_and_all_agree(tmp_path: Path) -> None:
    asked = ["--suite", "frozen", "--extra-rows", "4", "--contenders", "ours", "highs-full"]
    assert bench.main([*SMALL, *asked, "--out", str(tmp_path)]) == 0
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
    assert bench.main([*SMALL, *asked, "--out", str(tmp_path)]) == 0
    records = _records(tmp_path)
    assert {(r["contender"], r["method"]) for r in records} == {
        (c, m) for c in ("ours", "highs-reduced") for m in PLAUSIBLE
    }
    assert all(r["status"] in PROVED for r in records)


def test_an_unknown_data_set_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--data", "nowhere", "--contenders", "ours", "--out", str(tmp_path)]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_customers_were_held_out_and_come_from_both_sides() -> None:
    world = realise(Case("synthetic-credit", trees=5, depth=3))
    customers = world.customers(6)
    assert {c.target for c in customers} == set(world.forest.classes)
    assert len({c.row for c in customers}) == 6
    for c in customers:
        assert world.model.predict(c.encoded[None])[0] != c.target
