"""The command line `robustcf`: parse the options, call the jobs, print the result."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from .cluster.signals import STOPPED, Terminated
from .inputs.datasets import datasets_app, read_dataset
from .inputs.errors import BadInput, one_line, reporting_bad_input, reporting_failures
from .terminal.printable import escaped, printable

if TYPE_CHECKING:
    from .inputs.config import AuditConfig, SweepConfig

# Commands import heavy modules themselves, so that `robustcf --help` answers at once.

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

Trees = Annotated[int, typer.Option(min=1, help="Number of trees in the forest.")]
Depth = Annotated[int, typer.Option(min=1, help="Maximum depth of the trees.")]
Seed = Annotated[int, typer.Option(min=0, max=2**31, help="Random seed.")]
Solver = Annotated[str, typer.Option(help="Solver: auto, engine, highs, gurobi or oracle.")]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="Load pickled models. A pickle can run any code.")
]
TimeLimit = Annotated[float, typer.Option(help="Time limit in seconds per customer and method.")]


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


@app.command()
def demo(
    seed: Seed = 0,
    customers: Annotated[int, typer.Option(min=1, help="Number of rejected test customers to explain.")] = 20,
    retrain: Annotated[int, typer.Option(min=1, help="Number of retrained forests.")] = 20,
    output: Annotated[
        str | None, typer.Option(help="Folder for the batch job's files. Default: a temporary folder.")
    ] = None,
) -> None:
    """Explain customers of the embedded credit data and test the answers by retraining.

    The demo then audits all test customers as a batch job on a local Ray and writes a report.
    """
    with reporting_failures(), reporting_bad_input():
        from .demo.demo import run

        run(seed, customers, retrain, output)


@app.command()
def explain(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]", help="Name of a data set, or a typed CSV file. Omit it with --model."
        ),
    ] = None,
    row: Annotated[int | None, typer.Option(min=0, help="Row number of the customer, from 0.")] = None,
    model: Annotated[str | None, typer.Option(help="Your model: a skops file or a forest folder.")] = None,
    customers: Annotated[str | None, typer.Option(help="Your customers: a Parquet or CSV table.")] = None,
    customer: Annotated[
        str | None, typer.Option("--id", help="Id of the customer, instead of --row.")
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(help="Column that holds the ids. Default: every column that is not a feature."),
    ] = None,
    schema: Annotated[str | None, typer.Option(help="Schema file, see `robustcf schema`.")] = None,
    training: Annotated[
        str | None, typer.Option(help="Training rows of your model, to measure robustness by retraining.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Label column of the training rows.")] = None,
    forests: Annotated[
        int | None,
        typer.Option(min=0, help="Number of retrained forests. Default: 20 with --training, else 0."),
    ] = None,
    alpha: Annotated[
        list[float] | None,
        typer.Option(help="α of Direct-SAA, in (0, 0.5]. Repeat the option for several. Default: 0.05."),
    ] = None,
    naive: Annotated[
        bool, typer.Option("--naive", help="Also show the nearest change without margin.")
    ] = False,
    target: Annotated[
        str | None, typer.Option(help="The label to reach. With two classes, it defaults to the other one.")
    ] = None,
    trees: Trees = 100,
    depth: Depth = 4,
    seed: Seed = 0,
    solver: Solver = "auto",
    time_limit: TimeLimit = 60.0,
    menu: Annotated[bool, typer.Option(help="Show what each level of robustness costs.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON with full precision.")] = False,
    plot: Annotated[
        str | None, typer.Option(help="Plot the trajectory over α into this .png or .svg file.")
    ] = None,
    trust_pickle: TrustPickle = False,
) -> None:
    """Explain one customer: the nearest change that flips the decision and survives retraining.

    With DATA, the command trains a random forest on all *other* rows. With --model and --customers, it
    explains your own model. Numbers are rounded where the rounded change still flips the decision (the
    forest checks this); `--json` prints them in full.
    """
    from .explain.customer import Customer, customer_of_table, row_of_data
    from .explain.explain import Request, run
    from .inputs.config import Training

    if (data is None) == (model is None):
        raise BadInput("name either a data set or your own --model, not both")
    if (model is None) != (customers is None):
        raise BadInput("--model and --customers must be used together")
    if (training is None) != (label is None):
        raise BadInput("--training and --label must be used together")
    if (row is None) == (customer is None):
        raise BadInput("Missing option '--row'." if row is None else "use either --id or --row, not both")
    measured = (20 if training else 0) if forests is None else forests
    request = Request(tuple(alpha or [0.05]), naive, target, seed, solver, time_limit, menu, measured, plot)
    with reporting_bad_input():
        if model is not None and customers is not None:
            rows = None if training is None or label is None else Training(training, label)
            whom = Customer(customers, row, customer, id_column)
            subject = customer_of_table(whom, model, schema, rows, trust_pickle)
        elif data is not None and row is not None:
            subject = row_of_data(read_dataset(data), row, trees, depth, seed)
        else:
            raise BadInput("Missing option '--row'.")
        run(subject, request, json)


Config = Annotated[
    str, typer.Argument(metavar="CONFIG", help="A TOML file; docs/jobs.md lists its settings.")
]
Address = Annotated[
    str | None,
    typer.Option(help="Address of a Ray cluster (or RAY_ADDRESS). Default: start Ray on this machine."),
]
Cpus = Annotated[int | None, typer.Option(min=1, help="CPUs of this machine to use. Default: all.")]


@app.command()
def audit(config: Config, address: Address = None, cpus: Cpus = None) -> None:
    """Explain every rejected customer of a table, and validate the answers by retraining.

    Run the same command again to resume a stopped run.
    """
    with reporting_failures():
        from .audit.audit import audit as run
        from .inputs.config import AuditConfig, read_config

        _finish(read_config(AuditConfig, config), run, address, cpus)


@app.command()
def schema(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file (skops) or a forest folder.")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Raw rows, ideally the training rows: Parquet or CSV.")
    ],
    output: Annotated[str | None, typer.Option(help="File to write. Default: print the schema.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column to leave out, such as the label (forest folders only).")
    ] = None,
    trust_pickle: TrustPickle = False,
) -> None:
    """Write a commented schema file to edit: each column's type and how it may change."""
    from .inputs.schema_file import write

    with reporting_bad_input():
        text, warnings = write(model, data, output, label, trust_pickle)
    for warning in warnings:
        typer.echo(f"robustcf: warning: {one_line(warning)}", err=True)
    typer.echo(escaped(text.rstrip()) if output is None else printable(output))


