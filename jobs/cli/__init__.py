"""The command line `robustcf`: parse the options, call the jobs, print the result.

Commands import heavy modules themselves, so that `robustcf --help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, NoReturn

import typer

from ..cluster.signals import Terminated, stopped_line
from ..inputs.datasets import datasets_app
from ..inputs.errors import one_line
from .batch import audit, reduce, reproduce, sweep
from .benchmark import ListOptions, bench
from .customers import demo, explain
from .finished import export, report, verify
from .own_files import schema, validate
from .watching import doctor, history, status

# The class of typer's usage errors. It is found through typer because some versions bundle click.
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Explain random forests by the nearest changes that survive retraining, with proof.",
)
app.add_typer(datasets_app, name="datasets")
for command in (
    demo, explain, audit, schema, sweep, status, history, reduce, report, verify, export, validate, reproduce,
    doctor,
):  # fmt: skip
    app.command()(command)
app.command(cls=ListOptions)(bench)


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        typer.echo(f"robustcf {version('robustcf')}")
    except PackageNotFoundError:
        typer.echo("robustcf (not installed, run from its source folder)")
    raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; bad input gives one clear line and exit code 2."""
    try:
        code = app(args=arguments, prog_name="robustcf", standalone_mode=False)
    except USAGE_ERROR as error:
        message = error.format_message()  # type: ignore[attr-defined]
        if message:
            typer.echo(f"robustcf: {one_line(message)}", err=True)
        code = 2
    except Terminated:
        code = 143
    except typer.Abort:
        code = 130
    if code in (130, 143):
        typer.echo(stopped_line(), err=True)
    code = code if isinstance(code, int) else 0
    if arguments is None:  # the result is printed, so a late SIGTERM must not change the exit code
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(code))
    sys.exit(code)
