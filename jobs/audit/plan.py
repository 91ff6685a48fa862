"""The first pass over an audit's customers, and the plan of its shards.

The first pass writes the rows, sorted by hash, to the run's `_work` folder, and merges them into the files
that the shards read (see `ranges`). A shard of the second pass is a range of hashes. A file in `_work` marks
the merged files as complete, and has the places of all segments.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from robustcf import Schema

from ..cluster.tasks import Tasks
from ..inputs.config import Customers, Sharding
from ..inputs.errors import BadInput
from ..inputs.tables import Plan
from ..run.folder import RunFolder
from ..run.manifest_shape import MOST_BITS
from ..run.question import Question
from ..terminal.progress import stage
from .ranges import (
    ID_BITS,
    IDS_AT_ONCE,
    MOST_REPEATED,
    RANGE_BYTES,
    RangeFile,
    as_json,
    bits_for,
    from_json,
    merge_range,
    repeated_ids,
)
from .scan import Scanned, checksums, find_duplicate, first_rows, scan_chunks

SCAN_TASKS = 64  # if there are more chunks, a task reads several
MOST_CHUNKS = 8
MOST_CUSTOMERS = 8192  # in a shard, even if they are solved quickly
PARALLEL = 64  # shards of a small audit, if each has `LEAST_SECONDS` of work: the cluster may still grow
LEAST_SECONDS = 1.0


@dataclass(frozen=True)
class FirstPass:
    """The customer table, and what the tasks need to read it. `forest` is a reference."""

    folder: RunFolder
    tasks: Tasks
    table: Plan
    customers: Customers
    question: Question
    schema: Schema
    forest: Any

    def plan(
        self,
        sharding: Sharding,
        pilot: Callable[[list[pa.Table]], float],
        settle: Callable[[int], None],
    ) -> tuple[dict[str, Any], tuple[RangeFile, ...]]:
        """Read all customers; return the plan of the shards, with checksums of the rows, and their files.

        The checksums do not depend on the order of the rows. `settle` is told the number of rejected
        customers, and may refuse it. `pilot` measures the seconds of some rejected customers.
        """
        self.folder.remove("_work")
        try:
            found = self._scan()
            rows = sum(s.rows for s in found)
            if not rows:
                raise BadInput(f"{self.customers.data}: the table has no rows")
            if self.customers.id is not None:
                self._refuse_duplicates(found)
            plan: dict[str, Any] = {
                "rows": rows,
                "denied": sum(s.denied for s in found),
                "invalid": sum(s.invalid for s in found),
            }
            settle(plan["denied"])
            sample = first_rows([table for s in found for table in s.sample])
            plan["bits"] = self._bits(plan, sharding, partial(pilot, sample))
        except BadInput:
            self.folder.remove("_work")  # this run has written nothing else
            raise
        planned = {"plan": plan} | checksums(found)
        return planned, self._merge(found, planned)

    def repeat(self, manifest: dict[str, Any]) -> tuple[RangeFile, ...]:
        """Return the files of the shards of a resumed run; repeat the first pass if they are gone.

        The rows must be the same as when the run began.
        """
        mark, pieces = _mark(manifest), manifest["plan"]["pieces"]
        if self.folder.names("_work").keys() >= {mark, *pieces}:
            files = from_json(self.folder.read(mark))
            if files is not None and [file.name for file in files] == pieces:
                return files
        self.folder.remove("_work")
        found = self._scan()
        now = checksums(found) | {"rows": sum(s.rows for s in found)}
        then = manifest | {"rows": manifest["plan"]["rows"]}
        if any(then[key] != value for key, value in now.items() if key in then):
            self.folder.remove("_work")
            raise BadInput(
                f"{self.customers.data}: the rows have changed since this run began, though the"
                " file's size and time have not; choose another output"
            )
        return self._merge(found, manifest)

    def _merge(self, found: Sequence[Scanned], planned: dict[str, Any]) -> tuple[RangeFile, ...]:
        """Merge the files of the first pass; list the new files in the plan."""
        bits = planned["plan"]["bits"]
        range_bits = min(bits, bits_for(sum(s.size for s in found) / RANGE_BYTES))
        files = self.tasks.put(tuple(file for s in found for file in s.files))
        calls = [(self.folder, files, number, range_bits, bits) for number in range(2**range_bits)]
        merged: dict[int, RangeFile] = {}
        with stage("sorting", len(calls)) as progress:
            for call, file in self.tasks.run(merge_range, calls):
                merged[call[2]] = file
                progress.advance(1)
        ordered = tuple(merged[number] for number in sorted(merged))
        planned["plan"]["pieces"] = [file.name for file in ordered]
        self.folder.publish(_mark(planned), as_json(ordered))
        return ordered

    def _scan(self) -> list[Scanned]:
        """Write the rows, sorted by hash; return what each task found."""
        found: dict[int, Scanned] = {}
        chunks = self.table.chunks
        together = min(MOST_CHUNKS, math.ceil(len(chunks) / SCAN_TASKS))
        with stage("reading", self.table.rows or 0, "customers") as progress:
            calls = [
                (
                    self.folder,
                    self.customers,
                    self.question,
                    self.schema,
                    self.forest,
                    chunks[first : first + together],
                )
                for first in range(0, len(chunks), together)
            ]
            for call, scanned in self.tasks.run(scan_chunks, calls):
                found[call[-1][0].number] = scanned
                progress.advance(scanned.rows)
        return [found[number] for number in sorted(found)]

    def _refuse_duplicates(self, found: Sequence[Scanned]) -> None:
        """Refuse ids that occur twice. Each task looks at a range of the hashes of all ids."""
        bits = min(ID_BITS, bits_for(sum(s.rows for s in found) / IDS_AT_ONCE))
        files = self.tasks.put(tuple(file for s in found for file in s.files))
        calls = [(self.folder, files, number, bits) for number in range(2**bits)]
        again = [part for _, part in self.tasks.run(repeated_ids, calls)]
        total = sum(count for count, _ in again)
        if not total:
            return
        repeated_hashes = np.concatenate([hashes for _, hashes in again])[:MOST_REPEATED]
        seen: Counter[str] = Counter()
        of_chunks = [(self.customers, chunk, repeated_hashes) for chunk in self.table.chunks]
        for _, names in self.tasks.run(find_duplicate, of_chunks):
            seen.update(names)
        repeated = sorted(name for name, count in seen.items() if count > 1)
        if repeated:
            raise BadInput(
                f"{self.customers.data}: id {repeated[0]!r} occurs {seen[repeated[0]]} times"
                f" (repeated ids: {len(repeated) if total <= MOST_REPEATED else total});"
                " make the ids unique"
            )

    def _bits(self, plan: dict[str, Any], sharding: Sharding, pilot: Callable[[], float]) -> int:
        """Return log2 of the number of shards; it depends on the work, not on the CPUs that are there now."""
        if sharding.rows is not None:
            shards = plan["rows"] / sharding.rows
        else:
            seconds = pilot() if plan["denied"] else 0.0
            work = plan["denied"] * seconds
            shards = max(
                work / sharding.seconds,
                plan["rows"] / MOST_CUSTOMERS,
                min(PARALLEL, work / LEAST_SECONDS),
            )
        return min(MOST_BITS, bits_for(shards))


def _mark(manifest: dict[str, Any]) -> str:
    """Return the name of the file that marks the merged files as complete."""
    return f"_work/checked-{manifest['data_hash']}"