@app.command()
def sweep(config: Config, address: Address = None, cpus: Cpus = None) -> None:
    """Run an experiment: data sets × simulations × forest sizes × methods, with validation."""
    with reporting_failures():
        from .inputs.config import SweepConfig, read_config
        from .sweep.sweep import sweep as run

        _finish(read_config(SweepConfig, config), run, address, cpus)


@app.command()
def reduce(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, local or a URI.")],
    address: Address = None,
    cpus: Cpus = None,
) -> None:
    """Recompute the summary of a run folder: validity, distance, times, Pareto fronts."""
    from .inputs.secrets import without_secrets

    with reporting_failures():
        from .reduce.reduce import reduce_folder

        reduce_folder(run, address, cpus)
    typer.echo(f"{without_secrets(run).rstrip('/')}/summary/summary.csv")


@app.command()
def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, local or a URI.")],
) -> None:
    """Rewrite RUN/report.html: one self-contained file that needs no network."""
    from .report.report import report_folder

    with reporting_bad_input():
        typer.echo(report_folder(run))


@app.command()
def verify(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, local or a URI.")],
    customers: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="Your own customer table, instead of the one in the manifest."),
    ] = None,
    forest: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Your own forest folder or model file. The run's model must match it."
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Your own config. The run's config must match it. Its model and tables are used too.",
        ),
    ] = None,
    no_customers: Annotated[
        bool, typer.Option("--no-customers", help="Read no table outside the run folder.")
    ] = False,
    trust_pickle: TrustPickle = False,
    resolve: Annotated[
        int | None,
        typer.Option(min=1, help="Number of random claims to solve again with HiGHS on the full model."),
    ] = None,
    attack: Annotated[
        bool,
        typer.Option(
            "--attack", help="Try to refute claims with the answers of other customers and methods."
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Random seed of --resolve and --attack. Default: a new one."),
    ] = None,
    limit: Annotated[
        float, typer.Option(min=0.001, help="Time limit in seconds per claim of --resolve.")
    ] = 60.0,
) -> None:
    """Check a finished run from its files alone, without the code that solved it.

    It checks digests, forest, schema, every point's score, constraints, distance and threshold, counts and
    summary. It names every mismatch and exits with code 1 if it finds one.
    """
    from .verify.auditor import Auditor
    from .verify.claims import challenge
    from .verify.command import verify as check

    if no_customers and (customers is not None or config is not None):
        raise BadInput("--no-customers cannot be combined with --customers or --config, which name tables")
    own = Auditor(customers, forest, config, not no_customers, trust_pickle)
    raise typer.Exit(check(run, own, challenge(resolve, attack, seed, limit)))


