"""The retry policy of the jobs: what is tried again, how often, and after which pause.

| what fails | tried again | where |
|---|---|---|
| a task whose worker or node is lost | `RETRIES` times | Ray, see `Tasks.start` |
| a task with a temporary storage error | `RETRIES` times, after about `PAUSE` seconds | the same |
| the driver's writing of the manifest or the claim, with such an error | `RETRIES` times | `with_retries` |
| a row whose solver process died by itself | `ROW_RETRIES` times | `guard` |
| a claim whose folder another run removed | `CLAIM_RETRIES` times | `run/claim` |

Everything else fails at once: an error in an input or in a program does not go away. A row whose process was
stopped at its time or memory limit is not tried again either.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from .metrics import count_retry
from .signals import stop_if_asked

T = TypeVar("T")
RETRIES = 3
PAUSE = 3.0  # seconds before failed storage is tried again
ROW_RETRIES = 1  # an operator or the kernel's memory killer may have killed the process
CLAIM_RETRIES = 99
TRANSIENT: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)
# Object stores raise OSError without a subclass; errors with these texts are temporary.
TEMPORARY = re.compile(
    r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|REQUEST_TIMEOUT)"
    r"|HTTP status 5\d\d|Retry policy exhausted|[Cc]onnection (reset|refused|timed out)"
)


def is_temporary(error: OSError) -> bool:
    """Return whether the same call may succeed later."""
    return isinstance(error, TRANSIENT) or TEMPORARY.search(str(error)) is not None


@contextmanager
def retried_by_ray() -> Iterator[None]:
    """Raise a task's temporary errors as `ConnectionError`, which Ray retries.

    The random pause keeps tasks that failed together from starting again together.
    """
    try:
        yield
    except OSError as error:
        if not is_temporary(error):
            raise
        count_retry("storage")
        time.sleep(PAUSE * (0.5 + random.random()))
        raise ConnectionError(str(error)) from None


def with_retries(function: Callable[..., T], *arguments: object) -> T:
    """Call a function in the driver, with the retries of a task."""
    for _ in range(RETRIES):
        try:
            return function(*arguments)
        except OSError as error:
            if not is_temporary(error):
                raise
            stop_if_asked()
            count_retry("storage")
            time.sleep(PAUSE)
    return function(*arguments)
