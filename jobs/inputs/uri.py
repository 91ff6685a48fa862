"""Open file addresses: local paths and every URI that pyarrow or fsspec supports."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import BadInput
from .secrets import is_uri, scrubbed, without_secrets


def absolute(address: str, base: Path) -> str:
    """Return a path made absolute from a folder.

    URIs and absolute paths stay unchanged.

    As in a shell, `~` is the home folder and `~name` that user's. Without such a user it is a file name.
    """
    return address if is_uri(address) else str((base / os.path.expanduser(address)).absolute())


def parent_of(address: str) -> tuple[str, str]:
    """Return an address's folder, with its URI parameters, and the name in it.

    >>> parent_of("s3://bucket/in/forest?region=eu")
    ('s3://bucket/in?region=eu', 'forest')
    """
    place, mark, parameters = address.partition("?") if is_uri(address) else (address, "", "")
    folder, _, name = place.replace("\\", "/").rstrip("/").rpartition("/")
    return (folder or ".") + mark + parameters, name


def open_filesystem(address: str) -> tuple[Any, str]:
    """Return the pyarrow filesystem of an address and the path in it."""
    from pyarrow import fs

    if not is_uri(address):
        return fs.LocalFileSystem(), str(Path(address).absolute())
    try:
        filesystem, path = fs.FileSystem.from_uri(_with_few_requests(address))
        return filesystem, path
    except (ValueError, OSError) as error:  # pyarrow does not support it; fsspec may
        try:
            import fsspec

            other, path = fsspec.core.url_to_fs(address)
            return fs.PyFileSystem(fs.FSSpecHandler(other)), path
        except (ImportError, ValueError):
            shown = without_secrets(address)
            message = scrubbed(str(error).replace(address, shown))
            raise BadInput(f"{shown}: cannot be opened: {message}") from None


def _with_few_requests(address: str) -> str:
    """Let pyarrow write a small object to S3 with one request; by default it takes three.

    >>> _with_few_requests("s3://bucket/run?region=eu")
    's3://bucket/run?region=eu&allow_delayed_open=true'
    """
    if not address.startswith("s3://") or "allow_delayed_open=" in address:
        return address
    return f"{address}{'&' if '?' in address else '?'}allow_delayed_open=true"


def base_of(address: str) -> str:
    """Return the folder above a glob's first star, with the address's URI parameters.

    >>> base_of("s3://bucket/in/part-*.parquet?region=eu")
    's3://bucket/in?region=eu'
    """
    head, star, tail = address.partition("*")
    if not star or not is_uri(address):
        return address
    _, mark, query = tail.rpartition("?")
    return head.rpartition("/")[0] + mark + query


def in_a_submitted_job(path: str) -> bool:
    """Whether a path lies in the folder to which Ray copies the files of a submitted job.

    >>> in_a_submitted_job("/tmp/ray/session/runtime_resources/working_dir_files/_ray_pkg_1/runs/tonight")
    True
    """
    return "/runtime_resources/working_dir_files/" in path.replace("\\", "/")


def is_local(address: str) -> bool:
    from pyarrow import fs

    return isinstance(open_filesystem(address)[0], fs.LocalFileSystem)


def find_files(address: str, endings: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the filesystem and the sorted files of a path, folder or glob."""
    from pyarrow import fs

    shown = without_secrets(address)
    if is_uri(address):
        filesystem, root = open_filesystem(base_of(address))
        pattern = open_filesystem(address)[1] if "*" in address else root
    else:
        filesystem, root, pattern = fs.LocalFileSystem(), address, address
    try:
        if not is_uri(address) and glob.has_magic(address) and not Path(address).exists():
            files = [p for p in glob.glob(address, recursive=True) if Path(p).is_file()]
        else:
            info = filesystem.get_file_info(root)
            if info.type == fs.FileType.File:
                files = [root]
            else:
                inside = filesystem.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
                files = [i.path for i in inside if i.type == fs.FileType.File and not _hidden(i.path, root)]
                if pattern != root:
                    files = [p for p in files if _matches(p, pattern)]
    except OSError as error:
        raise BadInput(f"{shown}: cannot be read: {error}") from None
    files = sorted(p for p in files if p.lower().endswith(tuple(endings)))
    if not files:
        raise BadInput(f"{shown}: no file ending in {' or '.join(endings)} found")
    return filesystem, files


def _hidden(path: str, root: str) -> bool:
    return any(part.startswith(("_", ".")) for part in path.removeprefix(root).split("/"))


def _matches(path: str, pattern: str) -> bool:
    return (
        re.fullmatch(glob.translate(pattern) if hasattr(glob, "translate") else _regex(pattern), path)
        is not None
    )


def _regex(pattern: str) -> str:
    """Return a glob as a regex: `*` within a folder, `**` across folders.

    This is a short form of `glob.translate`, which needs Python 3.13.
    """
    parts = re.split(r"(\*\*/?|\*|\?)", pattern)
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(words.get(part, re.escape(part)) for part in parts)