@app.command()
def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, local or a URI.")],
    output: Annotated[str, typer.Option(help="File to write: .parquet or .csv.")],
    method: Annotated[
        list[str] | None,
        typer.Option(help="Export only this method, such as direct-saa. Repeat the option for several."),
    ] = None,
    alpha: Annotated[
        list[float] | None,
        typer.Option(help="Export only methods with this α. Repeat the option for several."),
    ] = None,
    reasons: Annotated[
        str | None,
        typer.Option(help="Reason codes: a .csv or .toml table of feature, direction, code, text."),
    ] = None,
    max_reasons: Annotated[
        int, typer.Option(min=1, help="Maximum number of reasons per customer and method.")
    ] = 4,
) -> None:
    """Write one line per customer: the decision, and each method's status, changes and reasons."""
    from .export.export import Wish, export_run
    from .inputs.secrets import without_secrets

    wish = Wish(output, tuple(method or ()), tuple(alpha or ()), reasons, max_reasons)
    typer.echo(f"{export_run(run, wish)} customers: {without_secrets(output)}")


@app.command()
def validate(
    points: Annotated[str, typer.Argument(metavar="POINTS", help="Points from any tool: Parquet or CSV.")],
    forest: Annotated[str, typer.Option(help="Forest folder.")],
    schema: Annotated[str, typer.Option(help="Schema file.")],
    target: Annotated[str, typer.Option(help="The label that the points should reach.")],
    output: Annotated[str, typer.Option(help="File to write: .parquet or .csv.")],
    training: Annotated[
        str | None, typer.Option(help="Training rows. Without them, no forest is retrained.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Label column of the training rows.")] = None,
    forests: Annotated[int, typer.Option(min=1, help="Number of retrained forests per scenario.")] = 20,
    scenario: Annotated[
        list[str] | None,
        typer.Option(help="same-data (default), bootstrap or trees-N. Repeat the option for several."),
    ] = None,
    point_id: Annotated[str | None, typer.Option("--id", help="Column that holds the points' ids.")] = None,
    alpha: Annotated[float, typer.Option(help="α of the threshold test, in (0, 0.5].")] = 0.05,
    voting: Annotated[str, typer.Option(help="Voting of the forest: soft or hard.")] = "soft",
    seed: Seed = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads per task.")] = 1,
    address: Address = None,
) -> None:
    """Test points from any tool: threshold, predicted validity, and validity under retraining."""
    from .inputs.secrets import without_secrets

    if (training is None) != (label is None):
        raise BadInput("--training and --label must be used together")
    if voting not in ("soft", "hard"):
        raise BadInput(f"--voting is {voting!r}; choose soft or hard")
    if not 0 < alpha <= 0.5:
        raise BadInput(f"--alpha is {alpha}; it must lie in (0, 0.5]")
    with reporting_failures():
        from .inputs.config import Training, Validation
        from .validate.points import PointsRequest, validate_points

        rows = None if training is None or label is None else Training(training, label)
        table = validate_points(
            PointsRequest(
                points, forest, schema, target, output, point_id, alpha,
                "hard" if voting == "hard" else "soft",
                rows, Validation(forests, tuple(scenario or ["same-data"])), seed, threads,
            ),
            address,
        )  # fmt: skip
    typer.echo(f"{len(table)} rows: {without_secrets(output)}")


@app.command()
def reproduce(
    experiment: Annotated[
        list[str] | None,
        typer.Option(
            help="An experiment of docs/reproduction.md, such as saa-100. Repeat the option for several. "
            "Default: all."
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
    address: Address = None,
    cpus: Cpus = None,
) -> None:
    """Run or resume the paper's experiments, and compare tables and figures with the paper's.

    A larger fraction or a longer time limit resumes in the same folder; nothing is computed twice.
    """
    from pathlib import Path

    place, earlier = (None if path is None else Path(path) for path in (data, results))
    with reporting_failures(), reporting_bad_input():
        from .reproduce.reproduce import Request
        from .reproduce.reproduce import reproduce as run

        request = Request(
            Path(output), tuple(experiment or ()), tuple(dataset or ()), fraction, place, time_limit, earlier
        )
        code = run(request, address, cpus)
    typer.echo(f"{output}/reproduction.md")
    raise typer.Exit(code)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False
)
def bench(context: typer.Context) -> None:
    """Compare the speed of our engine with HiGHS, Gurobi and peers (`bench --help`)."""
    from robustcf_benchmarks.bench import main as measure

    raise typer.Exit(measure(context.args))


def _finish(
    config: AuditConfig | SweepConfig, run: Callable[..., int], address: str | None, cpus: int | None
) -> None:
    from .run.folder import RunFolder
    from .terminal.printing import print_counts

    code = run(config, address, cpus)
    print_counts(config.output)
    typer.echo(RunFolder(config.output).showing("report.html"))
    raise typer.Exit(code)


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
        typer.echo(STOPPED, err=True)
    code = code if isinstance(code, int) else 0
    if arguments is None:  # the result is printed, so a late SIGTERM must not change the exit code
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(code))
    sys.exit(code)


if __name__ == "__main__":
    main()
