"""Coverage-guided fuzzing: `python -m tests.fuzz.fuzz SECONDS [PARSER...]` (`make fuzz`).

Needs atheris. SECONDS is CPU time for each parser, so a busy machine fuzzes as much as an idle one, only
longer. Each parser runs in processes of its own that share a corpus. An input that breaks one is left in
the working folder; once mended, it belongs into `crashes/PARSER`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

INSTRUMENTED = ["jobs", "robustcf", "tomllib", "json", "csv", "zipfile"]
COMPILED = ["_jit", "cells", "forest", "moves", "problem", "solve.bounds", "solve.engine", "solve.factors"]
COMPILED += ["solve.incumbent", "solve.milp", "solve.prices", "solve.search"]
TURN = 300  # seconds of wall time in one process


def main(seconds: float, names: list[str]) -> int:
    """Fuzz each parser for that much CPU time, with one line about each; 1 if an input broke one."""
    from tests.fuzz.parsers import PARSERS

    broken = 0
    for name in names or list(PARSERS):
        with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as corpus:
            begin, inputs, edges, code = _cpu_seconds(), 0, 0, 0
            while code == 0 and (left := seconds - (_cpu_seconds() - begin)) > 0:
                code, tried, edges = _turn(name, max(1, min(TURN, round(left))), corpus)
                inputs += tried
            minutes, kept = (_cpu_seconds() - begin) / 60, len(os.listdir(corpus))
        outcome = "ok" if code == 0 else f"broken, see {name}-* here"
        print(
            f"{name}: {inputs:,} inputs, {edges} edges, corpus {kept}, {minutes:.1f} CPU min, {outcome}",
            flush=True,
        )
        broken |= code != 0
    return int(broken)


def _cpu_seconds() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _turn(name: str, seconds: int, corpus: str) -> tuple[int, int, int]:
    """Its exit code, the inputs tried and the edges covered so far."""
    command = [sys.executable, "-m", "tests.fuzz.fuzz", "--turn", name, str(seconds), corpus]
    said = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
    if said.returncode != 0:
        print(said.stderr[-4000:], file=sys.stderr)
    tried = re.findall(r"number_of_executed_units: (\d+)", said.stderr)
    edges = re.findall(r"\bcov: (\d+)", said.stderr)
    return said.returncode, int(tried[-1]) if tried else 0, int(edges[-1]) if edges else 0


def turn(name: str, seconds: str, corpus: str) -> None:
    """One process of fuzzing, with the corpus of those before it."""
    import atheris

    compiled = [f"robustcf.{module}" for module in COMPILED]  # numba reads their bytecode itself
    with atheris.instrument_imports(include=INSTRUMENTED, exclude=compiled):
        from tests.fuzz.parsers import PARSERS
    parser, samples = PARSERS[name]
    for number, sample in enumerate(samples):
        (Path(corpus) / f"sample-{number}").write_bytes(sample)
    options = [f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=4096", "-max_len=20000"]
    options += [f"-artifact_prefix={os.getcwd()}/{name}-", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, corpus], parser)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1] == "--turn":
        turn(*sys.argv[2:])
    else:
        sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
