"""Store each measurement at once, so that an interrupted run keeps it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import robustcf

from .cases import CASE

KEY = (*CASE, "row", "method", "contender")


class OtherVersion(RuntimeError):
    """The folder has measurements of a different code version or different settings."""


def code_fingerprint() -> str:
    """Return a digest of the library's sources, to keep code versions apart."""
    root = Path(robustcf.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Store:
    """`measurements.jsonl` and `run.json` in one folder."""

    def __init__(self, folder: Path, settings: dict[str, Any], fresh: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "measurements.jsonl"
        about = folder / "run.json"
        if fresh:
            for name in ("measurements.jsonl", "growth.jsonl", "run.json"):
                (folder / name).unlink(missing_ok=True)
        settings = {**settings, "code": code_fingerprint()}
        if about.exists() and (old := json.loads(about.read_text())) != settings:
            changed = sorted(k for k in settings | old if settings.get(k) != old.get(k))
            raise OtherVersion(
                f"{folder} has measurements with a different {', '.join(changed)}; "
                "choose another --out, or use --fresh to discard them"
            )
        about.write_text(json.dumps(settings, indent=2) + "\n")
        self._done = {tuple(r[k] for k in KEY) for r in read(self.path)}

    def has(self, record: dict[str, Any]) -> bool:
        return tuple(record[k] for k in KEY) in self._done

    def add(self, record: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self._done.add(tuple(record[k] for k in KEY))


def read(path: Path) -> list[dict[str, Any]]:
    """Return every complete line; remove a last line that a crash cut short."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines()]
