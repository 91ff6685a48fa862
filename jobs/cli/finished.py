"""Commands that read a run folder: `report`, `verify` and `export`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..cluster.signals import at_once
from ..inputs.errors import BadInput, reporting_bad_input
from .options import Run, TrustPickle


def report(
    run: Run,
) -> None:
    """Rewrite RUN/report.html: one self-contained file that needs no network."""
    from ..report.report import report_folder

    with reporting_bad_input():
        typer.echo(report_folder(run))


def verify(
    run: Run,
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
    retrain: Annotated[
        str | None,
        typer.Option(
            metavar="N|all",
            help="Number of random fresh forests of the certificates to train again, or all.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Random seed of --resolve, --attack and --retrain. Default: a new one."),
    ] = None,
    limit: Annotated[
        float, typer.Option(min=0.001, help="Time limit in seconds per claim of --resolve.")
    ] = 60.0,
) -> None:
    """Check a finished run from its files alone, without the code that solved it.

    It checks digests, forest, schema, every point's score, constraints, distance, threshold and certificate,
    counts and summary. It names every mismatch and exits with code 1 if it finds one.
    """
    from ..verify.auditor import Auditor
    from ..verify.claims import challenge
    from ..verify.command import verify as check
    from ..verify.retrain import retraining

    if no_customers and (customers is not None or config is not None):
        raise BadInput("--no-customers cannot be combined with --customers or --config, which name tables")
    if no_customers and retrain is not None:
        raise BadInput("--no-customers cannot be combined with --retrain, which reads the training rows")
    own = Auditor(customers, forest, config, not no_customers, trust_pickle)
    with at_once():
        code = check(run, own, challenge(resolve, attack, seed, limit), retraining(retrain, seed))
    raise typer.Exit(code)


def export(
    run: Run,
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
    from ..export.export import ExportOptions, export_run
    from ..inputs.secrets import without_secrets

    options = ExportOptions(output, tuple(method or ()), tuple(alpha or ()), reasons, max_reasons)
    typer.echo(f"{export_run(run, options)} customers: {without_secrets(output)}")
