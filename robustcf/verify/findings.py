"""The mismatches of a verification: counts and the first messages by kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

MOST_SHOWN = 20  # per kind


class Findings:
    """Mismatches by kind. All are counted.

    Messages are kept for the first `MOST_SHOWN`.

    Examples
    --------
    >>> findings = Findings()
    >>> findings.add("digest", "counterfactuals/a.parquet: the file has changed")
    >>> findings.total, findings.shown("digest")
    (1, ['counterfactuals/a.parquet: the file has changed'])
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.unchecked: Counter[str] = Counter()  # rows that a check skipped, by check
        self._shown: defaultdict[str, list[str]] = defaultdict(list)

    @property
    def total(self) -> int:
        return self.counts.total()

    @property
    def kinds(self) -> list[str]:
        return list(self.counts)

    def shown(self, kind: str) -> list[str]:
        return self._shown[kind]

    def add(self, kind: str, message: str) -> None:
        self.counts[kind] += 1
        if len(self._shown[kind]) < MOST_SHOWN:
            self._shown[kind].append(message)

    def where(self, kind: str, wrong: np.ndarray, say: Callable[[int], str]) -> None:
        """Add a mismatch for each index where `wrong` is true; `say` returns its message."""
        indices = np.flatnonzero(wrong)
        self.counts.update({kind: len(indices)} if len(indices) else {})
        room = MOST_SHOWN - len(self._shown[kind])
        self._shown[kind] += [say(int(i)) for i in indices[: max(room, 0)]]

    def expect(self, kind: str, where: str, stored: Any, recomputed: Any) -> bool:
        """Add a mismatch unless two values are equal and of the same type.

        Return whether they are.
        """
        if type(stored) is type(recomputed) and stored == recomputed:
            return True
        self.add(kind, f"{where}: stored {short(stored)}, recomputed {short(recomputed)}")
        return False


def short(value: Any) -> str:
    """Return a value for a message: one printable line of at most 80 characters."""
    if isinstance(value, float | np.floating):
        return f"{float(value):.12g}"
    text = value if isinstance(value, str) else repr(value)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 80 else text[:77] + "..."


def listed(words: Sequence[str], most: int = 5) -> str:
    """Return the first few words as a comma-separated list."""
    shown = ", ".join(short(w) for w in words[:most])
    return shown if len(words) <= most else f"{shown} and {len(words) - most} more"
