"""`robustcf reproduce --experiment certified` on real data sets, on a real local Ray."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from robustcf_jobs.cli import main
from robustcf_jobs.reproduce.certified import PAGE, read_certified, read_file
from robustcf_jobs.reproduce.experiments import BY_NAME, ORDER
from robustcf_jobs.reproduce.reproduce import Request

from robustcf.reproduction.certified.page import FRONT, page

DATA = "synthetic-credit"
TRIAL = ["--fraction", "0.01", "--time-limit", "0.05", "--dataset", DATA]
DOCS = Path(__file__).parents[3] / "docs"
KEYS = [
    "data",
    "simulation",
    "voting",
    "row",
    "method",
    "alpha",
    "status",
    "distance",
    "validity",
    "certified",
]
ANSWER = [*KEYS, "agreeing", "level", "pool_trees", "seconds"]


def run(output: Path, *arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", "--output", str(output), *arguments])
    assert ended.value.code == 0


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def finished(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("certified")
    run(output, *TRIAL, *(word for name in BY_NAME for word in ("--experiment", name)))
    return output


def test_the_command_writes_records_a_page_and_a_figure(finished: Path) -> None:
    same, evolving = (lines(finished / "runs" / name / "certified.jsonl") for name in BY_NAME)
    assert len(same) == 2 * 2 * (1 + 3 * 3 + 3)  # votings, rows, methods
    assert len(evolving) == 2 * 2 * (1 + 4 * 3)
    assert {tuple(r) for r in same} == {tuple(ANSWER), tuple(KEYS)}  # the latter: BetaRCE's rule
    assert {r["method"] for r in same if "seconds" not in r} == {"beta-rce"}
    assert {r["scenario"] for r in evolving} == {"evolving"}
    assert {r["certificate_for"] for r in evolving if r["method"] == "certified"} == {"same-data", "evolving"}
    assert all(0 <= r["validity"] <= 1 for r in same + evolving if r["validity"] is not None)
    text = (finished / PAGE).read_text(encoding="utf-8")
    assert f"| {DATA} | 1 of 40 | 2 | " in text
    assert "11 trees per forest, 20 truth forests" in text
    assert "This part has not been run" not in text
    shown = [word.split(")")[0] for word in text.split("](")[1:]]
    assert all((finished / name).is_file() for name in shown)
    assert not (finished / "reproduction.md").exists()


def test_a_stopped_run_is_resumed_and_a_part_of_a_line_is_dropped(finished: Path, tmp_path: Path) -> None:
    output = tmp_path / "again"
    shutil.copytree(finished, output)
    folder = output / "runs/certified"
    before = (folder / "certified.jsonl").read_bytes()
    run(output, *TRIAL, "--experiment", "certified")
    assert (folder / "certified.jsonl").read_bytes() == before  # nothing is computed twice
    assert (output / PAGE).read_text() == (finished / PAGE).read_text()
    (folder / "units.jsonl").write_text('{"data": "syn')
    (folder / "certified.jsonl").write_bytes(before[:-40])
    run(output, *TRIAL, "--experiment", "certified")
    assert [(u["data"], u["simulation"]) for u in lines(folder / "units.jsonl")] == [(DATA, 0)]
    again = lines(folder / "certified.jsonl")[-len(before.splitlines()) :]
    found = read_certified(output)
    assert len(found.of("same-data")) == len(again)  # stored twice, counted once
    first = [json.loads(line) for line in before.splitlines()]
    pairs = [(a, b) for a, b in zip(first, again, strict=True) if a["method"] in ("naive", "direct-saa")]
    proved = [(a, b) for a, b in pairs if a["status"] == b["status"] == "optimal"]  # within the time limit
    assert proved
    for a, b in proved:
        assert {**a, "seconds": 0} == {**b, "seconds": 0}


def test_records_of_the_benchmark_are_results_of_the_experiment(finished: Path, tmp_path: Path) -> None:
    """They have no scenario, and their simulations say nothing about training rows."""
    folder = tmp_path / "runs/certified"
    shutil.copytree(finished / "runs/certified", folder)
    (about,) = lines(folder / "units.jsonl")
    about.pop("training_rows")
    (folder / "units.jsonl").write_text(json.dumps(about) + "\n")
    (folder / "design.json").unlink()
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", "--output", str(tmp_path), *TRIAL, "--experiment", "certified"])
    design = {"rows": 10, "trees": 100, "truth": 300, "training_rows": 3000, "time_limit": 5.0}
    (folder / "design.json").write_text(json.dumps(design))
    run(tmp_path, *TRIAL, "--experiment", "certified")
    assert "300 truth forests" in (tmp_path / PAGE).read_text(encoding="utf-8")


def test_bad_requests_are_one_line(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, words in (
        (["--output", str(finished), "--fraction", "1"], "was begun with forests of 11 trees"),
        (["--output", str(tmp_path / "new"), "--dataset", "nowhere"], "nowhere"),
        (["--output", str(tmp_path / "new"), "--experiment", "certify"], "certified-evolving"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["reproduce", "--experiment", "certified", *arguments])
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith("robustcf: ")
        assert words in line
    assert not (tmp_path / "new").exists()


def test_certificates_are_measured_only_if_asked_for(tmp_path: Path) -> None:
    assert Request(tmp_path).certified == []
    assert Request(tmp_path).of_the_paper == list(ORDER)
    assert Request(tmp_path, ("certified",)).of_the_paper == []
    assert [p.name for p in Request(tmp_path, ("hard", "certified")).pages] == ["reproduction.md", PAGE]


def test_the_manual_s_page_is_the_one_that_its_records_give() -> None:
    made = page(read_file(DOCS / "reproduction/certified.parquet"), [FRONT], "reproduction")
    assert made == (DOCS / "certified-experiment.md").read_text(encoding="utf-8")
    assert (DOCS / f"reproduction/{FRONT}.png").is_file()
