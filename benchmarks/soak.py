"""Run audits of random forests on one Ray while workers are killed: `make soak`.

The same driver runs all audits, so memory leaks of the driver or of Ray become visible. Every two seconds
the memory of each process is written to `soak-memory.csv`. At the end, for each kind of process, the last
quarter of the time is compared with the second quarter.
"""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import psutil

import robustcf as rc

MB = 2**20
SECONDS_BETWEEN_SHOTS = 10.0  # at most one per audit: a task has only four attempts


def drive(folder: Path, seconds: float) -> None:
    """Run audits until the time is over; compare each with the library's own answers."""
    from robustcf_jobs.cluster.session import session
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    end, round_number = time.monotonic() + seconds, 0
    with session(None, cpus=2):
        while time.monotonic() < end:
            rng = random.Random(round_number)
            data = rc.datasets.synthetic_credit(300, seed=round_number)
            kind = rng.choice([RandomForestClassifier, ExtraTreesClassifier])
            model = kind(rng.choice([5, 15, 40]), max_depth=rng.choice([2, 3, 4]), random_state=round_number)
            forest = rc.Forest.from_sklearn(model.fit(data.encode(data.X), data.y))
            result = _audit(folder / f"round-{round_number}", forest, data, rng)
            with (folder / "rounds.jsonl").open("a") as file:
                file.write(json.dumps({"round": round_number, **result}) + "\n")
            round_number += 1


def _audit(folder: Path, forest: rc.Forest, data: rc.datasets.Dataset, rng: random.Random) -> dict[str, Any]:
    import shutil

    import pandas as pd
    import tomli_w
    from robustcf_jobs.audit.audit import audit
    from robustcf_jobs.inputs.config import AuditConfig, read_config

    folder.mkdir()
    rc.save_forest(forest, folder / "forest")
    (folder / "schema.toml").write_text(data.schema.to_toml())
    frame = rc.datasets.synthetic_credit(rng.randrange(100, 600), seed=rng.randrange(10**6)).X
    frame.to_csv(folder / "customers.csv", index=False)
    data.X.assign(repaid=data.y).to_parquet(folder / "training.parquet")
    config: dict[str, Any] = {
        "output": "run",
        "model": {"forest": "forest", "schema": "schema.toml", "favourable": 1},
        "customers": {"data": "customers.csv", "cohort": ["sex"]},
        "method": [{"name": "naive"}, {"name": "direct-saa", "alpha": [0.2, 0.05]}],
        "training": {"data": "training.parquet", "label": "repaid"},
        "validation": {"forests": 3},
        "shard": {"rows": rng.choice([10, 40, 200])},
    }
    (folder / "audit.toml").write_text(tomli_w.dumps(config))
    begin = time.monotonic()
    code = audit(read_config(AuditConfig, folder / "audit.toml"))
    seconds = time.monotonic() - begin
    rows = pd.read_parquet(folder / "run/counterfactuals")
    methods: list[rc.Method] = [rc.Naive(), rc.DirectSAA(0.2), rc.DirectSAA(0.05)]
    chosen = rng.sample(range(len(frame)), 10)
    expected = rc.Explainer(forest, data.schema, methods, target=1).explain_many(frame.iloc[chosen])
    wrong = abs(len(rows) - 3 * len(frame)) + int(rows.duplicated(["instance_id", "method", "alpha"]).sum())
    by_key = {
        (row["instance_id"], row["method"], None if pd.isna(row["alpha"]) else row["alpha"]): row
        for row in rows[["instance_id", "method", "alpha", "status", "distance"]].to_dict("records")
    }
    for cf in expected:
        row = by_key[str(chosen[cf.row]), cf.method.name, cf.method.alpha]
        wrong += row["status"] != cf.status or not (
            row["distance"] == cf.distance or cf.distance != cf.distance
        )
    shutil.rmtree(folder)
    return {"code": code, "customers": len(frame), "wrong": int(wrong), "seconds": round(seconds, 1)}


