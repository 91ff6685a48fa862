"""The first pass over an audit's customers, and the plan of its shards.

The first pass writes the rows, sorted by hash, to pieces in the run's `_work` folder. A shard of the second
pass is a range of hashes. A file in `_work` marks the pieces as complete.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustcf import Schema

from ..cluster.tasks import Tasks
from ..inputs.config import Customers, Sharding
from ..inputs.errors import BadInput
from ..inputs.tables import Plan
from ..run.folder import RunFolder
from ..run.manifest_shape import MOST_BITS
from ..run.question import Question
from ..terminal.progress import stage
from .scan import Scanned, checksums, find_duplicate, scan_chunk, twice

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
        pilot: Callable[[dict[str, Any]], float],
        settle: Callable[[int], None],
    ) -> dict[str, Any]:
        """Read all customers; return the plan of the shards and checksums of the rows.

        The checksums do not depend on the order of the rows. `settle` is told the number of rejected
        customers, and may refuse it. `pilot` measures the seconds per rejected customer.
        """
        self.folder.remove("_work")
        try:
            found = self._scan()
            rows = sum(s.rows for s in found)
            if not rows:
                raise BadInput(f"{self.customers.data}: the table has no rows")
            if self.customers.id is not None:
                self._refuse_duplicates([s.ids for s in found])
            plan: dict[str, Any] = {
                "rows": rows,
                "denied": sum(s.denied for s in found),
                "invalid": sum(s.invalid for s in found),
                "pieces": [name for s in found for name in s.pieces],
            }
            settle(plan["denied"])
            plan["bits"] = self._bits(plan, sharding, pilot)
        except BadInput:
            self.folder.remove("_work")  # this run has written nothing else
            raise
        planned = {"plan": plan} | checksums(found)
        self.folder.publish(_mark(planned), b"")
        return planned

    def repeat(self, manifest: dict[str, Any]) -> None:
        """Repeat the first pass of a resumed run if its pieces are gone.

        The rows must be the same as when the run began.
        """
        if self.folder.names("_work").keys() >= {_mark(manifest), *manifest["plan"]["pieces"]}:
            return
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
        manifest["plan"]["pieces"] = [name for s in found for name in s.pieces]
        self.folder.publish(_mark(manifest), b"")

    def _scan(self) -> list[Scanned]:
        """Write the pieces; return what was found in each chunk of the table."""
        found: dict[int, Scanned] = {}
        with stage("reading", self.table.rows or 0, "customers") as progress:
            calls = [
                (self.folder, self.customers, self.question, self.schema, self.forest, chunk)
                for chunk in self.table.chunks
            ]
            for call, scanned in self.tasks.run(scan_chunk, calls):
                found[call[-1].number] = scanned
                progress.advance(scanned.rows)
        return [found[number] for number in sorted(found)]

    def _refuse_duplicates(self, id_hashes: Sequence[np.ndarray]) -> None:
        repeated_hashes = twice(np.concatenate(id_hashes))
        if not len(repeated_hashes):
            return
        seen: Counter[str] = Counter()
        calls = [(self.customers, chunk, repeated_hashes) for chunk in self.table.chunks]
        for _, names in self.tasks.run(find_duplicate, calls):
            seen.update(names)
        repeated = sorted(name for name, count in seen.items() if count > 1)
        if repeated:
            raise BadInput(
                f"{self.customers.data}: id {repeated[0]!r} occurs {seen[repeated[0]]} times"
                f" (repeated ids: {len(repeated)}); make the ids unique"
            )

    def _bits(
        self, plan: dict[str, Any], sharding: Sharding, pilot: Callable[[dict[str, Any]], float]
    ) -> int:
        """Return log2 of the number of shards; it depends on the work, not on the CPUs that are there now."""
        if sharding.rows is not None:
            shards = plan["rows"] / sharding.rows
        else:
            seconds = pilot(plan | {"bits": 0}) if plan["denied"] else 0.0
            work = plan["denied"] * seconds
            shards = max(
                work / sharding.seconds,
                plan["rows"] / MOST_CUSTOMERS,
                min(PARALLEL, work / LEAST_SECONDS),
            )
        return min(MOST_BITS, max(0, math.ceil(math.log2(max(shards, 1)))))


def _mark(manifest: dict[str, Any]) -> str:
    """Return the name of the file that marks the pieces as complete."""
    return f"_work/checked-{manifest['data_hash']}"
