"""One local Ray for the tests of a module."""

from collections.abc import Iterator
from typing import Any

import pytest

from jobs.cluster import session


@pytest.fixture(scope="module")
def local_ray() -> Iterator[Any]:
    with session("local", cpus=2) as ray:
        yield ray
