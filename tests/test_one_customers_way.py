# ruff: noqa: TID251
"""The way of one customer through `robustcf audit`, traced in real runs and shown in docs/architecture.md.

What counts:

- An audit of one customer and an audit of two customers, in two files and two shards, run on a real Ray. All
  calls of our functions are recorded: in the driver, in the workers and in the guarded children.
- A function is on the customer's way if the second audit makes the same chain of calls more often than the
  first. What is done once for a run (config, model, claim, start of Ray) is not on the way.
- Each function counts once, at its first call: a reader reads a function once.
- A hop is a call from one file into another. Coming back from a call is no hop.
- A return is a hop into a file that was entered before.

The *whole way* has all these functions. On the *followed way* are those that lead on to another file. The
others are self-contained: their name and their docstring tell a reader enough to go on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomli_w
from robustcf_jobs.audit.scan import hash_rows
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.schema.encode import read_rows

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/architecture.md"
MOST_FILES = 84  # of the whole way: it has one file less when both runs have manifests of the same length
LOADING = "robustcf/support/jit.py"  # machine code is loaded once per process, not once per customer
# Called by the clock, so more often on a busy machine:
BY_THE_CLOCK = ("._beat", "._tick", ".show", ".record", "Capacity.idle")
Chain = tuple[str, ...]


@dataclass(frozen=True)
class Way:
    """Files and their first functions in the order of reading, and the number of hops and returns."""

    entered: dict[str, str]
    hops: int
    returns: int

    @property
    def figures(self) -> str:
        return f"{len(self.entered)} files, {self.hops} hops, {self.returns} returns"


def make_inputs(folder: Path) -> None:
    """A small forest, and rejected customers whose hashes lie in the two halves of the range."""
    data = rc.datasets.synthetic_credit(300, seed=0)
    X = data.encode(data.X)
    model = RandomForestClassifier(5, max_depth=2, random_state=0).fit(X, data.y)
    rc.save_forest(rc.Forest.from_sklearn(model), folder / "forest")
    (folder / "schema.toml").write_text(data.schema.to_toml())
    data.X.assign(repaid=data.y).to_parquet(folder / "training.parquet")
    rejected = data.X[model.predict(X) == 0].assign(customer=lambda f: [f"c{i}" for i in f.index])
    upper = hash_rows(read_rows(data.schema, rejected[list(data.schema.names)]).numbers) >= 2**63
    customers = [rejected[~upper].iloc[:1], rejected[upper].iloc[:1]]
    for name, n in (("one", 1), ("two", 2)):
        (folder / name).mkdir()
        for k, frame in enumerate(customers[:n]):
            frame.to_parquet(folder / name / f"{k}.parquet")
        config = {
            "output": f"run-{name}",
            "model": {"forest": "forest", "schema": "schema.toml", "favourable": 1},
            "customers": {"data": name, "id": "customer"},
            "method": [{"name": "direct-saa", "alpha": 0.05}],
            "training": {"data": "training.parquet", "label": "repaid"},
            "validation": {"forests": 1},
            "shard": {"rows": 1},
        }
        (folder / f"{name}.toml").write_text(tomli_w.dumps(config))


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> list[Chain]:
    """The customer's chains of calls, in the order of their first calls."""
    folder = tmp_path_factory.mktemp("way")
    make_inputs(folder)
    trace, helpers = folder / "trace.txt", ROOT / "tests/helpers/traced"
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    path = os.pathsep.join([str(helpers), *filter(None, [clean.get("PYTHONPATH")])])
    ended = subprocess.run(
        [sys.executable, str(helpers / "two_audits.py"), str(folder / "one.toml")],
        env=clean | {"PYTHONPATH": path, "WAY_TRACE": str(trace), "WAY_ROOT": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stderr
    calls: dict[str, Counter[str]] = {"": Counter(), "one": Counter(), "two": Counter()}
    run = ""
    for line in trace.read_text().splitlines():
        if line in calls:
            run = line
        else:
            calls[run][line] += 1  # a dict keeps the order of the first calls
    again = (c for c, n in calls["one"].items() if calls["two"][c] > n)
    return [tuple(c.split("|")) for c in again if not any(name in c for name in (LOADING, *BY_THE_CLOCK))]


def file_of(function: str) -> str:
    return function.split(":")[0]


def leading_on(chains: Sequence[Chain]) -> set[str]:
    """The functions that call, directly or not, a function of another file."""
    callees = defaultdict(set)
    for chain in chains:
        for k, function in enumerate(chain):
            callees[function] |= set(chain[k + 1 :])
    return {f for f, called in callees.items() if any(file_of(c) != file_of(f) for c in called)}


def way(chains: Sequence[Chain], functions: set[str]) -> Way:
    entered: dict[str, str] = {}
    seen: set[str] = set()
    hops = returns = 0
    for chain in chains:
        for caller, function in zip(("", *chain), chain, strict=False):
            if function in seen or function not in functions:
                continue
            seen.add(function)
            file = file_of(function)
            started_by_ray = function == "jobs/cluster/tasks.py:_pinned_call"  # `Tasks.start` is in its file
            if file_of(caller) != file and not started_by_ray:
                hops += bool(entered)
                returns += file in entered
            entered.setdefault(file, function.split(":")[1])
    return Way(entered, hops, returns)


@pytest.fixture(scope="module")
def followed(chains: list[Chain]) -> Way:
    return way(chains, leading_on(chains))


@pytest.fixture(scope="module")
def whole(chains: list[Chain]) -> Way:
    return way(chains, {function for chain in chains for function in chain})


def test_the_trace_sees_driver_workers_and_children(whole: Way) -> None:
    """Without one of them the figures would be too good."""
    driver, worker, child = "jobs/driver.py", "jobs/audit/scan.py", "robustcf/solve/engine.py"
    assert {
        driver,
        worker,
        child,
        "jobs/validate/forests.py",
        "jobs/report/people.py",
    } <= whole.entered.keys()


def test_the_page_shows_the_way(followed: Way, whole: Way) -> None:
    """On failure: copy the lines into the page, and ask whether the way had to become longer."""
    lines = [f"{k}. `{file}`: `{name}`" for k, (file, name) in enumerate(followed.entered.items(), 1)]
    text = PAGE.read_text(encoding="utf-8")
    assert "\n".join(lines) in text, "\n".join(lines)
    assert f"Followed way: {followed.figures}." in text, followed.figures
    assert f"Whole way: at most {MOST_FILES} files" in text, whole.figures
    assert MOST_FILES - 2 <= len(whole.entered) <= MOST_FILES, whole.figures


def test_the_way_does_not_become_longer(followed: Way, whole: Way) -> None:
    """The aim is 30 files and 20 returns. The limits on files are what has been reached so far."""
    assert followed.returns <= 20
    assert len(followed.entered) <= 57
    assert len(whole.entered) <= MOST_FILES
