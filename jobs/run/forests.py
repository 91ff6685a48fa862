"""Forests in a run folder, on a disk or an object store."""

from __future__ import annotations

from robustcf import Forest, ForestError, load_forest
from robustcf.forest.files import forest_files

from ..inputs.errors import BadInput
from ..inputs.secrets import without_secrets
from ..inputs.uri import is_local, open_filesystem, parent_of
from .folder import RunFolder

FILES = ("trees.npz", "forest.json")


def store_forest(run: RunFolder, name: str, forest: Forest) -> None:
    """Publish a forest as a folder of the run.

    `forest.json` is written last. It marks the forest as complete.
    """
    for file, content in forest_files(forest).items():
        run.publish(f"{name}/{file}", content)


def stored_forest(run: RunFolder, name: str) -> Forest | None:
    """Return a forest of the run, or None if it is not stored."""
    if not run.exists(f"{name}/forest.json"):
        return None
    return load_forest({file: run.read(f"{name}/{file}") for file in FILES}, name=name)


def open_forest(address: str) -> Forest:
    """Return the forest in a forest folder, on a disk or an object store."""
    if is_local(address):
        return load_forest(open_filesystem(address)[1])
    try:
        folder, name = parent_of(address)
        forest = stored_forest(RunFolder(folder), name)
    except ForestError as error:
        raise BadInput(f"{without_secrets(address)}: {error}") from None
    if forest is None:
        raise BadInput(f"{without_secrets(address)}: there is no forest")
    return forest
