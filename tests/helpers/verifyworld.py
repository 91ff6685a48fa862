"""An audit for `robustcf verify` to check, and ways to alter a copy of it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from robustcf_jobs.verify.auditor import Auditor
from robustcf_jobs.verify.command import lines
from robustcf_jobs.verify.run import verify_run

import robustcf as rc
from tests.helpers.jobworld import customers, make_audit, make_forest, run_audit, shards

Manifest = dict[str, Any]
Rows = list[dict[str, Any]]
METHODS = [
    {"name": "naive"},
    {"name": "direct-saa", "alpha": [0.2, 0.05]},
    {"name": "robust-saa", "alpha": 0.05, "beta": 0.001},  # beyond every score: no recourse
    {"name": "convex-approximation"},
]
HOUSING = rc.datasets.synthetic_credit(1).schema.columns.index("housing=own")
RULES: dict[str, dict[str, Any]] = {
    "months_employed": {"at_most_up": 30},
    "savings": {"at_most_up_percent": 400, "step": 500.0},
    "housing": {"cost_table": [["*", "own", 0.9]], "forbidden": [["rent", "with family"]]},
}


def make_verified(folder: Path) -> None:
    """24 customers: most turned down, two of them equal, one unreadable; some whom no change helps."""
    forest = make_forest(folder / "forest")
    frame, data = customers(300), rc.datasets.synthetic_credit(300, seed=5)
    denied = forest.predict(data.encode(data.X)) == 0
    chosen = np.r_[np.flatnonzero(denied)[:16], np.flatnonzero(~denied)[:8]]
    frame = frame.iloc[chosen].reset_index(drop=True)
    frame.loc[15, frame.columns[1:]] = frame.loc[14, frame.columns[1:]]
    frame.loc[23, "housing"] = "castle"
    config = make_audit(folder, frame, method=METHODS, validation={"forests": 3}, shard={"rows": 12})
    schema = data.schema
    for name, changes in RULES.items():
        schema = schema.replace(name, **changes)
    link = {
        "when": {"feature": "savings", "moves": "up"},
        "then": {"feature": "loan_amount", "moves": ["same", "down"]},
    }
    (folder / "schema.toml").write_text(schema.with_rules([link], max_changes=4).to_toml())
    assert run_audit(config) == 0


def found(
    run: Path,
    customers: bool = True,
    customers_table: str | None = None,
    forest: str | None = None,
    config: str | None = None,
) -> list[str]:
    """What `verify` names, given the auditor's own inputs; each mismatch in one line of bounded length."""
    done = verify_run(str(run), Auditor(customers_table, forest, config, customers))
    said = [line for line in lines(done) if not line.startswith("not checked")]
    assert bool(said) == bool(done.findings.total)
    assert all("\n" not in line for line in said)
    return said


def alter_manifest(run: Path, change: Callable[[Manifest], Any]) -> None:
    path = run / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def alter_rows(run: Path, change: Callable[[Rows], Any], folder: str = "counterfactuals") -> dict[str, Any]:
    """Alter rows and make the manifest agree: digest, size, rows, counts. The row that was altered."""
    counts: Counter[str] = Counter()
    altered: dict[str, Any] | None = None
    for shard in shards(run):
        path = run / folder / shard.name
        table = pq.read_table(path)
        rows = table.to_pylist()
        if altered is None and any(row.get("status", "optimal") == "optimal" for row in rows):
            altered = change(rows)
        pq.write_table(pa.Table.from_pylist(rows, table.schema), path, compression="zstd")
        content = path.read_bytes()
        facts = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "rows": len(rows)}
        if folder == "counterfactuals":
            own = Counter(row["status"] for row in rows)
            counts.update(own)
            facts["counts"] = dict(own)
            facts["customers"] = len({row["instance_id"] for row in rows})
        alter_manifest(run, lambda m, n=f"{folder}/{shard.name}", f=facts: m["shards"][n].update(f))
    if folder == "counterfactuals":
        alter_manifest(run, lambda m: m.update(counts=dict(counts)))
    assert altered is not None
    return altered
