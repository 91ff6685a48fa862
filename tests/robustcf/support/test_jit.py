"""Compiled functions and the machine code that they cache on disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
from typing import NamedTuple
from robustcf.support.jit import compiled
class {name}(NamedTuple):
    number: int
@compiled
def doubled(value):
    return 2 * value.number
print(doubled({name}(21)))
"""


def run(folder: Path, name: str) -> str:
    """Write the module with a class of this name, import it, and return what it prints."""
    (folder / "kernels.py").write_text(CODE.format(name=name), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", "import kernels"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_cache_that_another_version_left_behind_is_discarded(tmp_path: Path) -> None:
    """An upgrade leaves it in `__pycache__`, and it names classes that have moved since."""
    assert run(tmp_path, "Before") == "42\n"
    (index,) = (tmp_path / "__pycache__").glob("*.nbi")
    assert b"Before" in index.read_bytes()
    assert run(tmp_path, "After") == "42\n"
    assert b"Before" not in index.read_bytes()
    (code,) = (tmp_path / "__pycache__").glob("*.nbc")  # the next process loads it
    time = code.stat().st_mtime_ns
    assert run(tmp_path, "After") == "42\n"
    assert code.stat().st_mtime_ns == time
