"""A Ray that cannot start: one line that names its log, not Ray's own noise; never a run that hangs."""

import resource
from pathlib import Path

import pytest

from tests.helpers.faultworld import small_audit
from tests.helpers.jobworld import Command


@pytest.mark.parametrize(
    "gigabytes",
    [4.0, pytest.param(1.5, marks=pytest.mark.slow), pytest.param(8.0, marks=pytest.mark.slow)],
)
def test_too_little_address_space_for_ray_is_one_line(tmp_path: Path, gigabytes: float) -> None:
    """`ulimit -v` gave 54 lines; with 8 GB the run waited forever for workers."""
    config, before = small_audit(tmp_path), resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * 1e9), before[1]))
    try:
        command = Command("audit", str(config), "--cpus", "2")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    code, output = command.finish()
    lines = [line for line in output.splitlines() if not line.startswith('{"stage": "starting Ray"')]
    assert code == 1, output
    assert len(lines) == 1, output
    assert lines[0].startswith("robustcf: Ray did not start on this machine")
    assert Path(lines[0].partition("its log: ")[2].partition(")")[0]).is_file()
    assert not list((tmp_path / "run").glob("[!_]*"))
