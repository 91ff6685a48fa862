"""Run Ray tasks with retries (see `retries`) and a bounded number of pending tasks.

The window follows lenskit's limiter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ..inputs.config import SolverChoice
from ..inputs.errors import BadInput, TaskFailed
from .retries import RETRIES, TRANSIENT, retried_by_ray
from .signals import stop_if_asked
from .threads import pinned

T = TypeVar("T")
LOOK = 1.0  # seconds between two checks whether the run must stop


def fan_out(ray: Any, submit: Callable[[T], Any], items: Iterable[T], window: int) -> Iterator[tuple[T, Any]]:
    """Submit at most `window` items at a time; yield (item, result) as they end."""
    pending: dict[Any, T] = {}
    for item in items:
        while len(pending) >= window:
            yield from _drain(ray, pending)
        pending[submit(item)] = item
    while pending:
        yield from _drain(ray, pending)


def _drain(ray: Any, pending: dict[Any, T]) -> Iterator[tuple[T, Any]]:
    done: list[Any] = []
    while not done:
        done, _ = ray.wait(list(pending), num_returns=1, timeout=LOOK)
        stop_if_asked()
    for ref in done:
        item = pending.pop(ref)
        try:
            result = ray.get(ref)
        except ray.exceptions.RayTaskError as error:
            raise _cause(error) from error
        except ray.exceptions.RayError as error:
            raise TaskFailed(f"{type(error).__name__} on {item}, after {RETRIES} retries") from error
        yield item, result


def _cause(error: Any) -> Exception:
    """Return the task's own `BadInput` without Ray's wrapper, or a `TaskFailed`."""
    if isinstance(error.cause, BadInput):
        return error.cause
    return TaskFailed(f"a task failed: {str(error).strip().splitlines()[-1]}")


class Tasks:
    """Run functions as Ray tasks with reserved CPUs, pinned threads and retries."""

    def __init__(
        self, ray: Any, solver: SolverChoice, home: str | None = None, window_per_cpu: float = 2.0
    ) -> None:
        self.ray, self.solver, self.home = ray, solver, home
        cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.window = max(2, round(window_per_cpu * cpus / solver.threads))
        if solver.threads > cpus:
            raise BadInput(f"solver.threads is {solver.threads}, but the cluster has {cpus} CPUs")
        self._remote: dict[tuple[Any, bool], Any] = {}

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
        return self._remote[key].remote(function, pins, *arguments)

    def run(
        self, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], solves: bool = False
    ) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Run a function on each tuple of arguments.

        Yield (arguments, result) as tasks end.
        """
        return self.each(lambda call: self.start(function, *call, solves=solves), calls)

    def each(self, start: Callable[[T], Any], items: Iterable[T]) -> Iterator[tuple[T, Any]]:
        """Start a task for each item; yield (item, result) as tasks end."""
        return fan_out(self.ray, start, items, self.window)

    def result(self, ref: Any) -> Any:
        """Wait for a task and return its result; raise its error if it fails."""
        return next(self.each(lambda ref: ref, [ref]))[1]

    def wait(self, refs: Sequence[Any]) -> Iterator[None]:
        """Yield once for each task that has ended, without fetching its result."""
        for _ in fan_out(self.ray, lambda ref: self.start(_nothing, ref), refs, len(refs)):
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
