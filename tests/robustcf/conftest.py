"""What the tests of the library share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def paper_data() -> Path:
    """The folder of the paper's data sets, which `rc.datasets.load` finds by itself; else a skip."""
    folder = os.environ.get("ROBUSTCF_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("the paper's data sets: set ROBUSTCF_DATA to their folder")
    return Path(folder)
