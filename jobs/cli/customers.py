"""Commands that explain a few customers: `demo` and `explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..cluster.signals import at_once
from ..inputs.datasets import read_dataset
from ..inputs.errors import BadInput, reporting_bad_input, reporting_failures
from .options import (
    Cutoff,
    Decision,
    Depth,
    ScoreOf,
    Seed,
    Solver,
    TimeLimit,
    Trees,
    TrustPickle,
    check_cutoff,
)


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
        from ..demo.demo import run

        run(seed, customers, retrain, output)


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
    margin: Annotated[
        list[float] | None,
        typer.Option(help="Score to demand, in (0, 1], instead of α. Repeat the option for several."),
    ] = None,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Also find a change that fresh forests certify; trains them on the training rows.",
        ),
    ] = False,
    joint: Annotated[
        bool, typer.Option("--joint", help="The certificates of all α hold together: they share δ.")
    ] = False,
    naive: Annotated[
        bool, typer.Option("--naive", help="Also show the nearest change without margin.")
    ] = False,
    target: Annotated[
        str | None, typer.Option(help="The label to reach. With two classes, it defaults to the other one.")
    ] = None,
    cutoff: Cutoff = None,
    score_of: ScoreOf = None,
    decision: Decision = None,
    trees: Trees = 100,
    depth: Depth = 4,
    seed: Seed = 0,
    solver: Solver = "auto",
    time_limit: TimeLimit = 60.0,
    alternatives: Annotated[
        int,
        typer.Option(min=1, help="Number of truly different answers, and a table of few changes."),
    ] = 1,
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
    from ..explain.customer import Customer, customer_of_table, row_of_data
    from ..explain.explain import Request, run
    from ..inputs.config import Training

    if (data is None) == (model is None):
        raise BadInput("name either a data set or your own --model, not both")
    if (model is None) != (customers is None):
        raise BadInput("--model and --customers must be used together")
    if (training is None) != (label is None):
        raise BadInput("--training and --label must be used together")
    if joint and not certify:
        raise BadInput("--joint needs --certify")
    check_cutoff(cutoff, score_of, decision)
    if (row is None) == (customer is None):
        raise BadInput("Missing option '--row'." if row is None else "use either --id or --row, not both")
    measured = (20 if training else 0) if forests is None else forests
    request = Request(
        tuple(alpha or ()),
        naive,
        target,
        seed,
        solver,
        time_limit,
        menu,
        measured,
        plot,
        certify,
        joint,
        cutoff,
        score_of,
        alternatives,
        decision,
        tuple(margin or ()),
    )
    with at_once(), reporting_bad_input():
        if model is not None and customers is not None:
            rows = None if training is None or label is None else Training(training, label)
            whom = Customer(customers, row, customer, id_column)
            chosen = customer_of_table(whom, model, schema, rows, trust_pickle)
        elif data is not None and row is not None:
            chosen = row_of_data(read_dataset(data), row, trees, depth, seed)
        else:
            raise BadInput("Missing option '--row'.")
        run(chosen, request, json)
