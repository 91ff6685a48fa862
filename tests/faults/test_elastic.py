"""Clusters that start with no CPUs, grow and lose nodes while a run goes on."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.helpers.faultworld import nodes, small_audit
from tests.helpers.jobworld import ROOT, TOKEN, Command, same_rows, same_summary, shards

PORT = 26379
SOLVER = {"name": "poisoned"}  # our own engine, a second slower for each problem
SLOW = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests/helpers/poisoned'}", "POISON": "slow", "POISON_SHARE": "1"}


@pytest.fixture
def slow_solver(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the nodes' workers need to find the slow solver."""
    for name, value in SLOW.items():
        monkeypatch.setenv(name, value)
    return SLOW


def state_of(address: str) -> Any:
    """The cluster's resources, seen from outside: this process has a Ray of its own."""
    from ray._private.state import GlobalState
    from ray._raylet import GcsClientOptions

    state = GlobalState()
    state._initialize_global_state(GcsClientOptions.create(address, None, True, False))
    return state


def is_up(state: Any) -> bool:
    from ray.exceptions import RaySystemError

    try:
        return bool(state.node_table())
    except RaySystemError:
        return False


def busy_cpus(state: Any) -> float:
    total = sum(node["Resources"].get("CPU", 0.0) for node in state.node_table() if node["Alive"])
    free = sum(node.get("CPU", 0.0) for node in state.available_resources_per_node().values())
    return total - free


def seconds_until(condition: Callable[[], bool], limit: float) -> float:
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() < begin + limit, "waited too long"
        time.sleep(0.1)
    return time.monotonic() - begin


def test_nodes_that_join_later_are_used_at_once(
    undisturbed: Path, slow_solver: dict[str, str], tmp_path: Path
) -> None:
    """The head has no CPUs. Three nodes join, one is killed, another joins."""
    with nodes({"num_cpus": 0}) as (there, _, cluster):
        config = small_audit(tmp_path, shared=True, solver=SOLVER, shard={"seconds": 2.0})
        command = Command("audit", str(config), **there, **slow_solver)
        command.wait_for(lambda: (tmp_path / "run").exists())
        time.sleep(7)
        workers = [cluster.add_node(num_cpus=2) for _ in range(3)]
        state = state_of(cluster.address)
        waited = seconds_until(lambda: busy_cpus(state) >= 5, 10)
        command.wait_for(lambda: shards(tmp_path / "run"))
        cluster.remove_node(workers[0], allow_graceful=False)
        cluster.add_node(num_cpus=2)
        again = seconds_until(lambda: busy_cpus(state) >= 5, 10)
        code, output = command.finish()
    assert code == 0, output
    said = [json.loads(line) for line in output.splitlines() if line.startswith('{"waiting_for"')]
    assert said[0]["waiting_for"] == "CPUs: no node with CPUs has joined the cluster yet"
    assert len(said) >= 2
    assert max(waited, again) <= 10
    same_rows(undisturbed, tmp_path / "run")
    same_summary(undisturbed, tmp_path / "run")


def test_a_run_says_that_no_node_offers_its_licence_or_its_threads(tmp_path: Path) -> None:
    with nodes({"num_cpus": 1}) as (there, _, cluster):
        solver = {"name": "auto", "licence": "gurobi"}
        command = Command("audit", str(small_audit(tmp_path / "a", shared=True, solver=solver)), **there)
        other = Command(
            "audit", str(small_audit(tmp_path / "b", shared=True, solver={"threads": 2})), **there
        )
        command.wait_for(lambda: (tmp_path / "a/run/_work").exists())
        time.sleep(3)
        cluster.add_node(num_cpus=2, resources={"gurobi": 1})
        found = [command.finish(), other.finish()]
    for (code, output), told in zip(found, ["resource 'gurobi': no node", "a node with 2 CPUs"], strict=True):
        assert code == 0, output
        assert f'{{"waiting_for": "{told}' in output


@pytest.fixture
def autoscaled(tmp_path: Path, slow_solver: dict[str, str]) -> Iterator[dict[str, str]]:
    """A head without CPUs whose autoscaler may start four nodes of two CPUs on this machine."""
    from ray._private.services import get_node_ip_address as node_ip_address

    types = {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "worker": {"resources": {"CPU": 2}, "node_config": {}, "min_workers": 0, "max_workers": 4},
    }
    config = {
        "cluster_name": "fake_multinode",
        "max_workers": 4,
        "provider": {
            "type": "fake_multinode",
            "gcs_address": f"{node_ip_address()}:{PORT}",
            "use_node_id_as_ip": True,  # the nodes have the same address
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "available_node_types": types,
        "head_node_type": "ray.head.default",
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": 5,
    }
    empty = ("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands")
    config |= {name: [] for name in (*empty, "head_start_ray_commands", "worker_start_ray_commands")}
    config |= {"auth": {}, "docker": {}, "file_mounts": {}, "cluster_synced_files": []}
    (tmp_path / "autoscaler.json").write_text(json.dumps(config))
    head = subprocess.Popen(
        [
            *(
                sys.executable,
                "-c",
                "from ray.scripts.scripts import main; main()",
                "start",
                "--head",
                "--block",
            ),
            *("--num-cpus=0", f"--port={PORT}", "--min-worker-port=0", "--max-worker-port=0"),
            "--include-dashboard=false",
            f"--autoscaling-config={tmp_path / 'autoscaler.json'}",
        ],
        env={k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        | TOKEN
        | slow_solver
        | {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield TOKEN | {"RAY_ADDRESS": f"{node_ip_address()}:{PORT}"}
    finally:
        for process in [*psutil.Process(head.pid).children(recursive=True), head]:
            process.kill()
        head.wait()


def test_the_autoscaler_is_asked_for_all_the_nodes_it_may_start(
    undisturbed: Path, autoscaled: dict[str, str], slow_solver: dict[str, str], tmp_path: Path
) -> None:
    config = small_audit(tmp_path, shared=True, solver=SOLVER, shard={"seconds": 2.0})
    state = state_of(autoscaled["RAY_ADDRESS"])
    seconds_until(lambda: is_up(state), 60)
    command = Command("audit", str(config), **autoscaled, **slow_solver)
    command.wait_for(lambda: len([n for n in state.node_table() if n["Alive"]]) == 1 + 4)
    command.wait_for(lambda: busy_cpus(state) >= 7)
    code, output = command.finish()
    assert code == 0, output
    same_rows(undisturbed, tmp_path / "run")
