"""Measure what an audit of many customers costs: CPU time in all processes, and the driver's memory.

The forest is trivial (20 trees of depth 3), 9 % of the customers are rejected, and there are two
methods. Run it with `python -m robustcf_benchmarks.linear 10000 100000`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc

LOOK = 0.1  # seconds between two looks at the processes
TICKS = 100  # of the kernel's clock per second
PART = 100_000  # customers generated at a time
MB = 2**20


def make_audit(folder: Path, customers: int, output: str = "run") -> Path:
    """Write a model, a table of customers and a config; return the config's path."""
    folder.mkdir(parents=True, exist_ok=True)
    data = rc.datasets.synthetic_credit(300, seed=0)
    model = RandomForestClassifier(20, max_depth=3, random_state=4).fit(data.encode(data.X), data.y)
    rc.save_forest(rc.Forest.from_sklearn(model), folder / "forest")
    (folder / "schema.toml").write_text(data.schema.to_toml())
    writer = None
    for start in range(0, customers, PART):
        frame = rc.datasets.synthetic_credit(min(PART, customers - start), seed=start + 1).X
        frame.insert(0, "customer", [f"c{start + i:09d}" for i in range(len(frame))])
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if writer is None:
            writer = pq.ParquetWriter(folder / "customers.parquet", table.schema)
        writer.write_table(table, row_group_size=65_536)
    assert writer is not None
    writer.close()
    config = {
        "output": output,
        "model": {"forest": "forest", "schema": "schema.toml", "favourable": 1},
        "customers": {"data": "customers.parquet", "id": "customer"},
        "method": [{"name": "naive"}, {"name": "direct-saa", "alpha": 0.05}],
    }
    path = folder / "audit.toml"
    path.write_text(tomli_w.dumps(config))
    return path


def processes(root: int) -> Iterator[tuple[int, str, float, bool]]:
    """Yield the process id, name and CPU seconds of a process and its descendants.

    The time of a worker includes that of its ended children, which solve. The last value says whether the
    process is a child of a worker, whose time its parent reports.
    """
    found: dict[int, tuple[int, str, list[int]]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = stat.read_text().rpartition(")")
        except OSError:
            continue
        fields = tail.split()
        found[int(stat.parent.name)] = (
            int(fields[1]),
            head.partition("(")[2],
            [int(f) for f in fields[11:15]],
        )
    for pid, (parent, name, times) in found.items():
        above = pid
        while above in found and above != root:
            above = found[above][0]
        if above == root:
            worker = name.startswith("ray::")
            seconds = sum(times if worker else times[:2]) / TICKS
            yield pid, name, seconds, found.get(parent, (0, "", []))[1].startswith("ray::")


def measure(config: Path, *options: str) -> dict[str, float]:
    """Run an audit; return its seconds, CPU seconds by kind of process, and the driver's memory."""
    begin = time.monotonic()
    command = [sys.executable, "-m", "robustcf_jobs.cli", "audit", str(config), *options]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    spent: dict[int, tuple[str, float]] = {}
    memory = 0.0
    while driver.poll() is None:
        for pid, name, seconds, of_worker in processes(driver.pid):
            if not of_worker:
                kind = "driver" if pid == driver.pid else "workers" if name.startswith("ray::") else "ray"
                spent[pid] = (kind, seconds)
        try:
            status = Path(f"/proc/{driver.pid}/status").read_text()
            memory = max(memory, int(status.partition("VmRSS:")[2].split()[0]) * 1024 / MB)
        except (OSError, IndexError):
            pass
        time.sleep(LOOK)
    assert driver.stdout is not None
    output = driver.stdout.read().decode()
    if driver.returncode:
        raise RuntimeError(f"the audit failed: {output[-2000:]}")
    kinds = {kind: sum(s for k, s in spent.values() if k == kind) for kind in ("driver", "workers", "ray")}
    total = sum(kinds.values())
    return {"seconds": time.monotonic() - begin, "cpu": total, **kinds, "driver_mb": memory}


def main() -> None:
    for customers in map(int, sys.argv[1:] or ["10000", "100000"]):
        with tempfile.TemporaryDirectory() as folder:
            found = measure(make_audit(Path(folder), customers), "--cpus", "2")
        found |= {"customers": customers, "cpu_us_per_customer": 1e6 * found["cpu"] / customers}
        print(json.dumps({name: round(value, 2) for name, value in found.items()}), flush=True)


if __name__ == "__main__":
    main()
