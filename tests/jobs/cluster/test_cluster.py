"""Several nodes, the loss of one, pinned threads, and the file for `ray up`."""

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from robustcf_jobs.cluster.session import chosen_address
from robustcf_jobs.cluster.tasks import Tasks
from robustcf_jobs.inputs.config import SolverChoice
from robustcf_jobs.inputs.errors import BadInput

from tests.helpers.jobworld import (
    ROOT,
    TOKEN,
    Command,
    customers,
    make_audit,
    make_sweep,
    run_audit,
    run_sweep,
    same_rows,
    same_summary,
    shards,
)

CUSTOMERS = 120


@pytest.fixture(scope="module")
def undisturbed(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert run_audit(slow_audit(folder)) == 0
    assert run_sweep(make_sweep(folder / "sweep")) == 0
    return folder


def slow_audit(folder: Path, **changes: Any) -> Path:
    """Many small shards, so that there is a middle to be killed in."""
    return make_audit(folder, customers(CUSTOMERS), shard={"rows": 4}, validation={"forests": 2}, **changes)


@pytest.fixture
def two_nodes(local_ray: Any) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        second = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        yield cluster, second
    finally:
        cluster.shutdown()


def test_two_nodes_give_the_rows_of_one_and_outlive_the_loss_of_one(
    undisturbed: Path, two_nodes: Any, tmp_path: Path
) -> None:
    cluster, second = two_nodes
    there = TOKEN | {"RAY_ADDRESS": cluster.address}
    code, output = Command("audit", str(slow_audit(tmp_path / "refused")), **there).finish()
    assert code == 2
    assert "the cluster has 2 nodes" in output
    assert not (tmp_path / "refused/run").exists()

    code, output = Command("sweep", str(make_sweep(tmp_path / "sweep", shared=True)), **there).finish()
    assert code == 0, output
    same_rows(undisturbed / "sweep/run", tmp_path / "sweep/run")
    same_summary(undisturbed / "sweep/run", tmp_path / "sweep/run")

    command = Command("audit", str(slow_audit(tmp_path / "audit", shared=True)), **there)
    command.wait_for(lambda: shards(tmp_path / "audit/run"))
    cluster.remove_node(second, allow_graceful=False)
    code, output = command.finish()
    assert code == 0, output
    same_rows(undisturbed / "run", tmp_path / "audit/run")
    same_summary(undisturbed / "run", tmp_path / "audit/run")


@pytest.mark.parametrize(
    ("number", "code"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)],
    ids=["ctrl-c", "terminated"],
)
def test_a_run_that_is_stopped_says_so_and_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    own = Path(tempfile.mkdtemp(dir="/tmp"))  # other runs on the machine have their folders elsewhere
    command = Command("audit", str(slow_audit(tmp_path)), "--cpus", "2", TMPDIR=str(own))
    command.wait_for(lambda: shards(tmp_path / "run"))
    started = command.children()
    assert len(list(own.glob("robustcf-*"))) == 1
    command.process.send_signal(number)
    found, output = command.finish()
    assert found == code, output
    lines = [line for line in output.splitlines() if not line.startswith('{"stage"')]
    assert lines == ["robustcf: stopped; finished work is kept; run the same command to resume"]
    _, alive = psutil.wait_procs(started, timeout=10)
    assert alive == []
    assert list(own.glob("robustcf-*")) == []
    shutil.rmtree(own)


def test_a_worker_uses_the_threads_it_was_given(local_ray: Any) -> None:
    """While one worker multiplies matrices, fits and runs numba loops, one thread of it is busy."""

    def busy(least: float) -> tuple[list[int], list[str | None], float, float, int]:
        import numba
        import numpy as np
        from sklearn.ensemble import RandomForestClassifier
        from threadpoolctl import threadpool_info

        rng = np.random.default_rng(0)
        X, y = rng.random((3000, 20)), rng.integers(0, 2, 3000)
        process = psutil.Process()
        begin, used = time.perf_counter(), sum(process.cpu_times()[:2])
        while time.perf_counter() - begin < least:
            np.linalg.svd(rng.random((300, 300)))
            RandomForestClassifier(5).fit(X, y)
        seconds = time.perf_counter() - begin
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
        pools = [pool["num_threads"] for pool in threadpool_info()] + [numba.get_num_threads()]
        spent = sum(process.cpu_times()[:2]) - used
        cpus = len(os.sched_getaffinity(0))
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # other tests share this worker
        return pools, [os.environ.get(n) for n in names], spent, seconds, cpus

    tasks = Tasks(local_ray, SolverChoice(threads=1, affinity=True))
    ((_, (pools, variables, cpu_seconds, seconds, cpus)),) = list(tasks.run(busy, [(0.8,)]))
    assert pools
    assert set(pools) == {1}
    assert variables == ["1", "1", "1"]
    assert cpu_seconds <= 1.15 * seconds + 0.1
    assert cpus == 1


@pytest.mark.slow  # Ray takes 20 s to give up
def test_nobody_without_the_token_gets_in(undisturbed: Path, local_ray: Any) -> None:
    there = {"RAY_ADDRESS": local_ray.get_runtime_context().gcs_address, "RAY_AUTH_MODE": "token"}
    code, output = Command("reduce", str(undisturbed / "run"), RAY_AUTH_TOKEN="f" * 64, **there).finish()
    assert code == 2
    assert "token" in output
    assert "Traceback" not in output


def test_a_ray_of_our_own_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert chosen_address(None) == "local"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")  # a submitted job has it too
    assert chosen_address(None) == "10.0.0.1:6379"
    assert chosen_address("10.0.0.2:6379") == "10.0.0.2:6379"


def test_the_file_for_ray_up_is_valid() -> None:
    from ray.autoscaler._private.util import validate_config

    config = yaml.safe_load((ROOT / "cluster.yaml").read_text())
    config["cluster_synced_files"] = []
    validate_config(config)
    assert config["head_node_type"] in config["available_node_types"]
    assert "gurobi" in config["available_node_types"]["gurobi_worker"]["resources"]


@pytest.mark.parametrize(
    ("solver", "told"),
    [
        (SolverChoice(threads=3), "solver.threads is 3, but this machine's Ray has 2 CPUs"),
        (SolverChoice(licence="gurobi"), "solver.licence is 'gurobi', but this machine's Ray offers no such"),
    ],
)
def test_what_this_machine_can_never_offer_is_refused(
    local_ray: Any, solver: SolverChoice, told: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(told)):
        Tasks(local_ray, solver)
