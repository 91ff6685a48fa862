"""What a manifest says, and the checks that let a run go on where it stopped."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.config import as_plain, config_hash, methods_of
from jobs.fanout import Tasks, patiently
from jobs.manifest_shape import counts_are_sound
from jobs.progress import stage
from jobs.store import BROKEN, FORMAT, Published, RunFolder
from robustcf.documents import parse_json

CHECKPOINT = 15.0  # seconds between two writings of the manifest
PACKAGES = ("robustcf", "numpy", "scipy", "scikit-learn", "numba", "highspy", "gurobipy", "pyarrow", "ray")


def new_manifest(kind: str, config: Any) -> dict[str, Any]:
    """A run that has just begun."""
    return {
        "format": FORMAT,
        "kind": kind,
        "config": as_plain(config),
        "config_hash": config_hash(config),
        "seed": config.seed,
        "methods": len(methods_of(config)),
        "versions": _versions(),
        "state": "running",
        "shards": {},
        "counts": {},
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


class Journal:
    """The manifest while a run is going on: rewritten every few seconds, whole."""

    def __init__(self, run: RunFolder, manifest: dict[str, Any]) -> None:
        self.run, self.manifest, self._last = run, manifest, 0.0

    def note(self, file: Published, **facts: Any) -> None:
        self.manifest["shards"][file.name] = {"size": file.size, "sha256": file.digest, **facts}
        if time.monotonic() - self._last > CHECKPOINT:
            with suppress(OSError):  # shards speak for themselves: a resume needs no checkpoint
                self._last = time.monotonic()
                self.run.write_manifest(self.manifest)

    def write(self) -> None:
        self._last = time.monotonic()
        patiently(self.run.write_manifest, self.manifest)

    def finish(self) -> Counter[str]:
        """Counts over all shards; the run is complete, and nothing that a killed worker left is in it."""
        self.run.sweep_up()
        counts: Counter[str] = Counter()
        for facts in self.manifest["shards"].values():
            counts.update(facts.get("counts", {}))
        self.manifest |= {"counts": dict(sorted(counts.items())), "state": "complete"}
        self.write()
        return counts


def finished_shards(
    run: RunFolder, journal: Journal, folder: str, wanted: Sequence[str], tasks: Tasks
) -> set[str]:
    """Shards that are there and whole; those that the manifest does not know are looked at."""
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
                if known is None or known["sha256"] == file.digest:
                    journal.note(file, **{k: note[k] for k in NOTED if k in note})
                    done.add(file.name.removeprefix(f"{folder}/"))
            progress.advance(len(checked))
    return done


NOTED = ("rows", "customers", "counts", "solved", "copied", "detectors")


def check_files(run: RunFolder, names: Sequence[str]) -> list[tuple[Published, dict[str, Any]]]:
    """Digest and note of each file that is a whole Parquet file."""
    found = []
    for name in names:
        content = run.read(name)
        try:
            note = whole_note(content)
        except BROKEN:
            continue  # broken: it will be made again
        found.append((Published(name, len(content), hashlib.sha256(content).hexdigest()), note))
    return found


def whole_note(content: bytes) -> dict[str, Any]:
    """What a shard notes of itself, if every page of it is as it was written."""
    with pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True) as file:
        note: dict[str, Any] = parse_json((file.schema_arrow.metadata or {}).get(b"robustcf", b"{}"))
        rows = sum(len(batch) for batch in file.iter_batches(16_384))
    if not counts_are_sound(note) or note.get("rows", rows) != rows:
        raise ValueError("a shard without its note, or with other rows than it notes")
    return note


def facts_of(done: Any) -> dict[str, Any]:
    """A worker's report as the manifest keeps it."""
    return {k: v for k, v in asdict(done).items() if k in NOTED}


def digest_of(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def exit_code(counts: Mapping[str, int]) -> int:
    """0 only when every row has a status and none is `error`."""
    return 1 if counts.get("error", 0) else 0
