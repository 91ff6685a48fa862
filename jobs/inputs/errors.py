"""What the user gave cannot be used: one line on the error stream, exit code 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ..terminal.printable import printable
from .secrets import scrubbed


class BadInput(typer.BadParameter):
    """Bad input, in a line of its own."""

    def format_message(self) -> str:
        return one_line(self.message)


class TaskFailed(RuntimeError):
    """A task that failed for good: its own error, or crashes that retries did not outlast."""

    advice = "finished work is kept; run the same command to resume"


def one_line(message: str) -> str:
    """A message as it may be shown: one line without secrets, and nothing but text."""
    return printable(" ".join(scrubbed(message).split()))


@contextmanager
def reporting_bad_input(*others: type[Exception]) -> Iterator[None]:
    """The library's complaints (and `others`) as bad input; any other error is a bug and stays one."""
    from robustcf import ForestError, SchemaError, SolverError
    from robustcf.datasets import DatasetError

    kinds: tuple[type[Exception], ...] = (DatasetError, SchemaError, ForestError, SolverError, *others)
    try:
        yield
    except kinds as error:
        raise BadInput(str(error)) from error


@contextmanager
def reporting_failures() -> Iterator[None]:
    """A job that could not finish: one line, exit code 1, with advice. Signals are heard meanwhile."""
    from ..cluster.signals import stoppable

    with stoppable():
        try:
            yield
        except (TaskFailed, OSError, MemoryError) as error:
            said = one_line(str(error)) or "there is not enough memory"
            advice = getattr(error, "advice", TaskFailed.advice)
            typer.echo(f"robustcf: {said}; {advice}", err=True)
            raise typer.Exit(1) from error
