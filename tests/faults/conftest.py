"""The tests of the jobs and these share one local Ray; the audit that nothing disturbs is run once."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.faultworld import small_audit
from tests.helpers.jobworld import run_audit
from tests.jobs.conftest import local_ray

__all__ = ["local_ray"]


@pytest.fixture(scope="session")
def undisturbed(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert run_audit(small_audit(folder)) == 0
    return folder / "run"