def kind_of(process: psutil.Process) -> str:
    with suppress(psutil.Error, IndexError):
        line = process.cmdline()
        if line[0].startswith("ray::"):
            parent = process.parent()
            forked = parent is not None and parent.cmdline()[:1] == line[:1]
            return "solver" if forked else "worker" if line[0] in WORKERS else line[0]
        if any(word.endswith(("setup_worker.py", "default_worker.py")) for word in line):
            return "worker"
        scripts = [Path(word).name for word in line if word.endswith(".py")]
        return "driver" if "--drive" in line else scripts[0] if scripts else Path(line[0]).name
    return "gone"


WORKERS = ("ray::IDLE", "ray::_pinned_call", "ray::_pinned_call()")


def watch(folder: Path, seconds: float, log: Path) -> dict[str, Any]:
    """Start the driver, record the memory of all processes, kill workers.

    Return the result.
    """
    (folder / "rounds.jsonl").touch()
    driver = subprocess.Popen(
        [sys.executable, "-m", "robustcf_benchmarks.soak", "--drive", str(folder), str(seconds)],
        stdout=subprocess.DEVNULL,  # Ray reports each killed worker
        stderr=subprocess.DEVNULL,
    )
    rng, begin, shots, shot_at, last = random.Random(0), time.monotonic(), 0, 0, 0.0
    noted: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with log.open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["seconds", "pid", "kind", "rss_mb"])
        while driver.poll() is None:
            now = time.monotonic() - begin
            own = psutil.Process(driver.pid)
            with suppress(psutil.Error):
                processes = [own, *own.children(recursive=True)]
                workers = [p for p in processes if kind_of(p) in ("worker", "solver")]
                for process in processes:
                    with suppress(psutil.Error):
                        kind, rss = kind_of(process), process.memory_info().rss / MB
                        writer.writerow([f"{now:.1f}", process.pid, kind, f"{rss:.1f}"])
                        noted[kind].append((now, rss))
                done = (folder / "rounds.jsonl").read_text().count("\n")
                if workers and done > shot_at and now > last + rng.uniform(0.5, 1.5) * SECONDS_BETWEEN_SHOTS:
                    rng.choice(workers).kill()
                    shots, shot_at, last = shots + 1, done, now
            time.sleep(2.0)
    rounds = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    return {
        "exit_code": driver.returncode,
        "rounds": len(rounds),
        "customers": sum(r["customers"] for r in rounds),
        "wrong": sum(r["wrong"] for r in rounds),
        "codes": sorted({r["code"] for r in rounds}),
        "shots": shots,
        "memory_mb": growth(noted, time.monotonic() - begin),
    }


def growth(noted: Mapping[str, list[tuple[float, float]]], seconds: float) -> dict[str, dict[str, float]]:
    """Return medians of the second and last quarter, and the maximum, per kind."""
    found = {}
    for kind, samples in sorted(noted.items()):
        second = [rss for at, rss in samples if seconds / 4 <= at < seconds / 2]
        last = [rss for at, rss in samples if at >= seconds * 3 / 4]
        if second and last and kind != "gone":
            most = max(rss for _, rss in samples)
            numbers = {"second_quarter": median(second), "last_quarter": median(last), "most": most}
            found[kind] = {name: round(value, 1) for name, value in numbers.items()}
    return found


def is_flat(memory: Mapping[str, Mapping[str, float]]) -> bool:
    """Whether no kind of process grew by more than 5 % plus 5 MB."""
    return all(m["last_quarter"] <= 1.05 * m["second_quarter"] + 5 for m in memory.values())


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--drive"]:
        drive(Path(arguments[1]), float(arguments[2]))
        return 0
    minutes = float(arguments[0]) if arguments else 30.0
    with tempfile.TemporaryDirectory() as folder:
        result = watch(Path(folder), 60 * minutes, Path("soak-memory.csv"))
    print(json.dumps(result, indent=1))
    right = result["exit_code"] == 0 and result["wrong"] == 0 and result["codes"] == [0]
    return 0 if right and is_flat(result["memory_mb"]) else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.getcwd())
    sys.exit(main(sys.argv[1:]))
