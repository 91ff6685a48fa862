"""One local Ray for all tests of the jobs: starting one takes seconds."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from robustcf_jobs.cluster.session import session

from tests.helpers.jobworld import TOKEN
from tests.helpers.verifyworld import make_verified


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


@pytest.fixture(scope="session")
def audited(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An honest audit, see `verifyworld.py`."""
    folder = tmp_path_factory.mktemp("verify")
    make_verified(folder)
    return folder


@pytest.fixture
def run(audited: Path, tmp_path: Path) -> Path:
    """A copy of it to do harm to; its customer table is the original one."""
    copy = tmp_path / "run"
    shutil.copytree(audited / "run", copy)
    return copy
