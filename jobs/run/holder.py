"""Who claims a run folder: what a claim file says, and whether its process still runs."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from robustcf.support.documents import parse_json

LAPSE = 300.0  # seconds without a renewal until a claim from another machine is dead
own_claims: set[str] = set()  # live claims of this process; any other claim of this process is dead


@dataclass(frozen=True)
class Rival:
    """The claim of another run."""

    name: str
    age: float
    holds: bool
    content: dict[str, Any]

    @property
    def holder(self) -> str:
        return (
            f"pid {self.content.get('pid', '?')} on {self.content.get('host', 'an unknown host')}"
            f" since {self.content.get('since', 'an unknown time')}"
        )

    @property
    def here(self) -> bool:
        """Whether this process could see the claim's process."""
        return self.content.get("place") == process_scope()

    @property
    def dead(self) -> bool:
        if not self.here:
            return self.age > LAPSE
        pid, started = self.content.get("pid"), self.content.get("started")
        if not isinstance(pid, int) or pid <= 0:
            return self.age > LAPSE
        if pid == os.getpid() and started == started_at(pid):
            return self.name not in own_claims
        return not is_running(pid) or started_at(pid) != started


def claim_of_this_process() -> bytes:
    """Return the content of a claim file."""
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    content = {"host": socket.gethostname(), "pid": os.getpid(), "since": since}
    content |= {"place": process_scope(), "started": started_at(os.getpid())}
    return json.dumps(content).encode()


def read_claim(file: bytes) -> dict[str, Any]:
    """Return what a claim file says; a damaged file says nothing."""
    try:
        content = parse_json(file)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def process_scope() -> list[str]:
    """Return where a process id is unique: host, boot and process namespace."""
    scope = [socket.gethostname()]
    with suppress(OSError):
        scope.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        scope.append(os.readlink("/proc/self/ns/pid"))
    return scope


def is_running(pid: int) -> bool:
    """Return whether a process of this host exists, also one of another user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def started_at(pid: int) -> str | None:
    """Return when a process started, in kernel ticks.

    The kernel may reuse a process id. The start time tells the two processes apart.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
