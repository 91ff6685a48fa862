"""The command `robustcf`. Thin: it reads what was asked, calls the library, prints the answer."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from .cluster.signals import Terminated
from .inputs.datasets import datasets_app, read_dataset
from .inputs.errors import BadInput, one_line, reporting_bad_input, reporting_failures
from .terminal.printable import escaped, printable

if TYPE_CHECKING:
    from .inputs.config import AuditConfig, SweepConfig

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
app.add_typer(datasets_app, name="datasets")

Trees = Annotated[int, typer.Option(min=1, help="Trees of the forest.")]
Depth = Annotated[int, typer.Option(min=1, help="Depth of its trees.")]
Seed = Annotated[int, typer.Option(min=0, max=2**31, help="Seed of everything random.")]
Solver = Annotated[str, typer.Option(help="auto, engine, highs, gurobi or oracle.")]
TrustPickle = Annotated[bool, typer.Option("--trust-pickle", help="Load a pickle: it may run any code.")]
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
    with reporting_failures(), reporting_bad_input():
        from .demo.demo import run

        run(seed, customers, retrain, output)


@app.command()
def explain(
    data: Annotated[
        str | None,
        typer.Argument(metavar="[DATA]", help="A data set's name or a typed CSV file; or --model."),
    ] = None,
    row: Annotated[int | None, typer.Option(min=0, help="The customer: a row, counted from 0.")] = None,
    model: Annotated[str | None, typer.Option(help="Your model: a skops file, or a forest folder.")] = None,
    customers: Annotated[str | None, typer.Option(help="Your customers: Parquet or CSV.")] = None,
    customer: Annotated[
        str | None, typer.Option("--id", help="The customer's id, in place of --row.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="The column of the ids; else it is looked for.")
    ] = None,
    schema: Annotated[str | None, typer.Option(help="A schema file, see `robustcf schema`.")] = None,
    training: Annotated[
        str | None, typer.Option(help="Rows that your model was trained on: robustness is measured.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Their label column.")] = None,
    forests: Annotated[
        int | None, typer.Option(min=0, help="Forests trained again to measure; 20 with --training, else 0.")
    ] = None,
    alpha: Annotated[
        list[float] | None,
        typer.Option(help="Tolerance of Direct-SAA, in (0, 0.5]; several may be given. Without one: 0.05."),
    ] = None,
    naive: Annotated[bool, typer.Option("--naive", help="Also the plain nearest change.")] = False,
    target: Annotated[str | None, typer.Option(help="The label wanted; of two, the other one.")] = None,
    trees: Trees = 100,
    depth: Depth = 4,
    seed: Seed = 0,
    solver: Solver = "auto",
    time_limit: TimeLimit = 60.0,
    menu: Annotated[bool, typer.Option(help="Show what each step of robustness costs.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Full precision, for machines.")] = False,
    plot: Annotated[str | None, typer.Option(help="Draw the trajectory over α: a .png or .svg file.")] = None,
    trust_pickle: TrustPickle = False,
) -> None:
    """Explain one customer: what to change so that the decision flips, and stays flipped.

    With DATA, a random forest is trained on all the *other* rows; with --model and --customers, your own
    model decides. Numbers are shown with as few digits as still do (checked with the forest); `--json` has
    them in full.
    """
    from .explain.customer import Customer, customer_of_table, row_of_data
    from .explain.explain import Request, run
    from .inputs.config import Training

    if (data is None) == (model is None):
        raise BadInput("name either a data set or your own --model")
    if (model is None) != (customers is None):
        raise BadInput("--model and --customers belong together")
    if (training is None) != (label is None):
        raise BadInput("--training and --label belong together")
    if (row is None) == (customer is None):
        raise BadInput("Missing option '--row'." if row is None else "name the customer by --id or by --row")
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
    with reporting_failures():
        from .audit.audit import audit as run
        from .inputs.config import AuditConfig, read_config

        _finish(read_config(AuditConfig, config), run, address, cpus)


@app.command()
def schema(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file (skops), or a forest folder.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Raw rows: Parquet or CSV; best the training.")],
    output: Annotated[str | None, typer.Option(help="Write it to this file; else it is printed.")] = None,
    label: Annotated[str | None, typer.Option(help="A column that is no feature (forest folders).")] = None,
    trust_pickle: TrustPickle = False,
) -> None:
    """Write a commented schema file to edit: what each column of a model is and where it may move."""
    from .inputs.schema_file import write

    with reporting_bad_input():
        text, warnings = write(model, data, output, label, trust_pickle)
    for warning in warnings:
        typer.echo(f"robustcf: warning: {one_line(warning)}", err=True)
    typer.echo(escaped(text.rstrip()) if output is None else printable(output))


@app.command()
def sweep(config: Config, address: Address = None, cpus: Cpus = None) -> None:
    """Run the experiment: data sets × simulations × forest sizes × methods, with validation."""
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
    """Summarise a run folder again: validity, distance, times, Pareto fronts."""
    from .inputs.secrets import without_secrets

    with reporting_failures():
        from .reduce.reduce import reduce_folder

        reduce_folder(run, address, cpus)
    typer.echo(f"{without_secrets(run).rstrip('/')}/summary/summary.csv")


@app.command()
def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, local or a URI.")],
) -> None:
    """Write RUN/report.html again: one file for a browser, which asks the network for nothing."""
    from .report.report import report_folder

    with reporting_bad_input():
        typer.echo(report_folder(run))


@app.command()
def verify(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, local or a URI.")],
    customers: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="Your own customer table, instead of the one the manifest names."),
    ] = None,
    forest: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Your own forest folder or model file; the run's must be the same."
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Your own config; the run's must be the same. It names model and tables too."
        ),
    ] = None,
    no_customers: Annotated[
        bool, typer.Option("--no-customers", help="Read no table beside the run folder.")
    ] = False,
    trust_pickle: Annotated[
        bool, typer.Option("--trust-pickle", help="Load a pickled model, which can run any code.")
    ] = False,
    resolve: Annotated[
        int | None,
        typer.Option(
            min=1, help="Solve so many claims again, chosen at random, with HiGHS on the full model."
        ),
    ] = None,
    attack: Annotated[
        bool,
        typer.Option(
            "--attack", help="Try to refute claims with the answers of other customers and methods."
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Of the random choices of --resolve and --attack; new by default."),
    ] = None,
    limit: Annotated[float, typer.Option(min=0.001, help="Seconds for each claim of --resolve.")] = 60.0,
) -> None:
    """Check a finished run from its files alone, without the code that solved it.

    Digests, forest, schema, every point's score, constraints, distance and threshold, counts, summary.
    Every mismatch is named; exit code 1 if there is one.
    """
    from .verify.auditor import Auditor
    from .verify.claims import challenge
    from .verify.command import verify as check

    if no_customers and (customers is not None or config is not None):
        raise BadInput("--no-customers contradicts --customers and --config, which name tables to read")
    own = Auditor(customers, forest, config, not no_customers, trust_pickle)
    raise typer.Exit(check(run, own, challenge(resolve, attack, seed, limit)))


@app.command()
def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, local or a URI.")],
    output: Annotated[str, typer.Option(help="Where the table goes: a .parquet or .csv file.")],
    method: Annotated[
        list[str] | None, typer.Option(help="Only these methods, such as direct-saa; several may be given.")
    ] = None,
    alpha: Annotated[list[float] | None, typer.Option(help="Only methods with these α.")] = None,
    reasons: Annotated[
        str | None,
        typer.Option(help="Reason codes: a .csv or .toml table of feature, direction, code, text."),
    ] = None,
    max_reasons: Annotated[int, typer.Option(min=1, help="Most reasons for a customer and method.")] = 4,
) -> None:
    """Write one line per customer: decision, and per method status, distance, changes and reason codes."""
    from .export.export import Wish, export_run
    from .inputs.secrets import without_secrets

    wish = Wish(output, tuple(method or ()), tuple(alpha or ()), reasons, max_reasons)
    typer.echo(f"{export_run(run, wish)} customers: {without_secrets(output)}")


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
    from .inputs.secrets import without_secrets

    if (training is None) != (label is None):
        raise BadInput("--training and --label belong together")
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
        typer.Option(help="naive-100, saa-100, ...; several may be given. Without one: all, see the docs."),
    ] = None,
    fraction: Annotated[float, typer.Option(help="Share of the paper's simulations, in (0, 1].")] = 1.0,
    output: Annotated[str, typer.Option(help="Folder for runs, tables and figures.")] = "runs/reproduction",
    data: Annotated[
        str | None, typer.Option(help="Folder of the paper's data sets; else ROBUSTCF_DATA or the cache.")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Only these data sets; several may be given.")
    ] = None,
    time_limit: TimeLimit = 60.0,
    results: Annotated[
        str | None,
        typer.Option(help="results.parquet of an earlier reproduction: shown too, and not run again."),
    ] = None,
    address: Address = None,
    cpus: Cpus = None,
) -> None:
    """Run the paper's experiments, or go on with them, and write tables and figures beside its numbers.

    A larger fraction or a longer time limit goes on in the same folder; nothing is computed twice.
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
    """Measure our engine against HiGHS, Gurobi and peers, side by side (`bench --help`)."""
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
    """The console entry: exit code 0, or 2 and one clear line for bad input."""
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
        typer.echo("robustcf: stopped; finished work is kept; run the same command to resume", err=True)
    if arguments is None:  # the process ends: how it went is said, and a late signal changes nothing
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
