"""The bars that take minutes: memory of a large audit, two workers, far storage, ten million rows reduced."""

import json
import os
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from robustcf_jobs.run.columns import COUNTERFACTUALS, VALIDATION

import robustcf as rc
from tests.helpers.jobworld import Command, customers, make_audit, make_forest, shards, write_config
from tests.helpers.storage import bucket

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]
CUSTOMERS = int(os.environ.get("ROBUSTCF_SCALE_CUSTOMERS", "200000"))
ROWS = int(os.environ.get("ROBUSTCF_SCALE_ROWS", "10000000"))
MB = 2**20


def test_memory_of_a_large_audit(tmp_path: Path) -> None:
    """Driver within 500 MB of its start, no worker above 1 GB."""
    make_forest(tmp_path / "forest", trees=20)
    frame = customers(CUSTOMERS)
    config = make_audit(tmp_path, frame[:1], validation={"forests": 20}, shard={"seconds": 20.0})
    frame.to_parquet(tmp_path / "customers.parquet", row_group_size=50_000)
    del frame
    begin = time.monotonic()
    command = Command("audit", str(config), "--cpus", "2")
    driver, first, most, worker = psutil.Process(command.process.pid), 0.0, 0.0, 0.0
    while command.process.poll() is None:
        try:
            used = driver.memory_info().rss / MB
            first = first or (used if command.workers() else 0.0)
            most = max(most, used)
            worker = max([worker, *(w.memory_full_info().uss / MB for w in command.workers())])
        except psutil.Error:
            pass
        time.sleep(0.5)
    code, output = command.finish()
    assert code == 0, output[-2000:]
    seconds = time.monotonic() - begin
    report(customers=CUSTOMERS, seconds=seconds, driver_start=first, driver_most=most, worker_most=worker)
    assert most - first <= 500
    assert worker <= 1024
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert sum(manifest["counts"].values()) == 3 * CUSTOMERS
    assert len(shards(tmp_path / "run")) > 1


def test_two_workers_are_nearly_twice_as_fast_as_one_process(tmp_path: Path) -> None:
    """At least 1.7 × the rows per second of one process calling `explain_many`, start-up apart."""
    from robustcf_jobs.audit.audit import audit
    from robustcf_jobs.cluster.session import session
    from robustcf_jobs.inputs.config import AuditConfig, read_config

    forest = make_forest(tmp_path / "forest", trees=100)
    frame, data = customers(16_000), rc.datasets.synthetic_credit(1)
    methods = [rc.Naive(), rc.DirectSAA(0.2), rc.DirectSAA(0.05)]
    explainer = rc.Explainer(forest, data.schema, methods, target=1)
    rows = frame.drop(columns="customer")[:4000]
    explainer.explain_many(rows[:50])
    begin = time.perf_counter()
    explainer.explain_many(rows)
    alone = time.perf_counter() - begin
    with session("local", cpus=2):
        small = make_audit(tmp_path / "warm", customers(200), training=None)
        assert audit(read_config(AuditConfig, small)) == 0
        config = make_audit(tmp_path, frame, row_group=4000, training=None, shard={"rows": 500})
        assert audit(read_config(AuditConfig, config)) == 0
    speed = steady_speed(tmp_path / "run")
    report(rows=len(rows), alone=len(rows) / alone, two_workers=speed, ratio=speed * alone / len(rows))
    assert speed * alone / len(rows) >= 1.7


def steady_speed(run: Path) -> float:
    """Customers per second between the first shards' publication and the last one's."""
    facts = json.loads((run / "manifest.json").read_text())["shards"]
    ends = sorted((p.stat().st_mtime, facts[f"counterfactuals/{p.name}"]["customers"]) for p in shards(run))
    return float(sum(n for _, n in ends[2:]) / (ends[-1][0] - ends[1][0]))


