"""The files of a run's fresh forests: their names, and forests as single files."""

from __future__ import annotations

import io
import zipfile

from robustcf.certificate.design import Design, Order
from robustcf.forest.arrays import ForestError
from robustcf.forest.files import forest_files, load_forest
from robustcf.forest.forest import Forest

MOST_STORED = 4 * 2**20  # bytes of a packed forest; larger ones are not stored but trained again


def fresh_folder(design: Design) -> str:
    """Return the folder of a design's forests in the run folder.

    >>> fresh_folder(Design())
    'fresh/same-data-100-300-2000'
    """
    return f"fresh/{design.scenario}-{design.forests}-{design.pool}-{design.pilot}"


def fresh_name(design: Design, order: Order) -> str:
    """Return the file of one fresh forest in the run folder."""
    return f"{fresh_folder(design)}/{order.kind}-{order.number:04d}.zip"


def packed(forest: Forest) -> bytes:
    """Return a forest as one file; the same forest gives the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, part in forest_files(forest).items():
            archive.writestr(zipfile.ZipInfo(name), part)
    return content.getvalue()


def unpacked(content: bytes, name: str) -> Forest:
    """Return a forest that `packed` wrote.

    Raises
    ------
    ForestError
        If the file is broken or altered.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            small = [entry for entry in archive.infolist() if entry.file_size <= 2 * MOST_STORED]
            files = {entry.filename: archive.read(entry) for entry in small}
    except (zipfile.BadZipFile, OSError, NotImplementedError, EOFError) as error:
        raise ForestError(f"{name}: not a packed forest: {error}") from None
    return load_forest(files, name=name)
