"""Ray, started or joined on purpose: local by default, private, silent, and shut down again."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jobs.badinput import BadInput
from jobs.stopping import terminable
from jobs.store import RunFolder
from jobs.threads import environment

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
# Of every task Ray would keep a record for its dashboard, which is off: half a kilobyte each, for good.
_PRIVATE = {"RAY_task_events_report_interval_ms": "0"}
_TOKEN = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def chosen_address(address: str | None) -> str:
    """`--address`, else RAY_ADDRESS (a submitted job has it too), else a Ray of our own."""
    return address or os.environ.get("RAY_ADDRESS") or "local"


@contextmanager
def session(address: str | None, threads: int = 1, cpus: int | None = None) -> Iterator[Any]:
    """Ray for the time of a run. A cluster that merely happens to be on the machine is never joined."""
    where = chosen_address(address)
    before = dict(os.environ)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if where == "local":
        os.environ.update(_PRIVATE)
        # Ray's processes listen on all interfaces: nobody without this session's token gets in.
        os.environ["RAY_AUTH_MODE"] = "token"
        if not any(os.environ.get(name) for name in _TOKEN):
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    import ray

    if ray.is_initialized():  # a test, or a notebook: its Ray is used, and left as it is
        yield ray
        return
    options: dict[str, Any] = {}
    private = None
    if where == "local":
        private = _private_folder()
        options = {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": f"{private}/ray"}
    try:
        refresh_authentication()
        ray.init(
            address=where,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=True,
            runtime_env={"env_vars": environment(threads)},
            **options,
        )
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        _restore(before)
        raise BadInput(f"no Ray at {where}: {error}") from None
    try:
        with terminable():
            yield ray
    except Exception as error:
        if not isinstance(error, BadInput):
            private = None  # kept: its logs may say why
        raise
    finally:
        ray.shutdown()
        _restore(before)
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)


def _private_folder() -> str:
    """For Ray's sockets, logs and spilled objects: it opens its own folder to all, so one around it."""
    short = len(tempfile.gettempdir()) <= 16  # a socket's path holds 107 characters
    return tempfile.mkdtemp(prefix="robustcf-", dir=None if short else "/tmp")


def refresh_authentication() -> None:
    """Ray reads its settings at import; it may have been imported before ours were made."""
    from ray import _raylet

    settings: Any = _raylet
    settings.Config.initialize("")
    settings.AuthenticationTokenLoader.instance().reset_cache()


def _restore(before: dict[str, str]) -> None:
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def refuse_unshared_output(ray: Any, run: RunFolder, shared: bool) -> str | None:
    """Several nodes and a plain local path: each node would write to a disk of its own.

    Returns the only node that may run tasks (a cluster can grow), or None where any may.
    """
    nodes = [node for node in ray.nodes() if node["Alive"]]
    if run.local and not shared:
        remedy = "give a path that all of them share and say so with shared = true, or a URI such as s3://bucket/run"
        if len(nodes) > 1:
            raise BadInput(f"{run.shown} is a local path and the cluster has {len(nodes)} nodes; {remedy}")
        if nodes and not nodes[0]["Resources"].get("CPU"):  # a head that only waits for workers to come
            raise BadInput(f"{run.shown} is a local path of a node that runs no tasks; {remedy}")
    return None if shared or not run.local else str(ray.get_runtime_context().get_node_id())


def cpus_of(ray: Any) -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
