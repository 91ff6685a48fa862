"""Try to refute claims with the answers of other customers and methods.

A *donor* is a row of numbers in which NaN means "keep the customer's value". It is a whole point of the
run, only the changes of an answer, or these changes without one of them. Every donor is tried on every
customer whose claim it could refute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustcf.schema.schema import Schema
from robustcf.support.tolerances import CHEAPER
from robustcf.verify.claims import Claim, allowed_moves, judge, move_costs
from robustcf.verify.sheet import ShardQuestion

BLOCK = 400_000  # (customer, donor) pairs at a time


@dataclass(frozen=True)
class Hit:
    """A claim that a donor refutes."""

    claim: Claim
    point: np.ndarray
    objective: float
    score: float


def donors(own: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the distinct donors made from customers' own rows and their points.

    >>> donors(np.array([[1.0, 2.0]]), np.array([[3.0, 2.0]])).tolist()
    [[3.0, 2.0], [3.0, nan]]
    """
    moved = ~((own == points) | (np.isnan(own) & np.isnan(points)))
    changes = np.where(moved, points, np.nan)
    fewer = [changes]
    for j in range(points.shape[1]):
        several = moved[:, j] & (moved.sum(axis=1) > 1)
        one_less = changes[several].copy()
        one_less[:, j] = np.nan
        fewer.append(one_less)
    found = np.vstack([points, *fewer])
    found = found[~np.isnan(found).all(axis=1)]
    return np.asarray(found[_first_of_each(found)[0]])


def _first_of_each(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first index of each distinct row, and each row's distinct row.

    The result is NaN equals NaN.
    """
    clean = np.ascontiguousarray(np.where(np.isnan(rows), np.nan, rows + 0.0))
    _, first, which = np.unique(
        clean.view(np.dtype((np.void, clean.dtype.itemsize * clean.shape[1]))).reshape(-1),
        return_index=True,
        return_inverse=True,
    )
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[which.reshape(-1)]


def attack(
    asked: ShardQuestion, claims: Sequence[Claim], own: np.ndarray, given: np.ndarray
) -> tuple[list[Hit], int]:
    """Try every donor on every claim.

    Return the refuted claims and the number of pairs.

    Parameters
    ----------
    asked : ShardQuestion
    claims : sequence of Claim
    own : ndarray
        The row of each claim's customer, as numbers.
    given : ndarray
        Donors (see `donors`).
    """
    hits: list[Hit] = []
    tried = 0
    if not len(given) or not len(claims):
        return hits, tried
    first, whose = _first_of_each(own)
    customers = own[first]
    of: list[list[int]] = [[] for _ in customers]
    for k, c in enumerate(whose):
        of[c].append(k)
    size = max(1, BLOCK // len(given))
    for start in range(0, len(customers), size):
        block = np.arange(start, min(start + size, len(customers)))
        most = np.array([max(claims[k].least for k in of[c]) for c in block])
        pairs = np.repeat(block, len(given))
        donor = np.tile(np.arange(len(given)), len(block))
        tried += len(given) * sum(len(of[c]) for c in block)
        near = _cheap(asked.schema, customers[pairs], given[donor], most[pairs - start])
        hits += _judged(asked, claims, of, customers, pairs[near], given[donor[near]])
    return hits, tried


def _cheap(schema: Schema, own: np.ndarray, given: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Return the pairs whose move is allowed and costs less than the highest claim."""
    points = np.where(np.isnan(given), own, given)
    cost = move_costs(schema, own, points)
    near = np.flatnonzero(cost < np.where(np.isinf(most), np.inf, most * (1 - CHEAPER)))
    return np.asarray(near[allowed_moves(schema, own[near], points[near])])


def _judged(
    asked: ShardQuestion,
    claims: Sequence[Claim],
    of: list[list[int]],
    customers: np.ndarray,
    pairs: np.ndarray,
    given: np.ndarray,
) -> list[Hit]:
    """Return each refuted claim with its nearest refuting point among the pairs."""
    hits: dict[int, Hit] = {}
    kinds: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for p, c in enumerate(pairs):
        for k in of[c]:
            kinds.setdefault(claims[k].kind, []).append((p, k))
    for those in kinds.values():
        at, which = (np.array(x) for x in zip(*those, strict=True))
        own = customers[pairs[at]]
        points = np.where(np.isnan(given[at]), own, given[at])
        found = judge(asked, claims[those[0][1]], own, points)
        least = np.array([claims[k].least for k in which])
        for i in np.flatnonzero(found.refutes(least)):
            k, objective = int(which[i]), float(found.objective[i])
            if k not in hits or objective < hits[k].objective:
                hits[k] = Hit(claims[k], points[i], objective, float(found.score[i]))
    return list(hits.values())
