"""A small audit and a small sweep on disk, and what "the same run" means."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import tomli_w
from robustcf_jobs.audit.audit import audit
from robustcf_jobs.inputs.config import AuditConfig, SweepConfig, read_config
from robustcf_jobs.sweep.sweep import sweep
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc

TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4, "RAY_USAGE_STATS_ENABLED": "0"}
ROOT = Path(__file__).parents[2]
SORT = ["dataset", "simulation", "n_trees", "instance_id", "method", "alpha", "beta", "parameter"]


def make_forest(folder: Path, seed: int = 0, trees: int = 15) -> rc.Forest:
    data = rc.datasets.synthetic_credit(300, seed=0)
    model = RandomForestClassifier(trees, max_depth=3, random_state=seed)
    forest = rc.Forest.from_sklearn(model.fit(data.encode(data.X), data.y))
    rc.save_forest(forest, folder)
    return forest


def customers(n: int, seed: int = 5) -> pd.DataFrame:
    frame = rc.datasets.synthetic_credit(n, seed=seed).X
    frame.insert(0, "customer", [f"c{i:05d}" for i in range(n)])
    return frame


def make_audit(folder: Path, frame: pd.DataFrame, row_group: int = 40, **changes: Any) -> Path:
    """Everything an audit needs; returns the config's path. A change of None takes a key away."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "forest").exists():
        make_forest(folder / "forest")
    training = rc.datasets.synthetic_credit(300, seed=0)
    (folder / "schema.toml").write_text(training.schema.to_toml())
    training.X.assign(repaid=training.y).to_parquet(folder / "training.parquet")
    frame.to_parquet(folder / "customers.parquet", row_group_size=row_group)
    config: dict[str, Any] = {
        "output": "run",
        "seed": 1,
        "model": {"forest": "forest", "schema": "schema.toml", "favourable": 1},
        "customers": {"data": "customers.parquet", "id": "customer", "cohort": ["sex"]},
        "method": [{"name": "naive"}, {"name": "direct-saa", "alpha": [0.2, 0.05]}],
        "training": {"data": "training.parquet", "label": "repaid"},
        "validation": {"forests": 3},
        "shard": {"rows": 30},
    }
    return write_config(folder / "audit.toml", config | changes)


def make_sweep(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = {
        "output": "run",
        "sweep": {"datasets": ["synthetic-credit"], "simulations": 3, "rows": 2, "trees": [10], "depth": 3},
        "method": [{"name": "naive"}, {"name": "direct-saa", "alpha": 0.2}],
        "validation": {"forests": 2, "scenarios": ["same-data", "trees-5"]},
    }
    return write_config(folder / "sweep.toml", config | changes)


def write_config(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(tomli_w.dumps({k: v for k, v in config.items() if v is not None}))
    return path


def run_audit(config: Path) -> int:
    return audit(read_config(AuditConfig, config))


def run_sweep(config: Path) -> int:
    return sweep(read_config(SweepConfig, config))


def rows(run: Path | pd.DataFrame) -> pd.DataFrame:
    """The sorted rows of a run, in plain values; `seconds` and `nodes` do not count."""
    frame = run if isinstance(run, pd.DataFrame) else pd.read_parquet(run / "counterfactuals")
    frame = frame.drop(columns=["seconds", "nodes"]).sort_values(SORT, ignore_index=True)
    for column in ("cohort", "changes", "point"):
        frame[column] = [
            repr(None if v is None else v.tolist() if hasattr(v, "tolist") else list(v))
            for v in frame[column]
        ]
    return frame


def same_rows(one: Path, other: Path) -> None:
    pd.testing.assert_frame_equal(rows(one), rows(other), check_exact=True)


def same_summary(one: Path, other: Path) -> None:
    a, b = (pd.read_parquet(run / "summary/summary.parquet") for run in (one, other))
    times = ["seconds_median", "seconds_p95"]
    pd.testing.assert_frame_equal(a.drop(columns=times), b.drop(columns=times), check_exact=True)


class Command:
    """`robustcf ...` in a process of its own; everything it started ends with it."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "robustcf_jobs.cli", *arguments],
            cwd=ROOT,
            env=clean | {"PYTHONPATH": str(ROOT)} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def workers(self) -> list[psutil.Process]:
        return [child for child in self.children() if _is_worker(child)]

    def wait_for(self, condition: Callable[[], Any], seconds: float = 90.0) -> Any:
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert self.process.poll() is None, self.output()
            assert time.monotonic() < end, "waited too long"
            time.sleep(0.005)
        return found

    def kill(self) -> None:
        """SIGKILL to the driver; its Ray goes with it, some of its helpers only later."""
        children = self.children()
        self.process.kill()
        self.process.communicate()
        _, alive = psutil.wait_procs(children, timeout=3)
        for child in alive:
            child.kill()

    def output(self) -> str:
        return self.process.communicate(timeout=400)[0]

    def finish(self) -> tuple[int, str]:
        output = self.output()
        return self.process.returncode, output


def _is_worker(process: psutil.Process) -> bool:
    try:
        return process.cmdline()[0] in ("ray::IDLE", "ray::_pinned_call()", "ray::_pinned_call")
    except (psutil.Error, IndexError):
        return False


def shards(run: Path) -> list[Path]:
    return sorted((run / "counterfactuals").glob("*.parquet"))
