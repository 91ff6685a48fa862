"""Download a data set of the paper into the user's cache.

Keep it only if it is complete.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from robustcf.datasets.dataset import DatasetError
from robustcf.datasets.download import download, shown
from robustcf.datasets.named import FOLDER_VARIABLE, cache_folder
from robustcf.datasets.registry import PAPER_SETS, SYNTHETIC, Source, find

BASE_URL = "https://raw.githubusercontent.com/alexforel/RobustCF4RF/main/datasets"
SIZE_CAP = 64 * 2**20
SILENCE_SECONDS = 30.0
TOTAL_SECONDS = 600.0


def fetch(
    name: str,
    base_url: str = BASE_URL,
    cache: str | Path | None = None,
    *,
    registry: Mapping[str, Source] = PAPER_SETS,
) -> Path:
    """Download one of the paper's data sets unless the cache has a valid copy.

    Parameters
    ----------
    name : str
        The data set's name, such as `german-credit`.
    base_url : str
        The address of the folder with the files: the authors' repository or a mirror (http or https).
    cache : str or Path, optional
        The folder to store it in; by default the user's cache, which `load` searches.
    registry : mapping of str to Source
        The known files.

    Returns
    -------
    Path
        The file. It appears there only after its size and SHA-256 are checked (Online News: its rows
        and columns, because the authors' file may differ from the one known here).

    Raises
    ------
    DatasetError
        If there is no network, no such file, or an unexpected file; the message says what to do.

    Examples
    --------
    >>> fetch("synthetic-credit")
    Traceback (most recent call last):
    ...
    robustcf.datasets.dataset.DatasetError: synthetic-credit is built in and need not be fetched
    """
    if name.lower() == SYNTHETIC:
        raise DatasetError(f"{SYNTHETIC} is built in and need not be fetched")
    source = find(name, registry)
    target = Path(os.path.expanduser(cache_folder() if cache is None else cache)) / source.file
    url = f"{base_url.rstrip('/')}/{quote(source.file)}"
    try:
        if not (target.is_file() and source.problem(target) is None):
            _download_checked(source, url, target)
    except DatasetError as error:
        raise DatasetError(
            f"{source.name} could not be fetched: {error}. Download {source.file} manually "
            f"and set {FOLDER_VARIABLE} to its folder"
        ) from error
    except OSError as error:
        raise DatasetError(f"{source.name} could not be stored in {target.parent}: {error}") from error
    return target


def _download_checked(source: Source, url: str, target: Path) -> None:
    cap = source.size if source.exact else SIZE_CAP
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{source.file}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as sink:
            download(url, sink, cap=cap, timeout=SILENCE_SECONDS, total=TOTAL_SECONDS)
            sink.flush()
            os.fsync(sink.fileno())
        problem = source.problem(part)
        if problem is not None:
            raise DatasetError(f"{shown(url)} is not the expected file: {problem}")
        part.chmod(0o644)  # the data is public, so all users of the folder may read it
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
