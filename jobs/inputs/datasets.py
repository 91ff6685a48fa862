"""Data sets by name or file, and the commands `robustcf datasets ...`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import reporting_bad_input

if TYPE_CHECKING:
    from robustcf.datasets import Dataset

datasets_app = typer.Typer(no_args_is_help=True, help="The data sets: embedded, and the paper's eight.")


def read_dataset(data: str) -> Dataset:
    """A typed CSV file, or a data set that is known by its name."""
    from robustcf.datasets import load, read_typed_csv

    if data.lower().endswith(".csv") or Path(data).is_file():
        return read_typed_csv(data)
    return load(data)


@datasets_app.command("list")
def list_datasets() -> None:
    """Every known data set, and where it was found."""
    from ..terminal.listing import print_list

    with reporting_bad_input():
        print_list()


@datasets_app.command()
def describe(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A data set's name, or a typed CSV file.")],
) -> None:
    """Rows, classes and features of a data set."""
    from ..terminal.listing import print_description

    with reporting_bad_input():
        print_description(read_dataset(data))


@datasets_app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="One of the paper's data sets, such as german-credit.")],
) -> None:
    """Download a data set of the paper into the user's cache, checked."""
    from robustcf.datasets import fetch as download

    with reporting_bad_input():
        typer.echo(str(download(name)))
