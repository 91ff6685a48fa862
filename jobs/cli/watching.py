"""Commands that look at runs or at the machine: `status`, `history` and `doctor`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..inputs.errors import reporting_failures
from .options import Address, Cpus, Run


def status(
    run: Run,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show how far a run is, from its folder alone: while it goes on, after it was killed, after it ended."""
    from ..status.status import status_of
    from ..status.text import lines

    found = status_of(run)
    if as_json:
        typer.echo(json.dumps(found.as_json()))
    else:
        typer.echo("\n".join(lines(found)))


def doctor(
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Also write, read and delete a small file in this folder or URI."
        ),
    ] = None,
    address: Address = None,
    cpus: Cpus = None,
) -> None:
    """Check versions, solvers and licences, kernels, storage, Ray and clocks.

    Exits with code 1 if something needs attention.
    """
    from ..status.doctor import findings

    marks = {True: "ok  ", False: "FAIL", None: "note"}
    failed = False
    for found in findings(storage, address, cpus):
        typer.echo(f"{marks[found.ok]}  {found.subject}: {found.text}")
        failed |= found.ok is False
    raise typer.Exit(1 if failed else 0)


def history(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUNS...", help="Run folders of audits, or folders that hold them.")
    ],
    output: Annotated[
        str, typer.Option(help="Folder for history.html, history.parquet and broken.parquet.")
    ] = "history",
) -> None:
    """Show the key figures of many audits in a row, and the promises that new models broke."""
    from ..history.history import history as write

    with reporting_failures():
        for address in write(runs, output):
            typer.echo(address)
