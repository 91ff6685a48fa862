"""`robustcf reproduce` on the embedded data set, on a real local Ray."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from robustcf_jobs.cli import main
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.inputs.method_tables import methods_of
from robustcf_jobs.reproduce.experiments import ORDER, experiment
from robustcf_jobs.reproduce.reproduce import Request, going_on, reproduce
from robustcf_jobs.reproduce.results import Results, read_results
from robustcf_jobs.run.folder import RunFolder

from robustcf.datasets.registry import PAPER_SETS
from robustcf.reproduction import tables
from robustcf.reproduction.material import Material
from robustcf.reproduction.page import page
from robustcf.reproduction.paper import paper

NAMES = ("naive-100", "authors-100", "saa-100", "hard", "retrain-20")
SIZES = {"naive-100": 1, "naive-400": 1, "saa-100": 24, "saa-400": 24, "evolving": 24, "isolation": 6}
SIZES |= {"authors-100": 1, "authors-400": 1, "lof": 6, "robx": 7, "hard": 9, "retrain-20": 5, "stumps": 3}


def run(output: Path, *names: str, fraction: float = 0.005, **more: Any) -> int:
    return reproduce(Request(output, names or NAMES, ("synthetic-credit",), fraction, **more))


def written(output: Path) -> dict[Path, int]:
    """When each file of the runs was written."""
    return {p: p.stat().st_mtime_ns for p in (output / "runs").rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def finished(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("reproduction")
    assert run(output) == 0
    return output


def test_every_experiment_is_the_papers_design() -> None:
    assert set(SIZES) == set(ORDER)
    for name in ORDER:
        e = experiment(name)
        assert set(e.datasets) <= set(PAPER_SETS)
        assert e.datasets == ("spambase",) or len(e.datasets) == 8
        for dataset in e.datasets:
            config = e.config(dataset, 1.0, "/nowhere", 60.0)
            assert len(methods_of(config)) == SIZES[name]
            simulations = 20 if config.sweep.trees == (400,) else 40
            assert (config.sweep.simulations, config.sweep.rows) == (simulations, 5)
    gaps = {
        m.weight: m.gap for m in methods_of(experiment("lof").config("onlinenewspopularity", 1.0, "/n", 60.0))
    }
    assert gaps == {0.001: 0.0, 0.01: 0.0, 0.1: 0.1, 1.0: 0.1, 10.0: 0.1, 100.0: 0.1}
    small = experiment("naive-100").config("adult", 0.25, "/nowhere", 60.0).sweep
    tiny = experiment("naive-100").config("adult", 0.005, "/nowhere", 60.0).sweep
    assert [(s.simulations, s.rows) for s in (small, tiny)] == [(10, 5), (1, 1)]


def test_a_page_with_tables_and_figures(finished: Path) -> None:
    text = (finished / "reproduction.md").read_text()
    for name in NAMES:
        assert f"| `{name}` |" in text
    shown = {word.split(")")[0] for word in text.split("](")[1:]}
    assert {"figures/validity-saa-100.png", "figures/trajectory-synthetic-credit.png"} <= shown
    assert {"figures/importance.png", "figures/hard-and-soft.png", "figures/predicted.png"} <= shown
    assert all(0 < (finished / name).stat().st_size < 150_000 for name in shown)
    summary = pd.read_csv(finished / "summary.csv")
    assert len(summary) == sum(SIZES[name] for name in NAMES)
    assert summary["validity"].between(0, 1).all()
    assert (summary["n"] == 1).all()
    left = pd.read_csv(finished / "unproved.csv")
    assert summary["unproved"].sum() == len(left)


def test_experiments_share_rows_and_first_forests(finished: Path) -> None:
    one, other = (finished / f"runs/{name}/synthetic-credit" for name in ("naive-100", "saa-100"))
    ids = [set(pd.read_parquet(run / "counterfactuals")["instance_id"]) for run in (one, other)]
    assert ids[0] == ids[1]
    name = "forest/synthetic-credit-n00100-s0000/trees.npz"
    assert (one / name).read_bytes() == (other / name).read_bytes()


def test_again_recomputes_nothing(finished: Path) -> None:
    before = written(finished)
    page = (finished / "reproduction.md").read_bytes()
    assert run(finished) == 0
    assert written(finished) == before
    assert (finished / "reproduction.md").read_bytes() == page


def test_results_are_shown_elsewhere_and_not_run_again(finished: Path, tmp_path: Path) -> None:
    there = tmp_path / "elsewhere"
    assert run(there, results=finished / "results.parquet") == 0
    assert not (there / "runs").exists()
    text = (there / "reproduction.md").read_text()
    needs_runs = ("trajectory-", "importance")  # points and forests, which results do not hold
    kept = [
        p
        for p in (finished / "reproduction.md").read_text().split("\n\n")
        if not any(w in p for w in needs_runs)
    ]
    assert [part for part in text.split("\n\n") if part not in kept] == []
    assert [part for part in kept if part not in text and not part.startswith("## ")] == []
    for name in ("summary", "targets", "unproved", "results"):
        file = next(finished.glob(f"{name}.*"))
        assert (there / file.name).read_bytes() == file.read_bytes()


def test_a_simulation_run_again_takes_the_place_of_an_earlier_one(finished: Path) -> None:
    found = read_results(finished / "results.parquet")
    newer = found.rows[found.rows["experiment"] == "saa-100"].assign(seconds=99.0)
    both = found.before(Results(newer, {("saa-100", "synthetic-credit"): 5.0}))
    assert len(both.rows) == len(found.rows)
    assert (both.rows["seconds"] == 99.0).sum() == len(newer) > 0
    assert both.seconds["saa-100", "synthetic-credit"] > 5.0
    config = experiment("saa-100").config("synthetic-credit", 0.005, "/nowhere", 60.0)
    larger = experiment("saa-100").config("synthetic-credit", 0.05, "/nowhere", 60.0)
    assert both.covers("saa-100", "synthetic-credit", config)
    assert not both.covers("saa-100", "synthetic-credit", larger)
    assert not Results(newer[1:]).covers("saa-100", "synthetic-credit", config)


def test_a_larger_fraction_goes_on_and_a_smaller_one_takes_what_is_there(
    local_ray: Any, tmp_path: Path
) -> None:
    assert run(tmp_path, "naive-100", fraction=0.025) == 0
    first = written(tmp_path)
    assert run(tmp_path, "naive-100", fraction=0.05) == 0
    later = written(tmp_path)
    kept = {p for p in first if p.suffix == ".parquet" and "summary" not in p.parts}
    assert kept
    assert all(later[p] == first[p] for p in kept)
    shards = list((tmp_path / "runs").rglob("counterfactuals/*.parquet"))
    assert len(shards) == 2
    assert run(tmp_path, "naive-100", fraction=0.025) == 0
    assert written(tmp_path) == later
    with pytest.raises(BadInput, match="belongs to another run"):
        run(tmp_path, "naive-100", fraction=0.005)


def test_a_longer_limit_makes_only_unproved_shards_again(local_ray: Any, tmp_path: Path) -> None:
    assert run(tmp_path, "naive-100", fraction=0.05, time_limit=20.0) == 0
    folder = RunFolder(str(tmp_path / "runs/naive-100/synthetic-credit"))
    manifest = folder.manifest()
    assert manifest is not None
    names = [name for name in manifest["shards"] if name.startswith("counterfactuals/")]
    manifest["shards"][names[0]]["counts"] = {"optimal": 4, "timeout": 1}
    folder.write_manifest(manifest)
    config = experiment("naive-100").config("synthetic-credit", 0.05, folder.address, 30.0)
    left = going_on(config)
    assert left is not None
    assert left.solver.time_limit == 30.0
    assert not folder.exists(names[0])
    assert folder.exists(names[1])
    assert run(tmp_path, "naive-100", fraction=0.05, time_limit=30.0) == 0
    assert going_on(config) is None


def test_bad_requests_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        (["--experiment", "naive"], "no experiment 'naive'"),
        (["--fraction", "0"], "it must lie in (0, 1]"),
        (["--data", str(tmp_path / "nowhere")], "is not a folder"),
        (["--time-limit", "0"], "it must be positive"),
        (["--results", str(tmp_path / "nowhere")], "not the results of a reproduction"),
        (["--results", __file__], "not the results of a reproduction"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["reproduce", "--output", str(tmp_path / "out"), *arguments])
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line
        assert not (tmp_path / "out").exists()


def test_the_rows_kept_beside_the_manual_s_page_give_its_lines() -> None:
    docs = Path(__file__).parents[3] / "docs"
    found = read_results(docs / "reproduction" / "results.parquet")
    rows = found.rows
    titles = {name: (experiment(name).title, experiment(name).source) for name in ORDER}
    planned = {name: experiment(name).simulations for name in ORDER}
    datasets = pd.DataFrame(columns=["dataset"])
    made = page(
        Material(rows, tables.validity_table(rows), datasets, titles, planned, found.seconds, paper()), []
    )
    sections = {section.split("\n")[0].strip("# "): section for section in made.split("\n#")}
    kept = (docs / "reproduction.md").read_text(encoding="utf-8")
    for title in (
        *(titles[name][0] for name in ("saa-100", "saa-400", "evolving", "retrain-20")),
        "Twenty retrained forests per point",
        "Distance and validity on identical rows (Figure 4)",
    ):
        lines = [line for line in sections[title].splitlines() if line.startswith("| ")]
        assert len(lines) > 8
        assert [line for line in lines if line not in kept] == []
    page_text = " ".join(kept.split())
    texts = [" ".join(part.split()) for part in made.split("\n\n") if not part.startswith(("|", "!["))]
    counted = ("The total is ", "Not settled ", f"{len(rows):,} solves: ")  # the page counts two sessions
    texts = [text for text in texts if not text.startswith(counted)]
    assert len(texts) > 15
    assert [text for text in texts if text not in page_text] == []
