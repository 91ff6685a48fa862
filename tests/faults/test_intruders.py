"""A local Ray is its owner's alone: no token, no entry; no dashboard; no file that others can read."""

import http.client
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.helpers.faultworld import small_audit
from tests.helpers.jobworld import ROOT, Command

SUBMIT = """
import sys, ray
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
@ray.remote
def f(): return "got in"
print(ray.get(f.remote()))
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Command, list[psutil.Process]]]:
    """An audit in the middle of its work, and all processes of its Ray."""
    folder = tmp_path_factory.mktemp("running")
    command = Command("audit", str(small_audit(folder, solver={"name": "oracle"})), "--cpus", "1")
    try:
        command.wait_for(lambda: (folder / "run/manifest.json").exists())
        for process in command.workers():
            process.suspend()  # it stays in the middle
        yield command, command.children()
    finally:
        command.kill()


def listening(processes: list[psutil.Process]) -> list[tuple[str, int]]:
    found = []
    for process in processes:
        for connection in process.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                found.append((process.name(), connection.laddr.port))
    return found


def test_a_foreign_process_cannot_submit_work(running: tuple[Command, list[psutil.Process]]) -> None:
    ports = [port for name, port in listening(running[1]) if name == "gcs_server"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")} | {"HOME": "/nonexistent"}
    strangers: list[dict[str, str]] = [
        {"RAY_AUTH_MODE": "disabled"},
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 64},
    ]
    attempts = [
        subprocess.Popen(
            [sys.executable, "-c", SUBMIT, f"127.0.0.1:{ports[0]}"],
            env=clean | stranger,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for stranger in strangers
    ]
    for attempt in attempts:
        output, _ = attempt.communicate(timeout=300)
        assert attempt.returncode != 0
        assert "got in" not in output


def test_no_port_answers_a_stranger(running: tuple[Command, list[psutil.Process]]) -> None:
    ports = listening(running[1])
    assert ports
    assert 8265 not in [port for _, port in ports]
    for name, port in ports:
        for verb, path in (("GET", "/"), ("POST", "/get_or_create_runtime_env"), ("GET", "/api/version")):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            try:
                connection.request(verb, path, body=b"")
                status = connection.getresponse().status
            except (OSError, http.client.HTTPException):
                continue  # it speaks gRPC, which asks for the token
            finally:
                connection.close()
            assert status >= 400, f"{name} answered {verb} {path} with {status}"


def test_neither_the_token_nor_a_file_is_for_others(
    running: tuple[Command, list[psutil.Process]],
) -> None:
    command, processes = running
    token = psutil.Process(command.process.pid).environ().get("RAY_AUTH_TOKEN") or _token(processes)
    assert len(token) == 64
    lines = [" ".join(process.cmdline()) for process in processes]
    assert not [line for line in lines if token in line], "a command line is for all to read"
    sessions = {word.split("=", 1)[-1] for line in lines for word in line.split() if "/session_" in word}
    folders = {Path("/", *Path(s).parts[1:3]) for s in sessions}
    assert folders
    for folder in folders:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


def _token(processes: list[psutil.Process]) -> str:
    found: set[Any] = {p.environ().get("RAY_AUTH_TOKEN") for p in processes} - {None}
    assert len(found) == 1
    return str(found.pop())


def test_a_finished_session_leaves_no_files(tmp_path: Path) -> None:
    code = "from robustcf_jobs.cluster.session import session\nwith session(None, cpus=1): pass"
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    own = Path("/tmp") / f"rcf{os.getpid()}"
    own.mkdir()
    try:
        environment = clean | {"PYTHONPATH": str(ROOT), "TMPDIR": str(own)}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)
        assert list(own.iterdir()) == []
    finally:
        subprocess.run(["rm", "-rf", own], check=True)
