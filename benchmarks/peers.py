"""Run peer packages in their own interpreter.

Importing ortools in the same process breaks highspy, and one peer needs Python 3.12.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from .cases import World

WORKER = Path(__file__).with_name("peer_worker.py")
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1")


class PeerGone(RuntimeError):
    """A peer did not answer in time, or its process died."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


def importable(name: str, python: str) -> bool:
    """Whether the peer is installed in this interpreter."""
    module = "ocean" if name == "oceanpy" else "treecf"
    command = [python, "-c", f"import joblib, sklearn, {module}"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:  # no such interpreter
        return False


class Peer:
    """One peer, set up for one world; restarted after it had to be stopped."""

    def __init__(self, name: str, python: str, world: World) -> None:
        self.name, self.python = name, python
        self._folder = tempfile.TemporaryDirectory(prefix="robustcf-bench-")
        model = str(Path(self._folder.name) / "model.joblib")
        joblib.dump(world.model, model)
        self._setup = {"do": "setup", "model": model, "features": describe(world)}
        self._process: subprocess.Popen[str] | None = None
        self.setup_seconds = self._start()

    def _start(self) -> float:
        self._process = subprocess.Popen(
            [self.python, str(WORKER), self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **_ONE_THREAD, "PYTHONPATH": ""},
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()
        answer = self._ask(self._setup, 300.0)
        if answer["status"] == "error":
            raise PeerGone(f"{self.name} cannot read this forest: {answer['reason']}", answer["seconds"])
        return float(answer["seconds"])

    def _ask(self, request: dict[str, Any], patience: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        begin = time.perf_counter()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=patience)
        except (queue.Empty, BrokenPipeError):
            line = ""
        if not line:
            self.close()
            raise PeerGone(f"{self.name} did not answer", time.perf_counter() - begin)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def solve(self, encoded: np.ndarray, target: int, limit: float) -> dict[str, Any]:
        if self._process is None:
            self._start()
        request = {"do": "solve", "x": encoded.tolist(), "target": target, "limit": limit}
        return self._ask(request, 1.5 * limit + 30.0)  # some peers check the time only occasionally

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")  # the process ended


def describe(world: World) -> list[dict[str, Any]]:
    """Return the features for a peer: columns, weights, listed encoded values."""
    schema = world.data.schema
    features = []
    for j, feature in enumerate(schema.features):
        if feature.n_columns == 0:
            continue
        values: list[float] = []
        if feature.ordered and feature.kind != "continuous":
            values = feature.encoded(np.unique([feature.number(v) for v in feature.values])).tolist()
        low, high = feature.span if feature.is_number else (0.0, 1.0)
        scale = high - low if feature.scaling == "minmax" else 1.0
        features.append(
            {
                "name": feature.name,
                "kind": feature.kind,
                "action": feature.action,
                "column": int(schema.column_start[j]),
                "n_columns": int(feature.n_columns),
                "weight": float(feature.cost_weight),
                "values": values,
                "step": None if feature.step is None else feature.step / scale,
                "anchor": -low / scale if feature.scaling == "minmax" else 0.0,
            }
        )
    return features
