"""How many tasks may be pending, and what a run waits for if none of them can start.

A cluster may grow and shrink during a run, so its nodes are read again every `LOOK` seconds. The window is
twice the number of tasks that can run now. On a cluster that may grow it is at least `AHEAD`: pending tasks
are the demand that an autoscaler answers. The window grows with the cluster, so an autoscaler can reach any
limit in a few steps. A pending task costs the driver a few kilobytes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..inputs.config import SolverChoice
from ..inputs.errors import BadInput
from ..terminal.progress import say_waiting

LOOK = 1.0  # seconds between two looks at the cluster and at a request to stop
AHEAD = 256  # pending tasks on a cluster that may grow, however small it is now
MOST_PENDING = 8192
SAY = 5.0  # seconds between two lines about what the run waits for


def started_here(ray: Any) -> bool:
    """Return whether this process started Ray; no other node joins such a Ray."""
    return bool(getattr(ray._private.worker._global_node, "head", False))


class Capacity:
    """The nodes of the cluster, read again while the run goes on."""

    def __init__(self, ray: Any, solver: SolverChoice) -> None:
        self.ray, self.solver, self.grows = ray, solver, not started_here(ray)
        self._nodes: list[Mapping[str, float]] = []
        self._read = self._said = float("-inf")
        self._reason = ""
        self.any_ended = False
        if not self.grows:
            self._refuse_impossible()

    def _refuse_impossible(self) -> None:
        """Refuse demands that a Ray on this machine can never meet."""
        cpus = int(self._most("CPU"))
        if self.solver.threads > cpus:
            raise BadInput(f"solver.threads is {self.solver.threads}, but this machine's Ray has {cpus} CPUs")
        licence = self.solver.licence
        if licence is not None and not self._most(licence):
            raise BadInput(
                f"solver.licence is {licence!r}, but this machine's Ray offers no such resource; remove the"
                " key, or use a cluster with it (--address)"
            )

    @property
    def nodes(self) -> list[Mapping[str, float]]:
        """The resources of each live node."""
        now = time.monotonic()
        if now - self._read >= LOOK:
            self._nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
            self._read = now
        return self._nodes

    def _most(self, resource: str) -> float:
        return max((node.get(resource, 0.0) for node in self.nodes), default=0.0)

    def _total(self, resource: str) -> float:
        return sum(node.get(resource, 0.0) for node in self.nodes)

    @property
    def window(self) -> int:
        """The number of tasks that may be pending now."""
        return min(MOST_PENDING, max(AHEAD if self.grows else 2, 2 * self.at_once))

    @property
    def at_once(self) -> int:
        """The number of tasks that can run at once now."""
        return sum(int(node.get("CPU", 0.0)) // self.solver.threads for node in self.nodes)

    def idle(self, pending: int, solving: bool) -> None:
        """Say what the run waits for, if no pending task can start. Called while no task ends.

        The same reason is repeated every few seconds, another one is said at once.
        """
        lacking, now = self.lacking(solving), time.monotonic()
        if lacking is not None and (now - self._said >= SAY or lacking != self._reason):
            self._said, self._reason = now, lacking
            say_waiting(lacking, pending)

    def lacking(self, solving: bool) -> str | None:
        """Return what the cluster lacks to start a task, or None if tasks can start.

        Whether other jobs use all CPUs is only told until this run's first task has ended: later, they may
        be used by this run itself.
        """
        threads, licence = self.solver.threads, self.solver.licence if solving else None
        wanted = {"CPU": float(threads)} | ({} if licence is None else {licence: 1.0})
        if not any(all(node.get(k, 0.0) >= v for k, v in wanted.items()) for node in self.nodes):
            return self._absent(licence)
        if self.any_ended or not self.grows:
            return None
        free = self.ray.available_resources()
        short = [k for k, v in wanted.items() if free.get(k, 0.0) < v]
        return f"{_resource(short[0])}: 0 of {self._total(short[0]):g} are free" if short else None

    def _absent(self, licence: str | None) -> str:
        threads, most = self.solver.threads, self._most("CPU")
        if licence is not None and not self._most(licence):
            return (
                f"{_resource(licence)}: no node of the cluster offers it; without a node type that does,"
                " this run waits forever (see solver.licence)"
            )
        if not most:
            return "CPUs: no node with CPUs has joined the cluster yet"
        if threads > most:
            return f"a node with {threads} CPUs (see solver.threads): the largest has {most:g}"
        return f"a node with both {threads} CPUs and {_resource(str(licence))}"


def _resource(name: str) -> str:
    return "CPUs" if name == "CPU" else f"resource {name!r}"
