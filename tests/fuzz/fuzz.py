"""Coverage-guided fuzzing: `python -m tests.fuzz.fuzz SECONDS [PARSER [CORPUS]]` (`make fuzz`).

Needs atheris. Each parser runs in a process of its own. An input that breaks one is left in the
working folder; once mended, it belongs into `crashes/PARSER`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

INSTRUMENTED = ["jobs", "robustcf", "tomllib", "json", "csv", "zipfile"]
COMPILED = ["_jit", "cells", "forest", "moves", "problem", "solve.bounds", "solve.engine", "solve.factors"]
COMPILED += ["solve.incumbent", "solve.milp", "solve.prices", "solve.search"]


def main(seconds: str, name: str | None = None, corpus: str | None = None) -> None:
    if name is None:
        from tests.fuzz.parsers import PARSERS

        for each in PARSERS:
            subprocess.run([sys.executable, "-m", "tests.fuzz.fuzz", seconds, each], check=True)
        return
    import atheris

    compiled = [f"robustcf.{module}" for module in COMPILED]  # numba reads their bytecode itself
    with atheris.instrument_imports(include=INSTRUMENTED, exclude=compiled):
        from tests.fuzz.parsers import PARSERS
    parser, samples = PARSERS[name]
    folder = Path(corpus or tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
    folder.mkdir(parents=True, exist_ok=True)
    for number, sample in enumerate(samples):
        (folder / f"sample-{number}").write_bytes(sample)
    options = [f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=4096", "-max_len=20000"]
    options += [f"-artifact_prefix={os.getcwd()}/{name}-", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, str(folder)], parser)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
