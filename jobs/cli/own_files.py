"""Commands for the user's own model and points: `schema` and `validate`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..inputs.errors import BadInput, one_line, reporting_bad_input, reporting_failures
from ..terminal.printable import escaped, printable
from .options import Address, Cutoff, Decision, ScoreOf, Seed, TrustPickle, check_cutoff


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
    from ..inputs.schema_file import write

    with reporting_bad_input():
        text, warnings = write(model, data, output, label, trust_pickle)
    for warning in warnings:
        typer.echo(f"robustcf: warning: {one_line(warning)}", err=True)
    typer.echo(escaped(text.rstrip()) if output is None else printable(output))


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
    forests: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of retrained forests per scenario. Default: 20; with --certify: 100."
        ),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(help="same-data (default), bootstrap or trees-N. Repeat the option for several."),
    ] = None,
    point_id: Annotated[str | None, typer.Option("--id", help="Column that holds the points' ids.")] = None,
    alpha: Annotated[float, typer.Option(help="α of the threshold test, in (0, 0.5].")] = 0.05,
    voting: Annotated[str, typer.Option(help="Voting of the forest: soft or hard.")] = "soft",
    cutoff: Cutoff = None,
    score_of: ScoreOf = None,
    decision: Decision = None,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Certify each point with 1 - α: one exact test on forests with other seeds than validation.",
        ),
    ] = False,
    delta: Annotated[
        float | None,
        typer.Option(help="Probability that a certificate is wrong, in (0, 1). Default: 0.05."),
    ] = None,
    joint: Annotated[
        bool, typer.Option("--joint", help="All certificates of the table hold together: they share δ.")
    ] = False,
    seed: Seed = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads per task.")] = 1,
    address: Address = None,
) -> None:
    """Test points from any tool: threshold, predicted validity, validity under retraining, certificate."""
    from ..inputs.secrets import without_secrets

    if (training is None) != (label is None):
        raise BadInput("--training and --label must be used together")
    if voting not in ("soft", "hard"):
        raise BadInput(f"--voting is {voting!r}; choose soft or hard")
    if not 0 < alpha <= 0.5:
        raise BadInput(f"--alpha is {alpha}; it must lie in (0, 0.5]")
    check_cutoff(cutoff, score_of, decision)
    if delta is not None and not certify:
        raise BadInput("--delta needs --certify")
    if joint and not certify:
        raise BadInput("--joint needs --certify")
    if certify and training is None:
        raise BadInput("--certify needs the training rows: use --training and --label")
    with reporting_failures():
        from ..inputs.config import Training, Validation
        from ..validate.certify import Certifying
        from ..validate.points import PointsRequest, validate_points

        certifying = Certifying(alpha, 0.05 if delta is None else delta, joint) if certify else None
        scenarios = tuple(scenario or ["same-data"])
        count = forests or (100 if certify else 20)
        rows = None if training is None or label is None else Training(training, label)
        table, claims = validate_points(
            PointsRequest(
                points, forest, schema, target, output, point_id, alpha,
                "hard" if voting == "hard" else "soft",
                rows, Validation(count, scenarios), seed, threads, certifying, cutoff, score_of, decision,
            ),
            address,
        )  # fmt: skip
    for line in claims:
        typer.echo(line)
    typer.echo(f"{len(table)} rows: {without_secrets(output)}")
