"""docs/commands.md is what the commands say of themselves."""

import subprocess
import sys
from pathlib import Path

from tests.helpers.jobworld import ROOT


def test_the_page_of_the_commands_is_up_to_date(tmp_path: Path) -> None:
    page = tmp_path / "commands.md"
    command = [sys.executable, "-m", "typer", "robustcf_jobs.cli", "utils", "docs", "--name", "robustcf"]
    command += ["--title", "Commands", "--output", str(page)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    committed = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert page.read_text(encoding="utf-8") == committed, "run `make docs` and commit docs/commands.md"
