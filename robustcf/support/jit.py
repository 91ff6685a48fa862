"""A typed wrapper of numba's compiler that caches machine code on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile to cached machine code that releases the GIL."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))
