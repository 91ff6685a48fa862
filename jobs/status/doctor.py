"""`robustcf doctor`: check what a run needs, and say what to do where something is missing."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..cluster.session import chosen_address, session
from ..cluster.tasks import Tasks
from ..inputs.config import SolverChoice
from ..inputs.errors import BadInput, TaskFailed, one_line
from ..inputs.secrets import without_secrets
from ..inputs.uri import open_filesystem
from ..run.manifest import versions

SKEW = 5.0  # seconds that two clocks may differ
SLOW = 0.5  # seconds of a storage request


@dataclass(frozen=True)
class Finding:
    """The result of one check; `ok` None means that the check needs no action either way."""

    subject: str
    ok: bool | None
    text: str


def findings(storage: str | None, address: str | None, cpus: int | None) -> Iterator[Finding]:
    """Yield the result of each check as soon as it is known."""
    found = versions()
    yield Finding("versions", True, ", ".join(f"{name} {number}" for name, number in found.items()))
    yield from _solvers()
    yield _kernels()
    yield _room()
    if storage is not None:
        yield from _storage(storage)
    yield from _ray(address, cpus)


def _solvers() -> Iterator[Finding]:
    from robustcf.solve import SolverError, get_engine, solver_names

    for name in solver_names():
        if name in ("auto", "oracle"):
            continue
        try:
            get_engine(name)
        except SolverError as error:
            yield Finding(f"solver {name}", None if name == "gurobi" else False, one_line(str(error)))
        else:
            yield Finding(f"solver {name}", True, _licence() if name == "gurobi" else "ready")


def _licence() -> str:
    """Return what the Gurobi licence allows; the one from pip refuses models above 2,000 variables."""
    import gurobipy as gp

    try:
        with gp.Env(params={"OutputFlag": 0}) as environment, gp.Model(env=environment) as model:
            model.addVars(2001)
            model.optimize()
    except gp.GurobiError as error:
        return f"the licence is limited or missing: {one_line(str(error))}"
    return "ready, with a full licence"


def _kernels() -> Finding:
    """Solve one small problem twice; the first solve compiles the kernels unless they are cached."""
    from sklearn.ensemble import RandomForestClassifier

    import robustcf as rc

    data = rc.datasets.synthetic_credit(200, seed=0)
    model = RandomForestClassifier(10, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
    explainer = rc.Explainer(rc.Forest.from_sklearn(model), data.schema, rc.DirectSAA(alpha=0.2), target=1)
    begin = time.perf_counter()
    explainer.explain_many(data.X.iloc[:40])
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    explainer.explain_many(data.X.iloc[:40])
    again = time.perf_counter() - begin
    if first - again > 10.0:
        return Finding(
            "kernels",
            False,
            f"compiled now in {first - again:.0f} s; if the next `robustcf doctor` says so too, the folder of"
            " the code is not writable: set NUMBA_CACHE_DIR to a folder that is",
        )
    return Finding("kernels", True, f"compiled and cached ({first - again:.1f} s to load)")


def _room() -> Finding:
    folder = tempfile.gettempdir()
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize / 1e9
    enough = free > 2
    advice = "" if enough else "; Ray keeps its objects and logs there: free at least 2 GB or set TMPDIR"
    return Finding("temporary folder", enough, f"{folder} has {free:.1f} GB free{advice}")


def _storage(address: str) -> Iterator[Finding]:
    """Write, list, read and delete one small object."""
    shown, name = without_secrets(address), f"robustcf-doctor-{secrets.token_hex(8)}"
    content = os.urandom(1000)
    try:
        filesystem, folder = open_filesystem(address)
        path = f"{folder.rstrip('/')}/{name}"
        spent: list[float] = []

        def timed(call: Callable[[], Any]) -> Any:
            begin = time.perf_counter()
            result = call()
            spent.append(time.perf_counter() - begin)
            return result

        def write() -> None:
            with filesystem.open_output_stream(path) as stream:
                stream.write(content)

        before = time.time()
        timed(write)
        try:
            info = timed(lambda: filesystem.get_file_info(path))
            with filesystem.open_input_stream(path) as stream:
                same = timed(stream.read) == content
        finally:
            timed(lambda: filesystem.delete_file(path))
    except (OSError, BadInput) as error:
        message = error.format_message() if isinstance(error, BadInput) else str(error)
        yield Finding(
            "storage", False, f"{shown}: {one_line(message)}; check the address and the permissions"
        )
        return
    slowest = max(spent)
    quick = slowest < SLOW
    text = f"{shown}: write, read and delete work; the slowest request took {1000 * slowest:.0f} ms"
    yield Finding(
        "storage", same and quick, text if same else f"{shown}: another content was read than written"
    )
    if info.mtime_ns is not None:
        yield _clock("storage", info.mtime_ns / 1e9 - before, slowest + 1.0)


def _clock(subject: str, skew: float, delay: float = 0.0) -> Finding:
    near = abs(skew) <= SKEW + delay
    text = (
        "agrees with this machine's" if near else f"differs by {skew:.0f} s from this machine's; set up NTP"
    )
    return Finding(f"clock of the {subject}", near, text)


def _ray(address: str | None, cpus: int | None) -> Iterator[Finding]:
    where = chosen_address(address)
    name = "a Ray on this machine" if where == "local" else f"Ray at {where}"
    begin = time.perf_counter()
    try:
        with session(address, cpus=cpus) as ray:
            tasks = Tasks(ray, SolverChoice())
            if not tasks.capacity.at_once:
                yield Finding("Ray", True, f"{name} answers; no node has CPUs yet, so nothing was run on it")
                return
            asked = time.time()
            host, version, now = tasks.result(tasks.start(_look_around))
            waited = time.time() - asked
            nodes, slots = len(tasks.capacity.nodes), tasks.capacity.at_once
    except (BadInput, TaskFailed) as error:
        message = error.format_message() if isinstance(error, BadInput) else str(error)
        yield Finding("Ray", False, one_line(message))
        return
    ours = versions()["robustcf"]
    if version != ours:
        yield Finding(
            "Ray", False, f"{name}: {host} has robustcf {version}, this machine {ours}; install one version"
        )
        return
    seconds = time.perf_counter() - begin
    yield Finding(
        "Ray", True, f"{name} runs tasks: nodes {nodes}, CPUs {slots}; start and end took {seconds:.0f} s"
    )
    yield _clock("workers", now - asked, waited)


def _look_around() -> tuple[str, str, float]:
    """Run on a worker: return its host, its version of robustcf and its time."""
    import socket

    return socket.gethostname(), versions()["robustcf"], time.time()
