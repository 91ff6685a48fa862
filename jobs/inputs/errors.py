"""One-line errors on stderr: exit code 2 for bad input, 1 for a failed job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ..terminal.printable import printable
from .secrets import scrubbed


class BadInput(typer.BadParameter):
    """Input that cannot be used; shown as one line, exit code 2."""

    def format_message(self) -> str:
        return one_line(self.message)


class TaskFailed(RuntimeError):
    """A task that raised an error, or that still crashed after all retries."""

    advice = "finished work is kept; run the same command to resume"


def one_line(message: str) -> str:
    """Return a message as one printable line without secrets."""
    return printable(" ".join(scrubbed(message).split()))


@contextmanager
def reporting_bad_input(*others: type[Exception]) -> Iterator[None]:
    """Turn the library's errors (and `others`) into `BadInput`.

    Let all other errors pass.
    """
    from robustcf import ForestError, SchemaError, SolverError
    from robustcf.datasets import DatasetError

    kinds: tuple[type[Exception], ...] = (DatasetError, SchemaError, ForestError, SolverError, *others)
    try:
        yield
    except kinds as error:
        raise BadInput(str(error)) from error


@contextmanager
def reporting_failures() -> Iterator[None]:
    """Report a failed job in one line with advice, exit code 1.

    Handle signals while it runs.
    """
    from ..cluster.signals import stoppable

    with stoppable():
        try:
            yield
        except (TaskFailed, OSError, MemoryError) as error:
            message = one_line(str(error)) or "there is not enough memory"
            advice = getattr(error, "advice", TaskFailed.advice)
            typer.echo(f"robustcf: {message}; {advice}", err=True)
            if getattr(error, "at_once", False):
                os._exit(1)
            raise typer.Exit(1) from error
