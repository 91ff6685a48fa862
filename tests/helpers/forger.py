"""A forger who knows the run folder: alters rows and makes digests, counts, summary and report agree."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from robustcf_jobs.cluster.tasks import Tasks
from robustcf_jobs.inputs.config import SolverChoice, stored_config_hash
from robustcf_jobs.reduce.reduce import reduce_run
from robustcf_jobs.report.report import report_folder
from robustcf_jobs.run.columns import KEYS
from robustcf_jobs.run.folder import RunFolder
from robustcf_jobs.verify.hashing import hash_ids, hash_rows, mixed

import robustcf as rc
from robustcf.schema.encode import read_rows
from tests.helpers.jobworld import customers, make_audit, make_forest, run_audit, shards

Row = dict[str, Any]
ISOLATION, OUTLIER = "isolation-forest", "local-outlier-factor"
METHODS = [
    {"name": "naive"},
    {"name": "direct-saa", "alpha": [0.2, 0.05]},
    {"name": "robust-saa", "alpha": 0.05, "beta": 0.001},
    {"name": ISOLATION, "contamination": 0.3, "n_trees": 5},
    {"name": OUTLIER, "weight": 0.2},
]


def make_plausible_audit(folder: Path) -> None:
    """An audit whose methods look at training rows too: 9 customers, most of them turned down."""
    forest = make_forest(folder / "forest")
    frame, data = customers(300), rc.datasets.synthetic_credit(300, seed=5)
    denied = forest.predict(data.encode(data.X)) == 0
    chosen = np.r_[np.flatnonzero(denied)[:7], np.flatnonzero(~denied)[:2]]
    frame = frame.iloc[chosen].reset_index(drop=True)
    assert run_audit(make_audit(folder, frame, method=METHODS, validation={"forests": 2})) == 0


class Forger:
    """Works on a copy of a run; `ray` is what summaries are made with."""

    def __init__(self, run: Path, ray: Any) -> None:
        self.run, self.ray = run, ray

    def manifest(self, change: Callable[[dict[str, Any]], Any]) -> None:
        path = self.run / "manifest.json"
        manifest = json.loads(path.read_text())
        change(manifest)
        manifest["config_hash"] = stored_config_hash(manifest["config"])
        path.write_text(json.dumps(manifest))

    def rows(self, change: Callable[[list[Row]], list[Row] | None]) -> None:
        """Alter rows, shard by shard; a list that is returned takes their place."""
        counts: Counter[str] = Counter()
        for shard in shards(self.run):
            table = pq.read_table(shard)
            rows = table.to_pylist()
            given = change(rows)
            rows = rows if given is None else given
            _write(shard, rows, table.schema)
            own = Counter(row["status"] for row in rows)
            counts.update(own)
            facts = {"rows": len(rows), "counts": dict(own)}
            ids = {row["instance_id"] for row in rows}
            self._note(shard, **facts, customers=len(ids))
            self._keep(self.run / "keys" / shard.name, lambda row, ids=ids: row["instance_id"] in ids)
            with_point = {_key(row) for row in rows if row["point"] is not None}
            validation = self.run / "validation" / shard.name
            left = self._keep(validation, lambda row, keys=with_point: _key(row) in keys)
            self._note(validation, rows=left)
        self.manifest(lambda m: m.update(counts=dict(counts)))
        self.tell_again()

    def _keep(self, path: Path, wanted: Callable[[Row], bool]) -> int:
        table = pq.read_table(path)
        rows = [row for row in table.to_pylist() if wanted(row)]
        _write(path, rows, table.schema)
        return len(rows)

    def _note(self, path: Path, **facts: Any) -> None:
        content = path.read_bytes()
        facts |= {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        name = f"{path.parent.name}/{path.name}"
        self.manifest(lambda m: m["shards"][name].update(facts))

    def tell_again(self) -> None:
        """Summary and report, from the rows as they are now."""
        run = RunFolder(str(self.run))
        reduce_run(run, run.manifest() or {}, Tasks(self.ray, SolverChoice()))
        report_folder(str(self.run))

    def point_to(self, table: Path, schema: rc.Schema) -> None:
        """Another customer table, as if the run had been made from it."""
        frame = pd.read_parquet(table)
        read = read_rows(schema, frame[list(schema.names)])
        usable = np.array([reason is None for reason in read.reasons])
        ids = hash_ids(frame["customer"].to_numpy(dtype=object))
        with np.errstate(over="ignore"):
            total = int(mixed(np.where(usable, hash_rows(read.numbers), ids) ^ mixed(ids)).sum())

        def change(manifest: dict[str, Any]) -> None:
            manifest["config"]["customers"]["data"] = str(table)
            manifest["inputs"] = [[str(table), table.stat().st_size, "0"]]
            manifest["data_hash"] = f"{total % 2**64:016x}"

        self.manifest(change)


def _write(path: Path, rows: list[Row], schema: pa.Schema) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema), path, compression="zstd")


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[k] for k in KEYS)
