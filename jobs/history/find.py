"""Find the audits of a history, in the order of their beginning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pyarrow import fs

from robustcf import Forest, ForestError, Schema, SchemaError

from ..inputs.errors import BadInput
from ..inputs.secrets import is_uri
from ..run.folder import RunFolder
from ..run.forests import stored_forest
from ..terminal.progress import warn


@dataclass(frozen=True)
class Night:
    """One complete audit."""

    run: RunFolder
    manifest: dict[str, Any]

    @property
    def began(self) -> float:
        """When the run began, in seconds since 1970; in older versions, when its last shard ended."""
        notes = (note.get("log", {}) for note in self.manifest["shards"].values())
        ended = max((note["ended"] for note in notes if "ended" in note), default=0.0)
        return float(self.manifest.get("began") or ended)

    @property
    def when(self) -> str:
        return f"{datetime.fromtimestamp(self.began, UTC):%Y-%m-%d %H:%M}" if self.began else ""

    @cached_property
    def schema(self) -> Schema:
        try:
            return Schema.from_toml(self.run.read("schema.toml"), name=self.run.showing("schema.toml"))
        except (OSError, SchemaError) as error:
            raise BadInput(f"{self.run.shown}: the schema cannot be read: {error}") from None

    def forest(self) -> Forest:
        """Return the run's forest; it is not kept, because a history may have many."""
        try:
            forest = stored_forest(self.run, "forest")
        except (OSError, ForestError) as error:
            raise BadInput(f"{self.run.shown}: the forest cannot be read: {error}") from None
        if forest is None:
            raise BadInput(f"{self.run.shown}: the run stores no forest")
        return forest


def nights_of(addresses: Sequence[str]) -> list[Night]:
    """Return the audits at these addresses; each is a run folder or a folder of run folders."""
    found = {night.run.address: night for address in addresses for night in _nights(address)}
    if not found:
        raise BadInput(f"{', '.join(RunFolder(a).shown for a in addresses)}: no complete audit found")
    return sorted(found.values(), key=lambda night: (night.began, night.run.address))


def _nights(address: str) -> Iterator[Night]:
    run = RunFolder(address)
    try:
        manifest = run.manifest()
        inside = [] if manifest is not None else _folders(run)
    except OSError as error:
        raise BadInput(f"{run.shown}: cannot be read: {error}") from None
    if manifest is not None:
        if manifest["kind"] != "audit":
            raise BadInput(f"{run.shown} is a {manifest['kind']}; a history is made of audits")
        yield from _complete(run, manifest)
    for name in inside:
        part = RunFolder(_within(address, name))
        manifest = part.manifest()
        if manifest is not None and manifest["kind"] == "audit":
            yield from _complete(part, manifest)


def _complete(run: RunFolder, manifest: Mapping[str, Any]) -> Iterator[Night]:
    if manifest["state"] == "complete":
        yield Night(run, dict(manifest))
    else:
        warn(f"{run.shown}: left out, because the run is not complete")


def _folders(run: RunFolder) -> list[str]:
    """Return the names of the folders in a folder."""
    selector = fs.FileSelector(run.path("."), allow_not_found=True)
    infos = run.filesystem.get_file_info(selector)
    return sorted(str(i.base_name) for i in infos if i.type == fs.FileType.Directory)


def _within(address: str, name: str) -> str:
    """Return the address of a folder in a folder.

    >>> _within("s3://bucket/runs?region=eu", "monday")
    's3://bucket/runs/monday?region=eu'
    """
    path, mark, options = address.partition("?") if is_uri(address) else (address, "", "")
    return f"{path.rstrip('/')}/{name}{mark}{options}"
