"""The fresh forests of a run's certificates: each is trained once and stored."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Sequence
from typing import Any

from robustcf import Forest, ForestError, load_forest
from robustcf.certificate.design import Design, Order, orders
from robustcf.certificate.fresh import FreshForests, check_rows, is_single_tree, train_order
from robustcf.forest.files import forest_files

from ..inputs.errors import BadInput
from .folder import RunFolder
from .question import Question

MOST_STORED = 4 * 2**20  # bytes of a packed forest; larger ones are not stored but trained again


def designs_of(question: Question) -> list[Design]:
    """Return the designs of the fresh forests that the methods need."""
    return list(dict.fromkeys(m.design for m in question.methods if m.design is not None))


def fresh_folder(design: Design) -> str:
    """Return the folder of a design's forests in the run folder.

    >>> fresh_folder(Design())
    'fresh/same-data-100-300-2000'
    """
    return f"fresh/{design.scenario}-{design.forests}-{design.pool}-{design.pilot}"


def fresh_name(design: Design, order: Order) -> str:
    """Return the file of one fresh forest in the run folder."""
    return f"{fresh_folder(design)}/{order.kind}-{order.number:04d}.zip"


def fresh_orders(forest: Forest, design: Design, seed: int) -> list[Order]:
    """Return the forests to train for an audit."""
    return orders(design, len(forest), seed, is_single_tree(forest))


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


def make_forest(
    run: RunFolder, forest: Forest, rows: Any, design: Design, order: Order, threads: int
) -> Forest:
    """Load or train one fresh forest; store it if it is small."""
    name = fresh_name(design, order)
    if run.exists(name):
        try:
            return unpacked(run.read(name), name)
        except ForestError:
            pass  # a broken file is made again
    made = train_order(forest, rows.X, rows.y, rows.first, design, order, threads)
    content = packed(made)
    if len(content) <= MOST_STORED:
        run.publish(name, content)
    return made


def check_training_rows(forest: Forest, rows: Any, threads: int, strict: bool) -> str | None:
    """Check that the forest was trained on these rows; return a warning if that cannot be checked.

    If not `strict`, a difference is only a warning: a pipeline's forest was trained on transformed rows.
    """
    try:
        return check_rows(forest, rows.X[rows.first], rows.y[rows.first], threads)
    except ForestError as error:
        if strict:
            raise BadInput(f"training: {error}") from None
        return "the model transforms its rows, so it cannot be checked that the training rows are its own"


def assemble(forest: Forest, design: Design, made: Sequence[Order], *forests: Forest) -> FreshForests:
    """Put the fresh forests of a design together, in one object that all workers share."""
    try:
        return FreshForests.assembled(forest, design, list(zip(made, forests, strict=True)))
    except ForestError as error:
        raise BadInput(str(error)) from None


def together(*fresh: FreshForests) -> tuple[FreshForests, ...]:
    """Return the fresh forests of all designs as one argument of a task."""
    return fresh


def described(fresh: Iterable[FreshForests]) -> list[dict[str, Any]]:
    """Return what the manifest says about the fresh forests: enough to train each again."""
    return [
        {
            "scenario": one.design.scenario,
            "forests": one.design.forests,
            "pool": one.design.pool,
            "pilot": one.design.pilot,
            "trained": [
                {
                    "kind": order.kind,
                    "number": order.number,
                    "seed": order.seed,
                    "trees": order.n_trees,
                    "fingerprint": fingerprint,
                }
                for order, fingerprint in zip(one.orders, one.fingerprints, strict=True)
            ],
        }
        for one in fresh
    ]
