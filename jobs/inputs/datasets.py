"""Read data sets by name or from a file; the commands `robustcf datasets ...`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import reporting_bad_input

if TYPE_CHECKING:
    from robustcf.datasets import Dataset

datasets_app = typer.Typer(no_args_is_help=True, help="List, describe and download data sets.")


def read_dataset(data: str) -> Dataset:
    """Return the data set in a typed CSV file, or the data set of that name."""
    from robustcf.datasets import load, read_typed_csv

    if data.lower().endswith(".csv") or Path(data).is_file():
        return read_typed_csv(data)
    return load(data)


@datasets_app.command("list")
def list_datasets() -> None:
    """List all data sets and where each was found."""
    from ..terminal.listing import print_list

    with reporting_bad_input():
        print_list()


@datasets_app.command()
def describe(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A data set's name, or a typed CSV file.")],
) -> None:
    """Show the rows, classes and features of a data set."""
    from ..terminal.listing import print_description

    with reporting_bad_input():
        print_description(read_dataset(data))


@datasets_app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="One of the paper's data sets, such as german-credit.")],
) -> None:
    """Download a data set of the paper into the user's cache and check it."""
    from robustcf.datasets import fetch as download

    with reporting_bad_input():
        typer.echo(str(download(name)))
