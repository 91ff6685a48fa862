"""Start a private local Ray, or join a cluster if the user asks for one.

Shut it down at the end.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..inputs.errors import BadInput, TaskFailed
from ..run.folder import RunFolder
from ..terminal.progress import outer_stage
from .capacity import LOOK
from .processes import outliving_descendants
from .signals import listen, stop_if_asked, stoppable
from .startup import output_to, watched
from .threads import environment

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
# Ray would keep half a kilobyte per task, forever, for its dashboard. The dashboard is off.
_PRIVATE = {"RAY_task_events_report_interval_ms": "0"}
# If `ray[default]` is installed, Ray would serve metrics on three ports that ask for no token. Two of them
# have no switch; a port number that does not exist keeps them closed.
_NO_METRICS = {
    "RAY_enable_metrics_collection": "0",
    "AUTOSCALER_METRIC_PORT": "65536",
    "DASHBOARD_METRIC_PORT": "65536",
}
START_LIMIT = 120.0  # seconds for the first worker of a local Ray to start
_TOKEN = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def chosen_address(address: str | None) -> str:
    """Return `--address`, else RAY_ADDRESS (set in submitted jobs), else "local"."""
    return address or os.environ.get("RAY_ADDRESS") or "local"


class RayFailed(TaskFailed):
    """Ray did not start on this machine."""

    advice = "check `ulimit -a` and the free memory"
    at_once = True  # clients of a Ray that never came up may wait for it forever when they are destroyed


@contextmanager
def session(address: str | None, threads: int = 1, cpus: int | None = None) -> Iterator[Any]:
    """Provide Ray during a run.

    A cluster that happens to run on the machine is never joined.
    """
    with stoppable():
        before = dict(os.environ)
        where = chosen_address(address)
        _set_environment(where)
        try:
            try:
                import ray
            except (ImportError, OSError, MemoryError) as error:
                raise RayFailed(f"Ray cannot be loaded: {error or 'not enough memory'}") from error
            if ray.is_initialized():  # a test or a notebook: use its Ray and leave it running
                yield ray
                return
            with _private_folder() as folder, outliving_descendants():
                stop_if_asked()
                try:
                    with outer_stage("starting Ray"):
                        _start(ray, where, threads, cpus, folder)
                    stop_if_asked()
                    yield ray
                finally:
                    _end(ray, folder)
        finally:
            _restore(before)


def _set_environment(where: str) -> None:
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if where == "local":
        os.environ.update(_PRIVATE | _NO_METRICS)
        # Ray's processes listen on all interfaces; only holders of this session's token can connect.
        os.environ["RAY_AUTH_MODE"] = "token"
        if not any(os.environ.get(name) for name in _TOKEN):
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _start(ray: Any, where: str, threads: int, cpus: int | None, folder: str) -> None:
    """Start or join Ray.

    Its output goes to a log file, which the error names on failure.
    """
    log = f"{folder}/startup.log"
    options: dict[str, Any] = {"runtime_env": {"env_vars": environment(threads)}}
    if where == "local":
        # The workers inherit the variables. With a runtime environment, Ray would start the workers twice:
        # first without it, and then again for the first tasks.
        options = {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": f"{folder}/ray"}
    try:
        with watched(log), _inherited(environment(threads) if where == "local" else {}):
            refresh_authentication()
            ray.init(
                address=where,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=True,
                **options,
            )
        listen()
        if where == "local":
            _await_first_worker(ray)
    except Exception as error:
        stop_if_asked()
        if where != "local":
            raise BadInput(f"no Ray at {where}: {error}") from None
        message = str(error) or type(error).__name__
        raise RayFailed(f"Ray did not start on this machine: {message} (its log: {log})") from error


def _end(ray: Any, folder: str) -> None:
    with output_to(f"{folder}/startup.log"), suppress(Exception):
        ray.shutdown()


def _await_first_worker(ray: Any) -> None:
    """Wait for the first worker, with a limit: Ray restarts failing workers forever."""
    first = ray.remote(num_cpus=1)(_nothing).remote()
    end = time.monotonic() + START_LIMIT
    while not ray.wait([first], timeout=LOOK)[0]:
        stop_if_asked()
        if time.monotonic() > end:
            raise TimeoutError(f"no worker process started within {START_LIMIT:.0f} s")
    ray.get(first)


def _nothing() -> None:
    """Do nothing; the task only shows that a worker runs."""


@contextmanager
def _private_folder() -> Iterator[str]:
    """Create a private folder for Ray's sockets, logs and spilled objects.

    Ray makes its own folder readable by everyone, so it gets a private parent. The folder is removed
    at the end. After a failure it is kept, because its logs may name the cause.
    """
    short = len(tempfile.gettempdir()) <= 16  # a socket's path has at most 107 characters
    folder = tempfile.mkdtemp(prefix="robustcf-", dir=None if short else "/tmp")
    try:
        yield folder
    except Exception as error:
        if isinstance(error, BadInput):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def refresh_authentication() -> None:
    """Make Ray read its settings again.

    It may have been imported before they were set.
    """
    from ray import _raylet

    settings: Any = _raylet
    settings.Config.initialize("")
    settings.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _inherited(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the processes that are started in this context."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _restore(before: dict[str, str]) -> None:
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def refuse_unshared_output(ray: Any, run: RunFolder, shared: bool) -> str | None:
    """Refuse an unshared local output on several nodes.

    Each node would write to its own disk.

    Returns the id of the only node that may run tasks (a cluster can grow), or None if any node may.
    """
    nodes = [node for node in ray.nodes() if node["Alive"]]
    if run.local and not shared:
        remedy = "use a path on a disk that all nodes share and set shared = true, or a URI such as s3://bucket/run"
        if len(nodes) > 1:
            raise BadInput(f"{run.shown} is a local path and the cluster has {len(nodes)} nodes; {remedy}")
        if nodes and not nodes[0]["Resources"].get("CPU"):  # a head node that waits for workers
            raise BadInput(f"{run.shown} is a local path on a node that runs no tasks; {remedy}")
    return None if shared or not run.local else str(ray.get_runtime_context().get_node_id())


def cpus_of(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
