"""What can be asked of the benchmark."""

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
        description="Measure this engine against general solvers and peers, side by side.",
    )
    add = parser.add_argument
    add("--data", nargs="+", help="data sets; all that ROBUSTCF_DATA holds, or the embedded one")
    add(
        "--suite",
        nargs="+",
        default=["main"],
        choices=["main", "frozen", "plausible", "large", "deep"],
        help="100 x depth 4; a fifth of the features frozen; isolation forests and 1-LOF; 400 trees; depth 8",
    )
    add("--rows", type=int, help="customers per data set (10)")
    add("--extra-rows", type=int, help="customers per data set of the suites other than main (3)")
    add("--alphas", nargs="*", type=float, help=f"besides naive ({' '.join(map(str, ALPHAS))})")
    add(
        "--contenders",
        nargs="+",
        default=[*SOLVERS, *PEERS],
        choices=[*SOLVERS, *PEERS],
        metavar="NAME",
        help=f"of {', '.join([*SOLVERS, *PEERS])}",
    )
    add("--peer-python", default=sys.executable, help="the interpreter that has treecf and oceanpy")
    add("--peer-rows", type=int, help="customers per data set that peers get (all)")
    add("--limit", type=float, help="seconds per solve (60)")
    add("--trees", type=int, default=100)
    add("--depth", type=int, default=4)
    add("--seed", type=int, default=0, help="of the split and the forest")
    add("--out", type=Path, default=Path("bench-results"), help="folder; an interrupted run goes on there")
    add("--fresh", action="store_true", help="discard what the folder holds")
    add("--growth", action="store_true", help="also the growth curves")
    add("--summary-only", action="store_true", help="measure nothing, summarise what the folder holds")
    add("--clock", choices=["wall", "cpu"], default="wall", help="of the tables; both are measured")
    add(
        "--quick",
        action="store_true",
        help="2 customers, naive and 0.05, 10 s per solve, unless said otherwise",
    )
    options = parser.parse_args(argv)
    usual = QUICK if options.quick else WHOLE
    for name, value in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.rows < 1 or not options.limit > 0 or not all(0 < a <= 0.5 for a in options.alphas):
        parser.error("--rows and --limit must be positive, --alphas in (0, 0.5]")
    return options
