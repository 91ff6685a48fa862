"""The content of a manifest, and the checks before a run is resumed."""

from __future__ import annotations

import hashlib
import platform
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from robustcf.support.documents import parse_json

from ..cluster.retries import with_retries
from ..cluster.signals import work_is_kept
from ..cluster.tasks import Tasks
from ..inputs.config import config_as_json, config_hash
from ..inputs.errors import BadInput, TaskFailed, one_line
from ..inputs.method_tables import methods_of
from ..terminal.progress import stage
from .columns import COUNTERFACTUALS, VALIDATION
from .folder import BROKEN, FORMAT, Published, RunFolder
from .manifest_shape import counts_are_sound
from .planned import planned_shards, run_fingerprint

SLOWEST = 3  # customers in the log of a shard
CHECKPOINT = 15.0  # seconds between two writings of the manifest
DECISIVE = ("robustcf", "numpy", "scipy", "scikit-learn", "numba", "highspy", "gurobipy")
PACKAGES = (*DECISIVE, "pyarrow", "ray")


def new_manifest(kind: str, config: Any) -> dict[str, Any]:
    """Return the manifest of a new run."""
    return {
        "format": FORMAT,
        "kind": kind,
        "config": config_as_json(config),
        "config_hash": config_hash(config),
        "seed": config.seed,
        "methods": len(methods_of(config)),
        "versions": versions(),
        "state": "running",
        "shards": {},
        "counts": {},
        "began": round(time.time(), 3),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a run uses."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def check_versions(run: RunFolder, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Refuse to resume a run of another robustcf version; return other changes.

    Versions of robustcf must agree in x.y of x.y.z. The packages returned have another version than when
    the run began, and may change answers. A line on stderr names them.
    """
    began, now = manifest.get("versions", {}), versions()
    before, ours = str(began.get("robustcf", "unknown")), now["robustcf"]
    if before.split(".")[:2] != ours.split(".")[:2]:
        raise BadInput(
            f"{run.shown} was begun by robustcf {before} and this is {ours}, whose answers may differ:"
            f" install robustcf {before} to finish it, or choose another output"
        )
    changed = {name: now[name] for name in DECISIVE if began.get(name) != now[name]}
    if changed:
        then = ", ".join(f"{name} {began.get(name, 'unknown')}" for name in changed)
        rest = ", ".join(f"{name} {found}" for name, found in changed.items())
        said = f"{run.shown} was begun with {then}; finished shards are kept, the rest is made with {rest}"
        print(f"robustcf: {one_line(said)}", file=sys.stderr, flush=True)
    return changed


class Journal:
    """The manifest during a run; the whole file is rewritten every few seconds."""

    def __init__(self, run: RunFolder, manifest: dict[str, Any]) -> None:
        self.run, self.manifest, self._last = run, manifest, 0.0
        self._begin = time.monotonic()
        self._before: float | None = None  # seconds of work before this process; None while nothing is made

    def keep(self, file: Published, **counts: Any) -> None:
        """Record a shard that already exists, without writing the manifest."""
        self.manifest["shards"][file.name] = {"size": file.size, "sha256": file.digest, **counts}

    def note(self, file: Published, **counts: Any) -> None:
        """Record a new shard; write the manifest every `CHECKPOINT` seconds."""
        self.keep(file, **counts)
        if time.monotonic() - self._last > CHECKPOINT:
            with suppress(OSError):  # a resumed run can do without it: each shard has its note
                self._last = time.monotonic()
                self.time()
                self.run.write_manifest(self.manifest)

    def write(self) -> None:
        self._last = time.monotonic()
        self.time()
        with_retries(self.run.write_manifest, self.manifest)
        work_is_kept()

    def time(self) -> None:
        """Note the run's seconds of work so far; pauses between two processes do not count."""
        if self._before is not None:
            self.manifest["seconds"] = round(self._before + time.monotonic() - self._begin, 1)

    def stop_time(self) -> None:
        """Note the run's seconds of work for the last time, so that alarms and manifest agree."""
        self.time()
        self._before = None

    def count(self, expected: int) -> Counter[str]:
        """Count the statuses in the planned shards; fail unless `expected` rows have one."""
        planned = planned_shards(self.manifest)
        counts: Counter[str] = Counter()
        for name in planned:
            counts.update(self.manifest["shards"].get(f"counterfactuals/{name}", {}).get("counts", {}))
        if counts.total() != expected:
            raise TaskFailed(
                f"{self.run.shown}: {counts.total()} rows have a status, but {expected} are expected"
            )
        self.manifest["counts"] = dict(sorted(counts.items()))
        return counts

    def reopen(self) -> None:
        """Mark the run as running, even if it was complete before."""
        self._before = self.manifest.get("seconds", 0.0)
        self.manifest["state"] = "running"
        self.write()

    def finish(self) -> None:
        """Remove partial files and mark the run as complete; this is its last write."""
        self.run.sweep_up()
        self.manifest["state"] = "complete"
        self.write()


def finished_shards(
    run: RunFolder, journal: Journal, folder: str, wanted: Sequence[str], tasks: Tasks
) -> set[str]:
    """Return the complete shards that the manifest lists or that this run made."""
    own = run_fingerprint(journal.manifest)
    there = run.names(folder)
    names = [f"{folder}/{name}" for name in wanted if f"{folder}/{name}" in there]
    done: set[str] = set()
    if not names:
        return done
    groups = [tuple(names[i : i + 50]) for i in range(0, len(names), 50)]
    with stage(f"checking {folder}", len(names)) as progress:
        for _, checked in tasks.run(check_files, [(run, group) for group in groups]):
            for file, note in checked:
                known = journal.manifest["shards"].get(file.name)
                ours = note.get("run") == own if known is None else known["sha256"] == file.digest
                if ours:
                    journal.keep(file, **{k: note[k] for k in NOTED if k in note})
                    done.add(file.name.removeprefix(f"{folder}/"))
            progress.advance(len(checked))
    return done


COLUMNS = {"counterfactuals": COUNTERFACTUALS.names, "validation": VALIDATION.names}
NOTED = ("rows", "customers", "counts", "solved", "copied", "detectors", "fresh", "log")


def check_files(run: RunFolder, names: Sequence[str]) -> list[tuple[Published, dict[str, Any]]]:
    """Return the digest and the note of each complete Parquet file."""
    found = []
    for name in names:
        content = run.read(name)
        try:
            note = whole_note(content, COLUMNS.get(name.split("/")[0]))
        except BROKEN:
            continue  # the run makes a broken shard again
        found.append((Published(name, len(content), hashlib.sha256(content).hexdigest()), note))
    return found


def whole_note(content: bytes, columns: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the note in a shard's footer after checking every page of the shard, and its columns.

    No checksum protects the footer: one wrong bit there can rename a column.
    """
    with pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True) as file:
        note: dict[str, Any] = parse_json((file.schema_arrow.metadata or {}).get(b"robustcf", b"{}"))
        rows = sum(len(batch) for batch in file.iter_batches(16_384))
        names = file.schema_arrow.names
    if columns is not None and names != list(columns):
        raise ValueError("the shard has other columns")
    if not counts_are_sound(note) or note.get("rows", rows) != rows:
        raise ValueError("the shard's note has wrong counts or another number of rows than the shard")
    return note


@dataclass(frozen=True)
class ShardDone:
    """A worker's report: the published file and its counts."""

    file: Published
    rows: int
    customers: int
    counts: dict[str, int]
    solved: int
    copied: int
    detectors: dict[str, str] = field(default_factory=dict)
    fresh: str = ""  # a digest of the fresh forests of a sweep's certificates
    log: dict[str, Any] = field(default_factory=dict)  # see `shard_log`


def shard_log(begin: float, ids: Sequence[str], seconds: np.ndarray) -> dict[str, Any]:
    """Return what a worker logs about a shard: where, when, how long, and the customers that took longest.

    `begin` is the task's start (`time.time`), and `seconds` is the solving time of each customer.
    """
    now = time.time()
    slowest = np.argsort(-seconds, kind="stable")[:SLOWEST]
    return {
        "host": socket.gethostname(),
        "ended": round(now, 3),
        "seconds": round(now - begin, 3),
        "slowest": [[ids[i], round(float(seconds[i]), 4)] for i in slowest if seconds[i] > 0],
    }


def noted_counts(done: ShardDone) -> dict[str, Any]:
    """Return the parts of a worker's report that the manifest stores."""
    return {k: v for k, v in asdict(done).items() if k in NOTED}


BROKEN_LIMIT = 3


def exit_code(counts: Mapping[str, int], alarm: str = "ok") -> int:
    """Return 1 if a row has the status `error`, 3 if a limit that fails is broken, otherwise 0."""
    if counts.get("error", 0):
        return 1
    return BROKEN_LIMIT if alarm == "fail" else 0
