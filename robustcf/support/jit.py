"""A typed wrapper of numba's compiler that caches machine code on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

F = TypeVar("F", bound=Callable[..., Any])


class _Cache(FunctionCache):
    """numba's cache on disk, without the entries that another version of robustcf left behind.

    An upgrade leaves them in `__pycache__`. They name classes by their modules, which may have moved.
    """

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return super().load_overload(*arguments)  # type: ignore[no-untyped-call]
        except (AttributeError, ImportError):
            self.flush()  # type: ignore[no-untyped-call]
            return None


def compiled(function: F) -> F:
    """Compile to cached machine code that releases the GIL."""
    dispatcher: Any = numba.njit(nogil=True)(function)
    dispatcher._cache = _Cache(function)  # type: ignore[no-untyped-call]
    return cast(F, dispatcher)