def test_storage_thirty_milliseconds_away_costs_less_than_a_third(tmp_path: Path) -> None:
    """Input and output in a bucket. The first run only warms up Ray's workers. Meant for a quiet machine."""
    from robustcf_benchmarks.linear import make_audit as make_trivial_audit
    from robustcf_jobs.audit.audit import audit
    from robustcf_jobs.cluster.session import session
    from robustcf_jobs.inputs.config import AuditConfig, read_config
    from robustcf_jobs.run.folder import RunFolder

    seconds: dict[float, list[float]] = {0.0: [], 0.03: []}
    customers = int(os.environ.get("ROBUSTCF_FAR_CUSTOMERS", "100000"))
    with bucket() as (proxy, address), session("local", cpus=2):
        config = make_trivial_audit(tmp_path, customers)
        table = RunFolder(address.replace("/run?", "/in?"))
        table.publish("customers.parquet", (tmp_path / "customers.parquet").read_bytes())
        about = tomllib.loads(config.read_text())
        about["customers"]["data"] = address.replace("/run?", "/in/customers.parquet?")
        about["shard"] = {"rows": customers // 16}
        for number, delay in enumerate([0.0, 0.0, 0.03, 0.0, 0.03]):
            proxy.delay = delay
            about["output"] = address.replace("/run?", f"/run-{number}?")
            begin = time.monotonic()
            assert audit(read_config(AuditConfig, write_config(config, about))) == 0
            if number:
                seconds[delay].append(time.monotonic() - begin)
    near, far = min(seconds[0.0]), min(seconds[0.03])
    report(customers=customers, near=near, far=far, ratio=far / near)
    assert far <= 1.3 * near


def test_ten_million_rows_are_reduced_in_little_memory(tmp_path: Path) -> None:
    """`robustcf reduce` on generated rows: driver and workers together stay under 1 GB each."""
    methods = 4
    make_run(tmp_path / "run", ROWS, methods, 100_000)
    command = Command("reduce", str(tmp_path / "run"), "--cpus", "2")
    driver, most, worker, begin = psutil.Process(command.process.pid), 0.0, 0.0, time.monotonic()
    while command.process.poll() is None:
        try:
            most = max(most, driver.memory_info().rss / MB)
            worker = max([worker, *(w.memory_full_info().uss / MB for w in command.workers())])
        except psutil.Error:
            pass
        time.sleep(0.3)
    code, output = command.finish()
    assert code == 0, output[-2000:]
    report(rows=ROWS, seconds=time.monotonic() - begin, driver_most=most, worker_most=worker)
    assert most < 1024
    assert worker < 1024
    summary = pq.read_table(tmp_path / "run/summary/summary.parquet").to_pandas()
    assert summary[summary["cohort"] == ""]["n"].sum() == ROWS


def make_run(run: Path, rows: int, methods: int, shard: int) -> None:
    """A finished audit of generated rows (five validation forests, one cohort column)."""
    rng = np.random.default_rng(0)
    for folder in ("counterfactuals", "validation"):
        (run / folder).mkdir(parents=True)
    alphas = [None, 0.2, 0.1, 0.05][:methods]
    names = ["naive", "direct-saa", "direct-saa", "direct-saa"][:methods]
    for number, start in enumerate(range(0, rows, shard)):
        n = min(shard, rows - start)
        ids = np.repeat(np.arange(start // methods, start // methods + n // methods), methods).astype(str)
        status = np.where(rng.random(n) < 0.9, "optimal", "already_favourable")
        point = status == "optimal"
        region = np.repeat(rng.integers(0, 5, n // methods), methods)
        columns: dict[str, Any] = {f.name: pa.nulls(n, f.type) for f in COUNTERFACTUALS}
        columns |= {
            "dataset": pa.array(["customers"] * n),
            "simulation": pa.array(np.zeros(n, dtype=np.int32)),
            "instance_id": pa.array(ids),
            "cohort": pa.array([[("region", str(r))] for r in region], COUNTERFACTUALS.field("cohort").type),
            "method": pa.array(names * (n // methods)),
            "alpha": pa.array(alphas * (n // methods), pa.float64()),
            "voting": pa.array(["soft"] * n),
            "n_trees": pa.array(np.full(n, 100, dtype=np.int32)),
            "threshold": pa.array(np.full(n, 0.5)),
            "status": pa.array(status),
            "distance": pa.array(rng.gamma(2, 0.05, n), mask=~point),
            "score_after": pa.array(np.full(n, 0.6), mask=~point),
            "n_changed": pa.array(rng.integers(1, 5, n).astype(np.int32), mask=~point),
            "seconds": pa.array(rng.gamma(2, 0.01, n)),
        }
        name = f"shard-{number:05d}.parquet"
        table = pa.table(columns, schema=COUNTERFACTUALS)
        pq.write_table(table, run / "counterfactuals" / name, compression="zstd")
        kept = table.filter(pa.array(point))
        valid = {f.name: kept[f.name] for f in VALIDATION if f.name in kept.schema.names}
        valid["scenario"] = pa.array(["same-data"] * len(kept))
        valid["seeds"] = pa.array([[1, 2, 3, 4, 5]] * len(kept), VALIDATION.field("seeds").type)
        valid["valid"] = pa.array(list(rng.random((len(kept), 5)) < 0.8), VALIDATION.field("valid").type)
        pq.write_table(pa.table(valid, schema=VALIDATION), run / "validation" / name, compression="zstd")
    config = {"customers": {"cohort": ["region"]}}
    manifest = {"format": 1, "kind": "audit", "config": config, "methods": methods, "validation": "generated"}
    manifest |= {"config_hash": "", "state": "complete", "shards": {}, "counts": {}}
    (run / "manifest.json").write_text(json.dumps(manifest))


def report(**figures: float) -> None:
    sys.stdout.write(json.dumps({k: round(v, 2) for k, v in figures.items()}) + "\n")
