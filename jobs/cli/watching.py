"""Commands that look at a run or at the machine: `status` and `doctor`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

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
