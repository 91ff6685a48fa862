"""The command `robustcf`. Thin: it reads what was asked, calls the library, prints the answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from jobs.badinput import BadInput, reporting_bad_input, reporting_failures

if TYPE_CHECKING:
    from jobs.config import AuditConfig, SweepConfig
    from robustcf.datasets import Dataset

# Everything heavy is imported inside the commands: `robustcf --help` answers at once.

# typer's own class of what is wrong with the arguments (some versions bundle click, some do not)
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Nearest counterfactual explanations of random forests that survive retraining, proved.",
)
datasets_app = typer.Typer(no_args_is_help=True, help="The data sets: embedded, and the paper's eight.")
app.add_typer(datasets_app, name="datasets")

Trees = Annotated[int, typer.Option(min=1, help="Trees of the forest.")]
Depth = Annotated[int, typer.Option(min=1, help="Depth of its trees.")]
Seed = Annotated[int, typer.Option(min=0, max=2**31, help="Seed of everything random.")]
Solver = Annotated[str, typer.Option(help="auto, engine, highs, gurobi or oracle.")]
TimeLimit = Annotated[float, typer.Option(help="Seconds per customer and method.")]


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        typer.echo(f"robustcf {version('robustcf')}")
    except PackageNotFoundError:
        typer.echo("robustcf, run from its sources without being installed")
    raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    seed: Seed = 0,
    customers: Annotated[
        int, typer.Option(min=1, help="Rejected customers to explain (at most those held out).")
    ] = 20,
    retrain: Annotated[int, typer.Option(min=1, help="Forests to train again.")] = 20,
    output: Annotated[
        str | None, typer.Option(help="Folder for the batch job's files; a temporary one by default.")
    ] = None,
) -> None:
    """Explain customers of the embedded credit data, then see what retraining does to the answers.

    Then the same as a batch job on a local Ray: `audit`, with its run folder and summary.
    """
    from jobs.demo import run

    with reporting_bad_input(), reporting_failures():
        run(seed, customers, retrain, output)


@app.command()
def explain(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A data set's name, or a typed CSV file.")],
    row: Annotated[int, typer.Option(min=0, help="The customer: a row, counted from 0.")],
    alpha: Annotated[
        list[float] | None,
        typer.Option(help="Tolerance of Direct-SAA, in (0, 0.5]; several may be given. Without one: 0.05."),
    ] = None,
    naive: Annotated[bool, typer.Option("--naive", help="Also the plain nearest change.")] = False,
    target: Annotated[int | None, typer.Option(help="The label wanted; of two, the other one.")] = None,
    trees: Trees = 100,
    depth: Depth = 4,
    seed: Seed = 0,
    solver: Solver = "auto",
    time_limit: TimeLimit = 60.0,
    json: Annotated[bool, typer.Option("--json", help="Full precision, for machines.")] = False,
) -> None:
    """Explain one row: what to change so that the decision flips, and stays flipped.

    A random forest is trained on all the *other* rows, then the row is explained. Numbers are shown
    with as few digits as still do (checked with the forest); `--json` has them in full.
    """
    from jobs.explain import Request, run

    with reporting_bad_input():
        run(
            _load(data),
            Request(row, tuple(alpha or [0.05]), naive, target, trees, depth, seed, solver, time_limit),
            json,
        )


Config = Annotated[str, typer.Argument(metavar="CONFIG", help="A TOML file; see the README.")]
Address = Annotated[
    str | None,
    typer.Option(
        help="A Ray cluster to run on (or RAY_ADDRESS). Without one, Ray runs on this machine alone."
    ),
]
Cpus = Annotated[int | None, typer.Option(min=1, help="CPUs of this machine to use; all by default.")]


@app.command()
def audit(config: Config, address: Address = None, cpus: Cpus = None) -> None:
    """Explain every customer of a table whom the forest turns down, and validate by retraining.

    The same command again goes on where a run stopped.
    """
    from jobs.audit import audit as run
    from jobs.config import AuditConfig, read_config

    with reporting_failures():
        _finish(read_config(AuditConfig, config), run, address, cpus)


@app.command()
def sweep(config: Config, address: Address = None, cpus: Cpus = None) -> None:
    """Run the experiment: data sets × simulations × forest sizes × methods, with validation."""
    from jobs.config import SweepConfig, read_config
    from jobs.sweep import sweep as run

    with reporting_failures():
        _finish(read_config(SweepConfig, config), run, address, cpus)


@app.command()
def reduce(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, local or a URI.")],
    address: Address = None,
    cpus: Cpus = None,
) -> None:
    """Summarise a run folder again: validity, distance, times, Pareto fronts."""
    from jobs.reduce import reduce_folder

    with reporting_failures():
        reduce_folder(run, address, cpus)
    typer.echo(f"{run.rstrip('/')}/summary/summary.csv")


@app.command()
def validate(
    points: Annotated[str, typer.Argument(metavar="POINTS", help="Points made by any tool: Parquet or CSV.")],
    forest: Annotated[str, typer.Option(help="The forest's folder.")],
    schema: Annotated[str, typer.Option(help="The schema file.")],
    target: Annotated[str, typer.Option(help="The label that the points are meant to reach.")],
    output: Annotated[str, typer.Option(help="Where the table goes: a .parquet or .csv file.")],
    training: Annotated[str | None, typer.Option(help="Training rows; without them, no retraining.")] = None,
    label: Annotated[str | None, typer.Option(help="Their label column.")] = None,
    forests: Annotated[int, typer.Option(min=1, help="Forests to train again, per scenario.")] = 20,
    scenario: Annotated[
        list[str] | None,
        typer.Option(help="same-data (default), bootstrap or trees-N; several may be given."),
    ] = None,
    point_id: Annotated[str | None, typer.Option("--id", help="A column that names the points.")] = None,
    alpha: Annotated[float, typer.Option(help="Tolerance of the threshold test, in (0, 0.5].")] = 0.05,
    voting: Annotated[str, typer.Option(help="soft or hard.")] = "soft",
    seed: Seed = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each task.")] = 1,
    address: Address = None,
) -> None:
    """Test points made by any tool: threshold, predicted validity, and validity measured by retraining."""
    from jobs.config import Training, Validation
    from jobs.points import PointsRequest, validate_points

    if (training is None) != (label is None):
        raise BadInput("--training and --label belong together")
    if voting not in ("soft", "hard"):
        raise BadInput(f"--voting is {voting!r}; choose soft or hard")
    if not 0 < alpha <= 0.5:
        raise BadInput(f"--alpha is {alpha}; it must lie in (0, 0.5]")
    rows = None if training is None or label is None else Training(training, label)
    with reporting_failures():
        table = validate_points(
            PointsRequest(
                points, forest, schema, target, output, point_id, alpha,
                "hard" if voting == "hard" else "soft",
                rows, Validation(forests, tuple(scenario or ["same-data"])), seed, threads,
            ),
            address,
        )  # fmt: skip
    typer.echo(f"{len(table)} rows: {output}")


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False
)
def bench(context: typer.Context) -> None:
    """Measure our engine against HiGHS, Gurobi and peers, side by side (`bench --help`)."""
    from benchmarks.bench import main as measure

    raise typer.Exit(measure(context.args))


def _finish(
    config: AuditConfig | SweepConfig, run: Callable[..., int], address: str | None, cpus: int | None
) -> None:
    from jobs.printing import print_counts

    code = run(config, address, cpus)
    print_counts(config.output)
    raise typer.Exit(code)


@datasets_app.command("list")
def list_datasets() -> None:
    """Every known data set, and where it was found."""
    from jobs.listing import print_list

    with reporting_bad_input():
        print_list()


@datasets_app.command()
def describe(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A data set's name, or a typed CSV file.")],
) -> None:
    """Rows, classes and features of a data set."""
    from jobs.listing import print_description

    with reporting_bad_input():
        print_description(_load(data))


@datasets_app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="One of the paper's data sets, such as german-credit.")],
) -> None:
    """Download a data set of the paper into the user's cache, checked."""
    from robustcf.datasets import fetch as download

    with reporting_bad_input():
        typer.echo(str(download(name)))


def _load(data: str) -> Dataset:
    from pathlib import Path

    from robustcf.datasets import load, read_typed_csv

    if data.lower().endswith(".csv") or Path(data).is_file():
        return read_typed_csv(data)
    return load(data)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console entry: exit code 0, or 2 and one clear line for bad input."""
    try:
        code = app(args=arguments, prog_name="robustcf", standalone_mode=False)
    except USAGE_ERROR as error:
        message = error.format_message()  # type: ignore[attr-defined]
        if message:
            typer.echo(f"robustcf: {' '.join(message.split())}", err=True)
        code = 2
    except (typer.Abort, KeyboardInterrupt):
        typer.echo("robustcf: stopped", err=True)
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
