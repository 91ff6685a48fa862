"""Workers, nodes and drivers that die or stall at seeded moments, and an object store that spills.

`tests/jobs/cluster/test_cluster.py` has one killed driver and one lost node; more of these are slow here.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.helpers.faultworld import SEEDS, SHARDS, SLOW_SEEDS, assert_whole, moment, nodes, small_audit
from tests.helpers.jobworld import ROOT, Command, shards

HEALTH = {
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}
PAUSE = 12.0  # seconds, longer than a node may keep silent


def raylet_of(node: Any) -> psutil.Process:
    return psutil.Process(node.all_processes["raylet"][0].process.pid)


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_workers_cost_nothing(undisturbed: Path, tmp_path: Path, seed: int) -> None:
    """Workers and the solvers' processes beside them, one at a time, again and again."""
    rng, run = random.Random(seed), tmp_path / "run"
    command = Command("audit", str(small_audit(tmp_path)), "--cpus", "2")
    moment(rng, command, run, 4)
    for _ in range(3):
        with suppress(psutil.Error, IndexError):
            rng.choice(command.workers()).kill()
        time.sleep(rng.random())
    code, output = command.finish()
    assert code == 0, output
    assert_whole(undisturbed, run)


@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_a_killed_driver_is_resumed(undisturbed: Path, tmp_path: Path, seed: int) -> None:
    rng, config, run = random.Random(seed), str(small_audit(tmp_path)), tmp_path / "run"
    command = Command("audit", config, "--cpus", "2")
    moment(rng, command, run)
    command.kill()
    done = {path: path.stat().st_mtime_ns for path in shards(run)}
    code, output = Command("audit", config, "--cpus", "2").finish()
    assert code == 0, output
    assert 0 < len(done) < 2 * SHARDS
    assert all(path.stat().st_mtime_ns == at for path, at in done.items()), "finished work was done again"
    assert_whole(undisturbed, run)


@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_a_node_that_dies_takes_nothing_along(
    undisturbed: Path, local_ray: Any, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    with nodes({}, {}) as (there, (_, second), _):
        command = Command("audit", str(small_audit(tmp_path, shared=True)), **there)
        moment(rng, command, tmp_path / "run")
        raylet_of(second).kill()
        code, output = command.finish()
    assert code == 0, output
    assert_whole(undisturbed, tmp_path / "run")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_stalls_and_comes_back_does_no_harm(
    undisturbed: Path, local_ray: Any, tmp_path: Path, seed: int
) -> None:
    """Declared dead, its rows given to others; what it still writes is what they write."""
    rng = random.Random(seed)
    with nodes({"_system_config": HEALTH}, {}) as (there, (_, second), _):
        command = Command("audit", str(small_audit(tmp_path, shared=True)), **there)
        moment(rng, command, tmp_path / "run")
        stalled = [raylet_of(second), *(p for p in raylet_of(second).children(recursive=True))]
        for process in stalled:
            with suppress(psutil.Error):
                process.suspend()
        time.sleep(PAUSE)
        for process in stalled:
            with suppress(psutil.Error):
                process.resume()
        code, output = command.finish()
    assert code == 0, output
    assert_whole(undisturbed, tmp_path / "run")


BALLAST = """
import sys, time, numpy as np, ray
ray.init(address=sys.argv[1], logging_level="ERROR")
kept = [ray.put(np.full(5_000_000, k, dtype=np.float64)) for k in range(8)]  # 40 MB each, in 80 MB
print("full", flush=True)
while True:
    for k, ref in enumerate(kept):
        assert ray.get(ref)[0] == k
        time.sleep(0.2)
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_an_object_store_that_spills(undisturbed: Path, local_ray: Any, tmp_path: Path, seed: int) -> None:
    """A second user of the cluster fills the object store over and over while the audit runs."""
    rng = random.Random(seed)
    store = {"object_store_memory": 80 * 2**20, "num_cpus": 2, "object_spilling_directory": str(tmp_path)}
    with nodes(store) as (there, _, _):
        ballast = subprocess.Popen(
            [sys.executable, "-c", BALLAST, there["RAY_ADDRESS"]],
            env=os.environ | there | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert ballast.stdout is not None
            assert ballast.stdout.readline() == "full\n"
            spilled = sum(
                path.stat().st_size for path in tmp_path.glob("ray_spilled*/**/*") if path.is_file()
            )
            assert spilled > 100e6
            time.sleep(rng.random())
            code, output = Command("audit", str(small_audit(tmp_path / "a", shared=True)), **there).finish()
            assert ballast.poll() is None
        finally:
            ballast.send_signal(signal.SIGKILL)
            ballast.communicate()
    assert code == 0, output
    assert_whole(undisturbed, tmp_path / "a/run")
