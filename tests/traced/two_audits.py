# ruff: noqa: TID251
"""Run the audits `one` and `two` of a folder through the command line, on one Ray with one CPU."""

import os
import sys
from pathlib import Path

from robustcf_jobs.cli import main
from robustcf_jobs.cluster.session import session

with session(None, cpus=1):
    for name in ("one", "two"):
        with open(os.environ["WAY_TRACE"], "a") as trace:
            trace.write(f"{name}\n")
        sys.argv = ["robustcf", "audit", str(Path(sys.argv[-1]).parent / f"{name}.toml")]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise
