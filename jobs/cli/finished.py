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
    output: Annotated[
        str | None,
        typer.Option(
            help="Where to write: a .parquet or .csv table; with --denied a folder; otherwise any file. "
            "Default with --customer or --card: the terminal."
        ),
    ] = None,
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
    customer: Annotated[
        str | None, typer.Option(metavar="ID", help="Write the file of one customer instead of a table.")
    ] = None,
    denied: Annotated[
        bool, typer.Option("--denied", help="Write a file for each denied customer into a folder.")
    ] = False,
    form: Annotated[
        str, typer.Option("--format", help="Format of the customers' files: html, json or text.")
    ] = "html",
    template: Annotated[
        str | None, typer.Option(help="Your own Jinja2 template of the file. See --show-template.")
    ] = None,
    show_template: Annotated[
        bool, typer.Option("--show-template", help="Print the built-in template, to edit.")
    ] = False,
    reason_order: Annotated[
        str, typer.Option(help="Order of a file's reasons: score, or table (the order of --reasons).")
    ] = "score",
    valid_until: Annotated[
        str | None, typer.Option(help="Until when the customers' files are valid; printed as given.")
    ] = None,
    decision_name: Annotated[
        str | None,
        typer.Option(help="What the favourable decision is called, such as approved. Default: its label."),
    ] = None,
    customers: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="The customer table, if it is not where the run read it."),
    ] = None,
    card: Annotated[
        bool, typer.Option("--card", help="Write a section for the model card, in Markdown.")
    ] = False,
) -> None:
    """Write a table of all customers, the file of one customer or of all denied, or a model card.

    Without --customer, --denied or --card it writes one line per customer: the decision, and each method's
    status, changes and reasons.
    """
    asked = [customer is not None, denied, card, show_template]
    if sum(asked) > 1:
        raise BadInput("choose one of --customer, --denied, --card and --show-template")
    if form not in ("html", "json", "text"):
        raise BadInput(f"--format is {form!r}; choose html, json or text")
    if reason_order not in ("score", "table"):
        raise BadInput(f"--reason-order is {reason_order!r}; choose score or table")
    if reason_order == "table" and reasons is None:
        raise BadInput("--reason-order table needs --reasons")
    chosen = tuple(method or ()), tuple(alpha or ())
    if not any(asked):
        _export_table(run, output, *chosen, reasons, max_reasons)
        return
    from ..letters.command import LetterOptions, write

    options = LetterOptions(
        form,  # type: ignore[arg-type]
        output,
        customers,
        *chosen,
        template,
        reasons,
        max_reasons,
        reason_order == "table",
        valid_until,
        decision_name,
    )
    with reporting_bad_input():
        typer.echo(write(run, options, customer, denied=denied, card=card))


def _export_table(
    run: str,
    output: str | None,
    methods: tuple[str, ...],
    alphas: tuple[float, ...],
    reasons: str | None,
    most: int,
) -> None:
    from ..export.export import ExportOptions, export_run
    from ..inputs.secrets import without_secrets

    if output is None:
        raise BadInput("Missing option '--output'.")
    options = ExportOptions(output, methods, alphas, reasons, most)
    typer.echo(f"{export_run(run, options)} customers: {without_secrets(output)}")
