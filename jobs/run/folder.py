"""A run folder on a local disk or an object store: complete files and a manifest.

A shard is made in memory and then published in one step: a rename on a disk, one upload on an object
store. A shard's content determines its name, so writing a shard twice changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from robustcf.support.documents import parse_json

from ..inputs.errors import BadInput
from ..inputs.secrets import is_uri, without_secrets
from ..inputs.uri import open_filesystem
from .manifest_shape import damage

FORMAT = 1
BROKEN = (OSError, pa.ArrowException, ValueError)  # errors that reading an untrusted file may raise


@dataclass(frozen=True)
class Published:
    """A published file: its name in the run folder, its size and its SHA-256."""

    name: str
    size: int
    digest: str


class RunFolder:
    """Reads and writes one run folder; cheap to create and to send to a worker."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.shown = without_secrets(address)
        self.must_stay = False  # True during a run: a removed folder is then not created again

    def __getstate__(self) -> dict[str, Any]:
        return {"address": self.address, "shown": self.shown, "must_stay": self.must_stay}

    def showing(self, name: str) -> str:
        """Return the address of a file of the run, without secrets.

        >>> RunFolder("s3://me:hush@bucket/run?region=eu").showing("report.html")
        's3://bucket/run/report.html?region=eu'
        """
        path, mark, options = self.shown.partition("?") if is_uri(self.shown) else (self.shown, "", "")
        return f"{path.rstrip('/')}/{name}{mark}{options}"

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        """The filesystem and the run folder's path in it."""
        filesystem, path = open_filesystem(self.address)
        return filesystem, path.rstrip("/")

    @property
    def filesystem(self) -> Any:
        return self._opened[0]

    @property
    def local(self) -> bool:
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def path(self, name: str) -> str:
        """Return the path of a file of the run; refuse a name that points outside.

        Names may come from an untrusted manifest.
        """
        if name.startswith("/") or "\0" in name or ".." in name.replace("\\", "/").split("/"):
            raise BadInput(f"{self.shown}: {name!r} points outside the run folder")
        return f"{self._opened[1]}/{name}"

    def _own(self, path: str) -> Path:
        """Return a local path to write or remove; refuse links out of the folder."""
        if not Path(path).resolve().is_relative_to(Path(self._opened[1]).resolve()):
            raise BadInput(f"{path} leads through a link out of the run folder")
        return Path(path)

    def exists(self, name: str = "") -> bool:
        info = self.filesystem.get_file_info(self.path(name) if name else self._opened[1])
        return bool(info.type != fs.FileType.NotFound)

    def names(self, folder: str) -> dict[str, int]:
        """Return the published files of a folder and their sizes, sorted by name."""
        selector = fs.FileSelector(self.path(folder), allow_not_found=True)
        found = self.filesystem.get_file_info(selector)
        files = (i for i in found if i.type == fs.FileType.File and not i.base_name.startswith("."))
        return {f"{folder}/{i.base_name}": i.size for i in sorted(files, key=lambda i: i.base_name)}

    def read(self, name: str) -> bytes:
        with self.filesystem.open_input_stream(self.path(name)) as stream:
            content: bytes = stream.read()
        return content

    def publish(self, name: str, content: bytes | memoryview) -> Published:
        """Publish a complete file in one step."""
        content = memoryview(content)
        if self.local:
            target = Path(self.path(name))
            self._publish_by_rename(self._own(str(target.parent)) / target.name, content)
        else:  # an object appears only when its upload is complete
            with self.filesystem.open_output_stream(self.path(name)) as stream:
                stream.write(content)
        return Published(name, len(content), hashlib.sha256(content).hexdigest())

    def _publish_by_rename(self, target: Path, content: memoryview) -> None:
        root = Path(self._opened[1])
        if not self.must_stay:
            root.mkdir(parents=True, exist_ok=True)
        for folder in reversed([f for f in target.parents if f.is_relative_to(root) and f != root]):
            folder.mkdir(exist_ok=True)
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
        try:
            with part.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)

    def publish_table(self, name: str, table: pa.Table, note: Mapping[str, Any] | None = None) -> Published:
        """Publish a Parquet file; `note` is stored in its footer."""
        if note is not None:
            table = table.replace_schema_metadata(
                {**(table.schema.metadata or {}), b"robustcf": json.dumps(note).encode()}
            )
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
        return self.publish(name, memoryview(sink.getvalue()))

    def remove(self, name: str = "") -> None:
        """Remove a folder of the run, or the whole run folder."""
        if self.exists(name):
            path = self.path(name) if name else self._opened[1]
            if self.local:
                self._own(path)
            self.filesystem.delete_dir(path)

    def sweep_up(self) -> None:
        """Remove the partial files of a killed writer (on disks; uploads leave none)."""
        if self.local:
            for part in Path(self._opened[1]).glob("**/.*.part"):
                part.unlink(missing_ok=True)

    def manifest(self) -> dict[str, Any] | None:
        """Return the manifest, or None if there is no run."""
        if not self.exists("manifest.json"):
            return None
        try:
            manifest = parse_json(self.read("manifest.json"))
        except ValueError:
            manifest = None
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise BadInput(f"{self.showing('manifest.json')} is not a manifest of format {FORMAT}")
        if (wrong := damage(manifest)) is not None:
            raise BadInput(f"{self.showing('manifest.json')} is damaged: {wrong}")
        return manifest

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        self.publish("manifest.json", (text + "\n").encode())

    def begun(self, kind: str, fingerprint: str) -> dict[str, Any] | None:
        """Return this run's manifest, or None if it is new; refuse any other folder."""
        manifest = self.manifest()
        if manifest is None:
            if self.exists() and self._occupied():
                raise BadInput(f"{self.shown} exists and is not a run folder; choose another output")
            return None
        if (manifest.get("kind"), manifest.get("config_hash")) != (kind, fingerprint):
            raise BadInput(
                f"{self.shown} belongs to another {manifest.get('kind')} run; choose another output"
            )
        return manifest

    def _occupied(self) -> bool:
        root = self._opened[1]
        if self.filesystem.get_file_info(root).type == fs.FileType.File:
            return True
        inside = self.filesystem.get_file_info(fs.FileSelector(root, allow_not_found=True))
        return any(not i.base_name.startswith((".", "_work", "_claim")) for i in inside)


def require_run(address: str) -> tuple[RunFolder, dict[str, Any]]:
    """Return an existing run folder and its manifest."""
    run = RunFolder(address)
    try:
        manifest = run.manifest()
    except OSError as error:
        raise BadInput(f"{run.shown}: cannot be read: {error}") from None
    if manifest is None:
        raise BadInput(f"{run.shown} is not a run folder: it has no manifest.json")
    return run, manifest
