"""Compare a run with the previous one: settings, customers and their outcomes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..run.folder import RunFolder
from ..run.reader import read_shard
from ..run.rows import Key
from .parts import METHOD

AT_A_TIME = 2_000_000  # customers in memory; larger runs are compared in several parts
STATES = (
    "favourable",
    "denied, with recourse",
    "denied, proved none",
    "denied, unresolved",
    "could not be read",
)
_STATE = {
    "already_favourable": 0,
    "optimal": 1, "feasible": 1, "relaxed": 1, "heuristic": 1,
    "no_recourse": 2,
    "timeout": 3, "error": 3,
    "invalid_input": 4,
}  # fmt: skip


@dataclass(frozen=True)
class Side:
    """One of the two runs: its folder, its number of methods and its shards."""

    run: RunFolder
    methods: int
    shards: tuple[str, ...]


def parts_for(*manifests: Mapping[str, Any]) -> int:
    """Return the number of parts in which two runs are compared."""
    rows = max(int(m.get("plan", {}).get("rows", 0)) for m in manifests)
    return max(1, math.ceil(rows / AT_A_TIME))


def compare(before: Side, after: Side, method: Key | None, part: int, parts: int) -> Counter[tuple[str, ...]]:
    """Count the customers whose hashed name falls into one part.

    The keys `("new",)`, `("gone",)`, `("changed",)` and `("unchanged",)` count rows. The keys
    `(previous state, current state)` count customers of both runs by their outcome with `method`, or with
    the first method if it is None.
    """
    old, new = (_customers(side, method, part, parts) for side in (before, after))
    _, i, j = np.intersect1d(old[0], new[0], assume_unique=True, return_indices=True)
    counts: Counter[tuple[str, ...]] = Counter()
    same = old[1][i] == new[1][j]
    counts[("new",)], counts[("gone",)] = len(new[0]) - len(j), len(old[0]) - len(i)
    counts[("unchanged",)], counts[("changed",)] = int(same.sum()), int((~same).sum())
    moves = np.bincount(old[2][i].astype(np.int64) * len(STATES) + new[2][j], minlength=len(STATES) ** 2)
    for k in np.flatnonzero(moves):
        counts[STATES[k // len(STATES)], STATES[k % len(STATES)]] = int(moves[k])
    return counts


def _customers(
    side: Side, method: Key | None, part: int, parts: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return hashed names, the first halves of the rows' digests, and states."""
    pieces = list(_pieces(side, method, part, parts))
    if not pieces:
        return np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.uint8)
    names, rows, states = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    names, first = np.unique(names, return_index=True)
    return names, rows[first], states[first]


def _pieces(
    side: Side, method: Key | None, part: int, parts: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    for name in side.shards:
        table = read_shard(side.run, "counterfactuals", name, ["instance_id", "status", *METHOD])
        keys = read_shard(side.run, "keys", name)
        if not len(keys):
            continue
        if len(table) != len(keys) * side.methods:
            raise ValueError(f"{name} does not have {side.methods} rows for each customer")
        columns = zip(*(table[c].slice(0, side.methods).to_pylist() for c in METHOD), strict=True)
        order = list(columns)
        at = order.index(method) if method in order else 0
        names = pd.util.hash_array(keys["instance_id"].to_numpy(zero_copy_only=False), categorize=False)
        digests = np.frombuffer(b"".join(keys["row"].to_pylist()), dtype="<u8")[::2]
        status = table["status"].to_numpy(zero_copy_only=False)[at :: side.methods]
        states = pd.Series(status).map(_STATE).fillna(3).to_numpy(np.uint8)
        mine = names % np.uint64(parts) == part
        yield names[mine], digests[mine], states[mine]


def settings_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return settings and versions that differ, as (name, previous, current)."""
    one, other = (dict(flat(m.get("config", {}))) | _versions(m) for m in (before, after))
    apart = ("output", "previous", "shared", "shard.")
    names = [n for n in dict.fromkeys([*one, *other]) if not n.startswith(apart)]
    return [(n, one.get(n, "–"), other.get(n, "–")) for n in names if one.get(n) != other.get(n)]


def _versions(manifest: Mapping[str, Any]) -> dict[str, str]:
    return {f"version of {k}": str(v) for k, v in manifest.get("versions", {}).items()}


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Flatten a config into dotted names and texts.

    >>> list(flat({"model": {"voting": "soft"}, "seed": 1}))
    [('model.voting', 'soft'), ('seed', '1')]
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and any(isinstance(v, Mapping) for v in value):
        for k, inner in enumerate(value, 1):
            yield from flat(inner, f"{name}[{k}]")
    elif isinstance(value, list):
        yield name, ", ".join(map(str, value))
    elif value is not None:
        yield name, str(value).lower() if isinstance(value, bool) else str(value)
