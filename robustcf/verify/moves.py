"""Read the changes from a customer to a point back; check, price and undo them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from robustcf.schema.schema import Feature, Schema
from robustcf.support.tolerances import DELTA_ROUNDING
from robustcf.verify.findings import Findings, short
from robustcf.verify.reading import broken, costs, encode, read_texts

Name = Callable[[int], str]


@dataclass(frozen=True)
class Changes:
    """The changes of many rows, concatenated; `row` is the row of each change."""

    row: np.ndarray
    feature: np.ndarray
    before: np.ndarray
    after: np.ndarray
    delta: np.ndarray


@dataclass(frozen=True)
class Moves:
    """The result of the changes, per row.

    `origin` holds the customers' own encoded rows: the points with every change undone. `whole` marks
    the rows of which all changes could be read; only these are checked further.
    """

    distance: np.ndarray
    origin: np.ndarray
    whole: np.ndarray
    cost: np.ndarray  # of each change
    up: np.ndarray  # direction of each change by the feature's order


def check_moves(
    schema: Schema, points: np.ndarray, changes: Changes, name: Name, findings: Findings
) -> Moves:
    """Check every change against the schema and the points.

    `name` names a row in messages.
    """
    n = len(points)
    position = {f.name: j for j, f in enumerate(schema.features)}
    which = np.array([position.get(name, -1) for name in changes.feature], dtype=np.int64)
    findings.where(
        "changes",
        which < 0,
        lambda i: f"{name(changes.row[i])}: {short(changes.feature[i])} is not a feature of the schema",
    )
    _check_order(changes, which, name, findings)
    whole = np.bincount(changes.row[which < 0], minlength=n) == 0
    cost, up = np.zeros(len(which)), np.zeros(len(which))
    origin = points.copy()
    for j, feature in enumerate(schema.features):
        at = np.flatnonzero(which == j)
        if not len(at):
            continue
        columns = slice(schema.column_start[j], schema.column_start[j + 1])
        old, new, unread = _check_feature(feature, points[:, columns], changes, at, name, findings)
        row = changes.row[at]
        whole[row[unread]] = False
        origin[row, columns] = encode(feature, old)
        cost[at] = np.where(unread, 0.0, costs(feature, old, new))
        up[at] = np.sign(np.nan_to_num(new - old))
    _check_rules(schema, n, changes, which, up, name, findings)
    return Moves(np.bincount(changes.row, weights=cost, minlength=n), origin, whole, cost, up)


def priced(schema: Schema, changes: Changes) -> tuple[np.ndarray, np.ndarray]:
    """Return each change's cost and direction.

    The direction is 1 (up), -1 (down) or 0 (unknown or without order).
    """
    cost, up = np.zeros(len(changes.row)), np.zeros(len(changes.row))
    for feature in schema.features:
        at = np.flatnonzero(changes.feature == feature.name)
        if len(at):
            old, new = (read_texts(feature, texts[at]) for texts in (changes.before, changes.after))
            cost[at] = np.nan_to_num(costs(feature, old, new))
            up[at] = np.sign(np.nan_to_num(new - old)) if feature.ordered else 0.0
    return cost, up


def _check_feature(
    feature: Feature,
    block: np.ndarray,
    changes: Changes,
    at: np.ndarray,
    name: Name,
    findings: Findings,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Check one feature's changes.

    Return numbers before and after, and which are unreadable.
    """

    def note(kind: str, wrong: np.ndarray, what: str) -> None:
        def say(i: int) -> str:
            k = at[i]
            move = f"{short(changes.before[k])} -> {short(changes.after[k])}"
            return f"{name(changes.row[k])}: {short(feature.name)}: {move} {what}"

        findings.where(kind, wrong, say)

    old, new = (read_texts(feature, texts[at]) for texts in (changes.before, changes.after))
    unread = np.isnan(old) | np.isnan(new)
    note("changes", unread, "is not a value of the feature")
    note("changes", old == new, "is not a change")
    stored = changes.delta[at]
    wanted = new - old if feature.is_number else np.full(len(at), np.nan)
    same = np.isclose(stored, wanted, rtol=DELTA_ROUNDING, atol=0) | (np.isnan(stored) & np.isnan(wanted))
    note("changes", ~same & ~unread, "does not match delta")
    for wrong, what in broken(feature, old, new):
        note("constraint", wrong & ~unread, what)
    moved = (block[changes.row[at]] != encode(feature, new)).any(axis=1)
    note("point", moved & ~unread, "does not match the point")
    return old, new, unread


def _check_order(changes: Changes, which: np.ndarray, name: Name, findings: Findings) -> None:
    """Check that each row lists each feature once, in the schema's order."""
    same_row = changes.row[1:] == changes.row[:-1]
    known = (which[1:] >= 0) & (which[:-1] >= 0)
    findings.where(
        "changes",
        same_row & known & (which[1:] <= which[:-1]),
        lambda i: (
            f"{name(changes.row[i + 1])}: {short(changes.feature[i + 1])} is listed twice or out of order"
        ),
    )


def _check_rules(
    schema: Schema,
    n: int,
    changes: Changes,
    which: np.ndarray,
    up: np.ndarray,
    name: Name,
    findings: Findings,
) -> None:
    """Check the rules across features: links and the number of changes."""
    if schema.max_changes is not None:
        count = np.bincount(changes.row, minlength=n)
        findings.where(
            "constraint",
            count > schema.max_changes,
            lambda i: f"{name(i)}: {count[i]} features change, but max_changes is {schema.max_changes}",
        )
    words = np.array(["same", "up", "down"])  # at 0, 1 and -1
    for link in schema.links:
        made = []
        for clause in (link.when, link.then):
            move = np.zeros(n, dtype=np.int64)
            mine = which == schema.names.index(clause.feature)
            move[changes.row[mine]] = up[mine].astype(np.int64)
            made.append(np.isin(words[move], clause.moves))
        _note(findings, "constraint", made[0] & ~made[1], name, f"breaks the link {link}")


def _note(findings: Findings, kind: str, wrong: np.ndarray, name: Name, what: str) -> None:
    findings.where(kind, wrong, lambda i: f"{name(i)}: {what}")


def check_points(
    schema: Schema, points: np.ndarray, missing: bool, name: Name, findings: Findings
) -> np.ndarray:
    """Check that encoded rows hold valid numbers and category codes.

    Return which rows do.
    """
    fine = np.ones(len(points), dtype=bool)
    for j, feature in enumerate(schema.features):
        block = points[:, schema.column_start[j] : schema.column_start[j + 1]]
        if not block.shape[1]:
            continue
        if feature.is_number:
            wrong = np.isinf(block).any(axis=1) | (np.isnan(block).any(axis=1) & (not missing))
        else:
            known = encode(feature, np.arange(len(feature.values), dtype=np.float64))
            wrong = ~(block[:, None, :] == known[None]).all(axis=2).any(axis=1)
        _note(findings, "point", wrong, name, f"point: {short(feature.name)} has an invalid value")
        fine &= ~wrong
    return fine
