"""`ray job submit` from a folder that has packages `jobs` and `benchmarks` of its own."""

import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.helpers.faultworld import assert_whole, small_audit

PATIENCE = 120.0  # seconds for the dashboard, and for the agent that takes jobs
HEAD = """
    start --head --block --disable-usage-stats --num-cpus 2 --port 0
    --include-dashboard true --dashboard-host 127.0.0.1 --dashboard-port 0 --dashboard-agent-listen-port 0
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def head_node(environment: dict[str, str]) -> Iterator[str]:
    """A cluster of one node, started as users start it; the address of its dashboard.

    Jobs find their cluster by a file in Ray's folder, so each cluster on a machine needs a folder of its own.
    """
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as own:
        log = Path(own) / "head.log"
        with log.open("w") as output:
            places = ("--temp-dir", own, "--ray-client-server-port", str(free_port()))
            head = psutil.Popen(
                ["ray", *HEAD.split(), *places], env=environment, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            end = time.monotonic() + PATIENCE
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
                assert head.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.2)
            yield found[0]
        finally:
            with suppress(psutil.NoSuchProcess):  # a signal to end would let the node wait for half a minute
                for process in [*head.children(recursive=True), head]:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
            head.wait(timeout=30)


def test_a_submitted_job_ignores_foreign_packages(undisturbed: Path, tmp_path: Path) -> None:
    """A real cluster with a dashboard, and the command of docs/cluster.md.

    Ray copies the folder to the head and puts the copy first on the path, for the job and for its workers.
    """
    folder, output = tmp_path / "submitted", tmp_path / "run"
    small_audit(folder, output=str(output))
    for name in ("jobs", "benchmarks"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"raise RuntimeError('foreign {name}')\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}

    def run(*command: str) -> tuple[int, str]:
        """Run a command; again, if the agent that takes jobs is not up yet."""
        end = time.monotonic() + PATIENCE
        while True:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=400
            )
            said = done.stdout + done.stderr
            if "No available agent" not in said or time.monotonic() > end:
                return done.returncode, said
            time.sleep(1)

    with head_node(environment) as dashboard:
        submit = ("ray", "job", "submit", "--address", dashboard, "--working-dir", ".", "--")
        code, said = run(*submit, "robustcf", "audit", "audit.toml")
        assert code == 0, said
        assert "succeeded" in said
        code, said = run(*submit, "python", "-c", "import jobs")
        assert (code, "foreign jobs" in said) == (1, True), said  # the user's packages do come first
    assert_whole(undisturbed, output)
    code, said = run("robustcf", "verify", str(output))
    assert code == 0, said
