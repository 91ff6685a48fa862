"""numba's compiler with its types kept: compiled once per machine, cached on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile to machine code that releases the GIL and is cached between processes."""
    return cast(F, numba.njit(cache=True, nogil=True)(function))
