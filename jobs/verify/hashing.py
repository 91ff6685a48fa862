"""Independent implementations of the run's hashes, to compare with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import pandas as pd


def derived_seed(seed: int, *keys: str | int) -> int:
    """Return the seed a run derives for a purpose: the first 32 bits of a SHA-256."""
    text = json.dumps([seed, *keys], separators=(",", ":"), ensure_ascii=True)
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


def hash_ids(ids: np.ndarray) -> np.ndarray:
    return pd.util.hash_array(np.asarray(ids, dtype=object))


def hash_texts(columns: Sequence[np.ndarray], n: int) -> np.ndarray:
    """Return a 64-bit hash of each row of text columns.

    Missing text has a fixed hash.
    """
    state = np.full(n, 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in columns:
        texts = np.array(["\0" if v is None or v is pd.NA else str(v) for v in column], dtype=object)
        state = mixed(state ^ pd.util.hash_array(texts))
    return state


def clean(rows: np.ndarray) -> np.ndarray:
    """Return rows with one kind of NaN and no -0.0.

    Equal rows then have equal bytes.
    """
    return np.ascontiguousarray(np.where(np.isnan(rows), np.nan, rows + 0.0))


def digest(row: np.ndarray) -> int:
    """Return the first half of the digest in `keys/`."""
    return int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=16).digest()[:8], "little")


def hash_rows(rows: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each row: splitmix64 over its columns."""
    state = np.full(len(rows), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in clean(rows).view(np.uint64).T:
        state = mixed(state ^ column)
    return state


def mixed(values: np.ndarray) -> np.ndarray:
    """Apply splitmix64's final mixing step."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))
