"""The command `bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from robustcf_benchmarks.names import ALPHAS, CONTENDERS, Clock, Suite
from typer.core import TyperCommand

from ..cluster.signals import work_is_kept
from ..inputs.errors import BadInput, reporting_bad_input
from .options import Depth, Seed, Trees

MAY_BE_EMPTY = "--alphas"  # without a value: naive alone


class ListOptions(TyperCommand):
    """A command without arguments, whose list options take several values: `--suite main large`.

    The context's `obj` has the list options that are given without a value.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        lists = {name for option in self.params if getattr(option, "multiple", False) for name in option.opts}
        repeated: list[str] = []
        values: dict[str, int] = {}
        current = None
        for arg in args:
            name, equals, value = arg.partition("=")
            if name in lists:
                current = name
                values.setdefault(name, 0)
                arg = value
            elif arg.startswith("-"):
                current = None
            if current is None:
                repeated.append(arg)
            elif arg or equals:
                repeated += [current, arg]
                values[current] += 1
        ctx.obj = {name for name, count in values.items() if not count}
        repeated += ctx.obj - {MAY_BE_EMPTY}  # refused: an argument is missing
        rest: list[str] = super().parse_args(ctx, repeated)
        return rest


def bench(
    context: typer.Context,
    data: Annotated[
        list[str] | None,
        typer.Option(help="Data sets. Default: all that are found, or else the built-in one."),
    ] = None,
    suite: Annotated[
        list[Suite] | None,
        typer.Option(
            help="main: 100 trees of depth 4; frozen: a fifth of the features fixed; plausible: isolation "
            "forests and 1-LOF; large: 400 trees; deep: depth 8. Default: main."
        ),
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Customers per data set. Default: 10.")] = None,
    extra_rows: Annotated[
        int | None, typer.Option(min=0, help="Customers per data set in suites other than main. Default: 3.")
    ] = None,
    alphas: Annotated[
        list[float] | None,
        typer.Option(
            help=f"α of Direct-SAA besides naive, in (0, 0.5]. Default: {' '.join(map(str, ALPHAS))}."
        ),
    ] = None,
    contenders: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Contenders. Default: {' '.join(CONTENDERS)}."),
    ] = None,
    peer_python: Annotated[
        str | None,
        typer.Option(help="A Python interpreter with treecf and oceanpy. Default: that of robustcf."),
    ] = None,
    peer_rows: Annotated[
        int | None, typer.Option(min=0, help="Customers per data set for peers. Default: all.")
    ] = None,
    limit: Annotated[float | None, typer.Option(help="Time limit in seconds per solve. Default: 60.")] = None,
    trees: Trees = 100,
    depth: Depth = 4,
    seed: Seed = 0,
    out: Annotated[
        Path, typer.Option(help="Folder for the results. An interrupted run resumes there.")
    ] = Path("bench-results"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard the folder's measurements.")] = False,
    growth: Annotated[bool, typer.Option("--growth", help="Also measure the growth curves.")] = False,
    summary_only: Annotated[
        bool, typer.Option("--summary-only", help="Only summarise the folder's measurements.")
    ] = False,
    clock: Annotated[
        Clock, typer.Option(help="The time that the tables show. Both are measured.")
    ] = Clock.WALL,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Change the defaults to 2 customers, naive and 0.05, 10 s per solve."),
    ] = False,
) -> None:
    """Compare the speed of our engine with HiGHS, Gurobi and peers on this machine.

    `--data`, `--suite`, `--alphas` and `--contenders` take several values: `--suite main large`. The exit
    code is 1 if two contenders disagree.
    """
    from robustcf_benchmarks.bench import measure_all
    from robustcf_benchmarks.options import options_of
    from robustcf_benchmarks.store import OtherVersion

    given = {
        "data": data, "suite": suite, "rows": rows, "extra_rows": extra_rows,
        "alphas": [] if MAY_BE_EMPTY in context.obj else alphas,
        "contenders": contenders, "peer_python": peer_python, "peer_rows": peer_rows, "limit": limit,
        "trees": trees, "depth": depth, "seed": seed, "out": out, "fresh": fresh, "growth": growth,
        "summary_only": summary_only, "clock": clock,
    }  # fmt: skip
    try:
        options = options_of(quick, given)
    except ValueError as error:
        raise BadInput(str(error)) from None
    work_is_kept()  # every measurement is stored at once
    with reporting_bad_input(OtherVersion):
        raise typer.Exit(measure_all(options))
