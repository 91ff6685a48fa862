"""The fresh forests of a run's certificates: each is trained once and stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from robustcf import Forest, ForestError
from robustcf.certificate.design import Design, Order
from robustcf.certificate.fresh import FreshForests, check_rows, train_order

from ..inputs.errors import BadInput
from .folder import RunFolder
from .fresh_files import MOST_STORED, fresh_name, packed, unpacked
from .question import Question


def designs_of(question: Question) -> list[Design]:
    """Return the designs of the fresh forests that the methods need."""
    return list(dict.fromkeys(m.design for m in question.methods if m.design is not None))


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
