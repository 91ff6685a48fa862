"""The command-line options of the benchmark."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .cases import ALPHAS
from .contenders import PEERS, SOLVERS

WHOLE = {"rows": 10, "extra_rows": 3, "alphas": list(ALPHAS), "limit": 60.0}
QUICK = {"rows": 2, "extra_rows": 1, "alphas": [0.05], "limit": 10.0}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="robustcf bench",
        description="Compare robustcf's engine with general solvers and peer packages on this machine.",
    )
    add = parser.add_argument
    add("--data", nargs="+", help="data sets (default: all that are found, or else the built-in one)")
    add(
        "--suite",
        nargs="+",
        default=["main"],
        choices=["main", "frozen", "plausible", "large", "deep"],
        help="main: 100 trees of depth 4; frozen: a fifth of the features fixed; "
        "plausible: isolation forests and 1-LOF; large: 400 trees; deep: depth 8",
    )
    add("--rows", type=int, help="customers per data set (default: 10)")
    add("--extra-rows", type=int, help="customers per data set in suites other than main (default: 3)")
    add("--alphas", nargs="*", type=float, help=f"besides naive (default: {' '.join(map(str, ALPHAS))})")
    add(
        "--contenders",
        nargs="+",
        default=[*SOLVERS, *PEERS],
        choices=[*SOLVERS, *PEERS],
        metavar="NAME",
        help=f"contenders (default: {', '.join([*SOLVERS, *PEERS])})",
    )
    add("--peer-python", default=sys.executable, help="a Python interpreter with treecf and oceanpy")
    add("--peer-rows", type=int, help="customers per data set for peers (default: all)")
    add("--limit", type=float, help="seconds per solve (default: 60)")
    add("--trees", type=int, default=100, help="trees per forest (default: 100)")
    add("--depth", type=int, default=4, help="depth of the trees (default: 4)")
    add("--seed", type=int, default=0, help="seed of the split and the forest")
    add("--out", type=Path, default=Path("bench-results"), help="folder; an interrupted run resumes there")
    add("--fresh", action="store_true", help="discard the folder's measurements")
    add("--growth", action="store_true", help="also measure the growth curves")
    add("--summary-only", action="store_true", help="only summarise the folder's measurements")
    add("--clock", choices=["wall", "cpu"], default="wall", help="time in the tables; both are measured")
    add(
        "--quick",
        action="store_true",
        help="change the defaults to 2 customers, naive and 0.05, 10 s per solve",
    )
    options = parser.parse_args(argv)
    usual = QUICK if options.quick else WHOLE
    for name, value in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.rows < 1 or not options.limit > 0 or not all(0 < a <= 0.5 for a in options.alphas):
        parser.error("--rows and --limit must be positive, --alphas in (0, 0.5]")
    return options
