"""Coverage-guided fuzzing: `python -m tests.fuzz.fuzz SECONDS [PARSER...]` (`make fuzz`).

Needs atheris and coverage. SECONDS is CPU time for each parser, so a busy machine fuzzes as much as an
idle one, only longer. Each parser runs in processes of its own that share a corpus, `.fuzz/PARSER`, with
which the next call goes on. An input that breaks one is left in the working folder; once mended, it belongs
into `crashes/PARSER`.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

INSTRUMENTED = ["robustcf_jobs", "robustcf", "tomllib", "json", "csv", "zipfile"]
WORDS = re.compile(rb'"[^"\n]*"|[\w.+-]+|\s+|.', re.DOTALL)
TURN = 120  # seconds of wall time in one process
MEMORY = "/dev/shm"
TESTS = Path(__file__).parent
_SCHEMA = [
    f"robustcf/schema/{name}.py" for name in ("schema", "feature", "feature_checks", "links", "transitions")
]
_FOREST = ["robustcf/forest/files.py"]
_TABLES = ["jobs/inputs/tables.py", "robustcf/schema/encode.py"]
MODULES = {  # whose lines a parser is to reach
    "config": ["jobs/inputs/config.py", "jobs/inputs/field_types.py", "jobs/inputs/validation_error.py"],
    "schema": [*_SCHEMA, "robustcf/schema/coding.py"],
    "typed_csv": ["robustcf/datasets/typed_csv.py", "robustcf/datasets/column_text.py"],
    "customers_csv": _TABLES,
    "customers_parquet": _TABLES,
    "forest_head": _FOREST,
    "forest_trees": _FOREST,
    "forest_arrays": ["robustcf/forest/forest.py"],
    "manifest": ["jobs/run/manifest_shape.py", "jobs/inputs/validation_error.py"],
    "shard": ["jobs/run/manifest_shape.py"],
}


def main(seconds: float, names: list[str]) -> int:
    """Fuzz each parser for that much CPU time, with one line about each; 1 if an input broke one."""
    broken = 0
    for name in names or list(MODULES):
        corpus = Path(".fuzz") / name
        corpus.mkdir(parents=True, exist_ok=True)
        begin, inputs, edges, code = _cpu_seconds(), 0, 0, 0
        for by in cycle(("words", "bytes")):  # bytes alone break a document before its meaning is looked at
            if code or (left := seconds - (_cpu_seconds() - begin)) <= 0:
                break
            code, tried, edges = _turn(name, by, max(1, min(TURN, round(left))), corpus)
            inputs += tried
        minutes, kept = (_cpu_seconds() - begin) / 60, len(os.listdir(corpus))
        outcome = "ok" if code == 0 else f"broken, see {name}-* here"
        said = f"{name}: {inputs:,} inputs, {edges} edges, {_lines(name, corpus)}, corpus {kept}"
        print(f"{said}, {minutes:.1f} CPU min, {outcome}", flush=True)
        broken |= code != 0
    return int(broken)


def _cpu_seconds() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _turn(name: str, by: str, seconds: int, corpus: Path) -> tuple[int, int, int]:
    """Its exit code, the inputs tried and the edges covered so far."""
    command = [sys.executable, "-m", "tests.fuzz.fuzz", "--turn", name, by, str(seconds), str(corpus)]
    room = {"TMPDIR": MEMORY} if Path(MEMORY).is_dir() else {}  # every input is a file, and a disk is slow
    said = subprocess.run(
        command, stderr=subprocess.PIPE, text=True, errors="replace", env={**os.environ, **room}
    )
    if said.returncode != 0:
        print(said.stderr[-4000:], file=sys.stderr)
    tried = re.findall(r"number_of_executed_units: (\d+)", said.stderr)
    edges = re.findall(r"\bcov: (\d+)", said.stderr)
    return said.returncode, int(tried[-1]) if tried else 0, int(edges[-1]) if edges else 0


def _compiled() -> list[str]:
    """The modules with compiled kernels: numba reads their bytecode itself."""
    root = TESTS.parents[1]
    files = [file for file in (root / "robustcf").rglob("*.py") if "support.jit import" in file.read_text()]
    files.append(root / "robustcf/support/jit.py")
    return [".".join(file.relative_to(root).with_suffix("").parts) for file in files]


def turn(name: str, by: str, seconds: str, corpus: str) -> None:
    """One process of fuzzing, with the corpus of those before it."""
    import atheris

    with atheris.instrument_imports(include=INSTRUMENTED, exclude=_compiled()):
        from tests.fuzz.parsers import PARSERS
    parser, samples = PARSERS[name]
    for number, sample in enumerate(samples):
        (Path(corpus) / f"sample-{number}").write_bytes(sample)
    for once in (TESTS / "crashes" / name).glob("*"):
        (Path(corpus) / f"once-{once.name}").write_bytes(once.read_bytes())
    found = {word for sample in samples for word in re.findall(rb"[A-Za-z_][\w.-]{2,40}", sample)}
    words = Path(corpus).with_suffix(".words")
    words.write_text("".join(f'"{word.decode()}"\n' for word in sorted(found)))
    options = [f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=4096", "-max_len=20000"]
    options += [f"-artifact_prefix={os.getcwd()}/{name}-", "-print_final_stats=1"]
    options += [f"-dict={words}"] if found else []
    tools = {"custom_mutator": by_words} if by == "words" else {}
    atheris.Setup([sys.argv[0], *options, corpus], parser, **tools)
    atheris.Fuzz()


def by_words(content: bytes, most: int, seed: int) -> bytes:
    """The content with a few words or lines replaced, put in or left out, or a byte changed."""
    from tests.fuzz.test_parsers import TOKENS, VALUES

    rng = random.Random(seed)
    pieces = content.splitlines(keepends=True) if rng.random() < 0.3 else WORDS.findall(content)
    for _ in range(rng.randrange(1, 4)):
        pieces = pieces or [b""]
        odd = rng.choice([*TOKENS, *(value.encode() for value in VALUES), rng.randbytes(1)])
        at, donor = rng.randrange(len(pieces)), rng.choice([rng.choice(pieces), odd])
        pieces[at : at + rng.randrange(2)] = rng.choice([[donor], [donor], []])
    return b"".join(pieces)[:most]


def _lines(name: str, corpus: Path) -> str:
    """How many of the parser's own lines the corpus reaches: replayed in a process that counts them."""
    command = [sys.executable, "-m", "tests.fuzz.fuzz", "--lines", name, str(corpus)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.strip()


def lines(name: str, corpus: str) -> None:
    """Print the share of lines, and the numbers of those that no input reached."""
    import coverage

    counter = coverage.Coverage(data_file=None, include=MODULES[name])
    with counter.collect():
        from tests.fuzz.parsers import PARSERS

        for path in sorted(Path(corpus).iterdir()):
            PARSERS[name][0](path.read_bytes())
    known, missed, words = 0, 0, []
    for module in MODULES[name]:
        _, statements, _, absent, shown = counter.analysis2(module)
        known, missed = known + len(statements), missed + len(absent)
        words.append(f"{module}: {shown or 'all reached'}")
    print("\n".join(words), file=sys.stderr)
    print(f"{known - missed} of {known} lines")


if __name__ == "__main__":
    if sys.argv[1] == "--turn":
        turn(*sys.argv[2:])
    elif sys.argv[1] == "--lines":
        lines(*sys.argv[2:])
    else:
        sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
