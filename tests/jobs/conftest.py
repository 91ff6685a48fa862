"""One local Ray for all tests of the jobs: starting one takes seconds."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from jobworld import TOKEN

from jobs.cluster import session


@pytest.fixture(scope="session")
def local_ray() -> Iterator[Any]:
    before = {name: os.environ.pop(name, None) for name in ("RAY_ADDRESS", *TOKEN)}
    os.environ.update(TOKEN)
    with session(None, cpus=2) as ray:
        yield ray
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
