"""Fixed-sequence testing: walk from the safest candidate down while the tests pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import TypeVar

T = TypeVar("T")


def walk_down(candidates: Iterable[T], passes: Callable[[T], bool]) -> list[T]:
    """Return the candidates that pass before the first failure.

    The order must be fixed before any outcome is seen, the safest candidate first. A false candidate is one
    that should fail. The chance to return any of them is at most the size of one test, because the first of
    them must pass. Walking *up* to the first pass would be many tries at one sample.

    >>> walk_down([0.9, 0.7, 0.6, 0.8], lambda level: level >= 0.7)
    [0.9, 0.7]
    """
    return list(takewhile(passes, candidates))
