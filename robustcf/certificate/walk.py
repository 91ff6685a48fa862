"""Fixed-sequence testing: walk from the safest candidate down while the tests pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def walk_down(candidates: Iterable[T], passes: Callable[[T], bool]) -> tuple[T | None, int]:
    """Return the last candidate that passed before the first failure, and the number of tests.

    The order must be fixed before any outcome is seen, the safest candidate first. The chance to return a
    candidate whose hypothesis is true is then at most the size of one test, however many are made: the first
    such candidate must pass. Walking *up* to the first pass would be many tries at one sample.

    >>> walk_down([0.9, 0.7, 0.6, 0.8], lambda level: level >= 0.7)
    (0.7, 3)
    """
    last, tests = None, 0
    for candidate in candidates:
        tests += 1
        if not passes(candidate):
            break
        last = candidate
    return last, tests
