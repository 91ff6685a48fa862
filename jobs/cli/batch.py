"""Commands that start or resume batch jobs: `audit`, `sweep`, `reduce` and `reproduce`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from ..inputs.errors import reporting_bad_input, reporting_failures
from ..terminal.progress import outer_stage
from .options import Address, Config, Cpus, Run, TimeLimit

if TYPE_CHECKING:
    from ..inputs.config import AuditConfig, SweepConfig


def audit(config: Config, address: Address = None, cpus: Cpus = None) -> None:
    """Explain every rejected customer of a table, and validate the answers by retraining.

    Run the same command again to resume a stopped run. The exit code is 3 if the run is complete but a limit
    of the config is broken.
    """
    with reporting_failures():
        with outer_stage("loading robustcf"):
            from ..audit.audit import audit as run
            from ..inputs.config import AuditConfig, read_config

        _finish(read_config(AuditConfig, config), run, address, cpus)


def sweep(config: Config, address: Address = None, cpus: Cpus = None) -> None:
    """Run an experiment: data sets × simulations × forest sizes × methods, with validation."""
    with reporting_failures():
        with outer_stage("loading robustcf"):
            from ..inputs.config import SweepConfig, read_config
            from ..sweep.sweep import sweep as run

        _finish(read_config(SweepConfig, config), run, address, cpus)


def reduce(
    run: Run,
    address: Address = None,
    cpus: Cpus = None,
) -> None:
    """Recompute the summary of a run folder: validity, distance, times, Pareto fronts."""
    from ..inputs.secrets import without_secrets

    with reporting_failures():
        from ..reduce.reduce import reduce_folder

        reduce_folder(run, address, cpus)
    typer.echo(f"{without_secrets(run).rstrip('/')}/summary/summary.csv")


def reproduce(
    experiment: Annotated[
        list[str] | None,
        typer.Option(
            help="An experiment of docs/reproduction.md, such as saa-100. Repeat the option for several. "
            "certified and certified-evolving measure certificates. Default: all of docs/reproduction.md."
        ),
    ] = None,
    fraction: Annotated[float, typer.Option(help="Share of the paper's simulations, in (0, 1].")] = 1.0,
    output: Annotated[str, typer.Option(help="Folder for runs, tables and figures.")] = "runs/reproduction",
    data: Annotated[
        str | None,
        typer.Option(help="Folder of the paper's data sets. Default: ROBUSTCF_DATA, then the cache."),
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Run only this data set. Repeat the option for several.")
    ] = None,
    time_limit: TimeLimit = 60.0,
    results: Annotated[
        str | None,
        typer.Option(help="results.parquet of an earlier reproduction, to show without running it again."),
    ] = None,
    training_rows: Annotated[
        int | None,
        typer.Option(
            help="Most training rows of a forest in certified and certified-evolving. Default: all.", min=100
        ),
    ] = None,
    customers: Annotated[
        int, typer.Option(help="Customers of a simulation in certified and certified-evolving.", min=1)
    ] = 5,
    address: Address = None,
    cpus: Cpus = None,
) -> None:
    """Run or resume the paper's experiments, and compare tables and figures with the paper's.

    A larger fraction or a longer time limit resumes in the same folder; nothing is computed twice.
    """
    from pathlib import Path

    place, earlier = (None if path is None else Path(path) for path in (data, results))
    with reporting_failures(), reporting_bad_input():
        from ..reproduce.reproduce import Request
        from ..reproduce.reproduce import reproduce as run

        request = Request(
            Path(output), tuple(experiment or ()), tuple(dataset or ()), fraction, place, time_limit, earlier,
            training_rows, customers,
        )  # fmt: skip
        code = run(request, address, cpus)
    for page in request.pages:
        typer.echo(str(page))
    raise typer.Exit(code)


def _finish(
    config: AuditConfig | SweepConfig, run: Callable[..., int], address: str | None, cpus: int | None
) -> None:
    from ..run.folder import RunFolder
    from ..terminal.printing import print_counts

    code = run(config, address, cpus)
    print_counts(config.output)
    typer.echo(RunFolder(config.output).showing("report.html"))
    raise typer.Exit(code)
