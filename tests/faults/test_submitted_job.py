"""A job submitted from a folder that has packages `jobs` and `benchmarks` of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.faultworld import assert_whole, nodes, small_audit


def test_a_submitted_job_ignores_foreign_packages(undisturbed: Path, tmp_path: Path) -> None:
    """What `ray job submit --working-dir FOLDER -- robustcf audit audit.toml` runs on the head node.

    The job client needs `ray[default]`, which robustcf does not. The test therefore starts the entry point as
    Ray's job manager does: in a copy of the folder, first on the path, with the working directory in the
    job's runtime environment, so that the workers too find the user's folder first.
    """
    folder, output = tmp_path / "submitted", tmp_path / "run"
    small_audit(folder, output=str(output))
    for name in ("jobs", "benchmarks"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"raise RuntimeError('foreign {name}')\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    job = {
        "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps({"runtime_env": {"working_dir": str(folder)}}),
        "PYTHONPATH": str(folder),
    }
    with nodes({"num_cpus": 2}) as (there, _):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("robustcf")), "audit", "audit.toml"],
            cwd=folder,
            env=clean | there | job,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert_whole(undisturbed, output)
