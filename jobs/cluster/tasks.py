"""Run Ray tasks with retries (see `retries`) and a bounded number of pending tasks (see `capacity`).

The window follows lenskit's limiter, and the size of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ..inputs.config import SolverChoice
from ..inputs.errors import BadInput, TaskFailed
from .capacity import LOOK, Capacity
from .metrics import set_pending
from .retries import RETRIES, TRANSIENT, retried_by_ray
from .signals import stop_if_asked
from .threads import pinned

T = TypeVar("T")
MOST_WARMED = 64
END: Any = object()  # stands for the end of an iterator


def _cause(error: Any) -> Exception:
    """Return the task's own `BadInput` without Ray's wrapper, or a `TaskFailed`."""
    if isinstance(error.cause, BadInput):
        return error.cause
    return TaskFailed(f"a task failed: {str(error).strip().splitlines()[-1]}")


class Tasks:
    """Run functions as Ray tasks with reserved CPUs, pinned threads and retries."""

    def __init__(self, ray: Any, solver: SolverChoice, home: str | None = None) -> None:
        self.ray, self.solver, self.home = ray, solver, home
        self.capacity = Capacity(ray, solver)
        self._remote: dict[tuple[Any, bool], Any] = {}
        self._solving: set[Any] = set()  # references of tasks that hold or wait for a licence

    def put(self, value: Any) -> Any:
        return self.ray.put(value)

    def start(self, function: Callable[..., Any], *arguments: Any, solves: bool = False) -> Any:
        """Start a task and return a reference to its result."""
        key = (function, solves)
        if key not in self._remote:
            resources = {self.solver.licence: 1} if solves and self.solver.licence else None
            self._remote[key] = self.ray.remote(
                num_cpus=self.solver.threads,
                max_retries=RETRIES,
                retry_exceptions=list(TRANSIENT),
                resources=resources,
            )(_pinned_call)
        pins = (self.solver.threads, self.solver.affinity, self.home)
        ref = self._remote[key].remote(function, pins, *arguments)
        if solves:
            self._solving.add(ref)
        return ref

    def warm_up(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Start a task for each CPU (or more) that is there now, and do not wait for them.

        They start the workers and load libraries while the driver prepares the run.
        """
        for _ in range(min(self.capacity.at_once, MOST_WARMED)):
            self.start(function, *arguments)

    def run(
        self, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], solves: bool = False
    ) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Run a function on each tuple of arguments.

        Yield (arguments, result) as tasks end.
        """
        return self.each(lambda call: self.start(function, *call, solves=solves), calls)

    def each(self, start: Callable[[T], Any], items: Iterable[T]) -> Iterator[tuple[T, Any]]:
        """Start a task for each item; yield (item, result) as tasks end.

        New tasks are started while others run, up to the window of the cluster as it is now. An iterator
        that has ended is asked again after each task: its owner may have found more work.
        """
        pending: dict[Any, T] = {}
        todo = iter(items)
        while True:
            while len(pending) < self.capacity.window and (item := next(todo, END)) is not END:
                pending[start(item)] = item
            set_pending(len(pending))
            if not pending:
                return
            yield from self._ended(pending)

    def _ended(self, pending: dict[Any, T]) -> Iterator[tuple[T, Any]]:
        """Yield the tasks that have ended; return after `LOOK` seconds if none has."""
        done, _ = self.ray.wait(list(pending), num_returns=1, timeout=LOOK)
        if done:
            done, _ = self.ray.wait(list(pending), num_returns=len(pending), timeout=0)
        stop_if_asked()
        if not done:
            self.capacity.idle(len(pending), not self._solving.isdisjoint(pending))
        for ref in done:
            item = pending.pop(ref)
            self._solving.discard(ref)
            self.capacity.any_ended = True
            try:
                result = self.ray.get(ref)
            except self.ray.exceptions.RayTaskError as error:
                raise _cause(error) from error
            except self.ray.exceptions.RayError as error:
                raise TaskFailed(f"{type(error).__name__} on {item}, after {RETRIES} retries") from error
            yield item, result

    def result(self, ref: Any) -> Any:
        """Wait for a task and return its result; raise its error if it fails."""
        return next(self.each(lambda ref: ref, [ref]))[1]

    def wait(self, refs: Sequence[Any]) -> Iterator[None]:
        """Yield once for each task that has ended, without fetching its result."""
        for _ in self.each(lambda ref: self.start(_nothing, ref), refs):
            yield


def _nothing(_: Any) -> None:
    """Do nothing; Ray waits for the argument before it starts this task."""


def _pinned_call(function: Callable[..., T], pins: tuple[int, bool, str | None], *arguments: Any) -> T:
    threads, affinity, home = pins
    if home is not None:
        import ray

        if ray.get_runtime_context().get_node_id() != home:  # a node that joined later
            raise BadInput(
                "the output is a local path and the cluster has several nodes; "
                "if they share it, set shared = true"
            )
    with pinned(threads, affinity), retried_by_ray():
        return function(*arguments)
