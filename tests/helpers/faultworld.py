"""A small audit with many shards, seeded moments in the middle of it, and what must hold afterwards."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from robustcf_jobs.cluster.session import refresh_authentication

import robustcf as rc
from tests.helpers.jobworld import (
    TOKEN,
    Command,
    customers,
    make_audit,
    make_forest,
    rows,
    same_rows,
    same_summary,
    shards,
)

CUSTOMERS = 72
SHARDS = 16
SLOW_SEEDS = [pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3, 4, 5)]
SEEDS = [1, *SLOW_SEEDS[1:]]


@contextmanager
def nodes(head: dict[str, Any], *others: dict[str, Any]) -> Iterator[tuple[dict[str, str], list[Any], Any]]:
    """A cluster of several nodes on this machine: how a command reaches it, its nodes, and the cluster."""
    from ray.cluster_utils import Cluster

    before = {name: os.environ.get(name) for name in TOKEN}
    os.environ.update(TOKEN)  # the nodes expect the token that the commands have
    refresh_authentication()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False} | head)
    try:
        added = [cluster.add_node(**({"num_cpus": 1} | other)) for other in others]
        cluster.wait_for_nodes()
        yield TOKEN | {"RAY_ADDRESS": cluster.address}, [cluster.head_node, *added], cluster
    finally:
        cluster.shutdown()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def small_audit(folder: Path, **changes: Any) -> Path:
    options: dict[str, Any] = {"shard": {"rows": CUSTOMERS // SHARDS}, "validation": {"forests": 2}}
    return make_audit(folder, mostly_denied(), **(options | changes))


@cache
def mostly_denied() -> pd.DataFrame:
    """Customers of whom five in six are turned down (at random it is one in ten)."""
    frame = customers(2000)
    with tempfile.TemporaryDirectory() as folder:
        forest = make_forest(Path(folder) / "forest")
    data = rc.datasets.synthetic_credit(1)
    denied = forest.predict(data.encode(frame.drop(columns="customer")), "soft") == 0
    kept = [frame[denied][: CUSTOMERS * 5 // 6], frame[~denied][: CUSTOMERS // 6]]
    return pd.concat(kept, ignore_index=True)


def moment(rng: random.Random, command: Command, run: Path, most: int = SHARDS // 2) -> None:
    """Wait for some moment while rows are being explained."""
    least = rng.randrange(1, most)
    command.wait_for(lambda: len(shards(run)) >= least)
    time.sleep(rng.random() * 0.1)


def assert_whole(undisturbed: Path, run: Path) -> None:
    """Every row exactly once and equal to the undisturbed run's, and nothing half-written."""
    same_rows(undisturbed, run)
    same_summary(undisturbed, run)
    assert json.loads((run / "manifest.json").read_text())["state"] == "complete"
    assert not list(run.glob("**/.*.part"))
    assert not (run / "_work").exists()


def assert_whole_but(undisturbed: Path, run: Path, stopped: set[str]) -> pd.DataFrame:
    """The same, but for the customers whose rows had to be stopped; returns the latter's rows."""
    expected, found = rows(undisturbed), rows(run)
    ids = expected["instance_id"]
    pd.testing.assert_series_equal(ids, found["instance_id"])
    fine = ~ids.isin(stopped)
    pd.testing.assert_frame_equal(expected[fine], found[fine], check_exact=True)
    return found[~fine]
