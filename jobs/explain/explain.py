"""`robustcf explain`: explain one customer as text, plot or JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from robustcf import (
    Blockers,
    Certified,
    Counterfactual,
    DirectSAA,
    Explainer,
    FreshForests,
    Margin,
    Method,
    Naive,
    Region,
    train_fresh,
)
from robustcf.forest.decision import rule_of
from robustcf.forest.forest import Label
from robustcf.judge import DecidingJudge
from robustcf.show import as_record, blocking_text, region_text

from ..inputs.errors import BadInput, reporting_bad_input
from ..run.fresh import check_training_rows
from ..terminal.printable import escaped
from ..terminal.printing import console, print_counterfactual, table
from ..validate.forests import TrainingRows, check_trainable, train_again
from .customer import CustomerWithModel
from .options import (
    Options,
    blockers_for,
    blocking_record,
    options_of,
    print_options,
    record_of,
    regions_for,
)

MENU = (0.5, 0.3, 0.2, 0.1, 0.05, 0.01)
SCORES = (0.6, 0.7, 0.8, 0.9)  # of the menu of a boosted model, which has no α
PICTURES = (".png", ".svg", ".pdf")
MOST_THREADS = 8


@dataclass(frozen=True)
class Request:
    """The options of the command line."""

    alphas: tuple[float, ...] = ()  # without any: 0.05, and for a boosted model what flips the decision
    naive: bool = False
    target: str | None = None
    seed: int = 0
    solver: str = "auto"
    time_limit: float = 60.0
    menu: bool = True
    forests: int = 0
    plot: str | None = None
    certify: bool = False
    joint: bool = False
    cutoff: float | None = None
    score_of: str | None = None
    alternatives: int = 1
    decision: str | None = None
    margins: tuple[float, ...] = ()


@dataclass(frozen=True)
class Explained:
    """A customer's answers: those asked for, those of the menu, and their measured validity."""

    customer: CustomerWithModel
    explainer: Explainer
    answers: list[Counterfactual]
    menu: list[Counterfactual]
    measured: dict[int, tuple[int, int]] = field(default_factory=dict)
    options: list[Options] = field(default_factory=list)
    blockers: dict[int, Blockers] = field(default_factory=dict)
    regions: dict[int, Region] = field(default_factory=dict)

    def agreed(self, cf: Counterfactual) -> tuple[int, int] | None:
        """Return how many retrained forests accept the answer, and how many there are."""
        return self.measured.get(id(cf))


def run(customer: CustomerWithModel, request: Request, as_json: bool) -> None:
    """Explain, print and plot; exit with code 1 if an answer has the status `error`."""
    if request.plot is not None and not request.plot.lower().endswith(PICTURES):
        raise BadInput(f"--plot {request.plot}: the file name must end in {', '.join(PICTURES)}")
    done = explain(customer, request)
    if customer.warning is not None:
        typer.echo(f"robustcf: {customer.warning}", err=True)
    if as_json:
        typer.echo(escaped(json.dumps(_record(done), indent=2, ensure_ascii=False, allow_nan=False)))
    else:
        _print(done)
    if request.plot is not None:
        typer.echo(_draw(done, request.plot), err=True)
    if any(cf.status == "error" for cf in done.answers):
        raise typer.Exit(1)


def explain(customer: CustomerWithModel, request: Request) -> Explained:
    """Solve all methods in one grid, which shares their bounds, then retrain forests."""
    with reporting_bad_input(ValueError):
        boosted = customer.forest.boosting is not None
        alphas = request.alphas or (() if boosted or request.margins else (0.05,))
        asked: list[Method] = [Naive()] if request.naive or (boosted and not request.margins) else []
        asked += [Margin(score) for score in request.margins]
        asked += [DirectSAA(alpha) for alpha in alphas]
        certified = [Certified(alpha) for alpha in alphas or (0.05,)] if request.certify else []
        if request.joint:
            certified = [method.shared_by(len({*certified})) for method in certified]
        asked += certified
        menu: list[Method] = []
        if request.menu or request.plot is not None:
            menu = [Naive(), *(DirectSAA(alpha) for alpha in sorted({*MENU, *alphas}, reverse=True))]
            if boosted:
                menu = [Naive(), *map(Margin, sorted({*SCORES, *request.margins}))]
        methods = list(dict.fromkeys([*asked, *menu]))
        for method in methods:
            method.check_forest("soft", len(customer.forest.classes))
        target = None if request.target is None else _label(customer, request.target)
        if request.cutoff is not None or request.decision is not None:
            customer = _decided_at(customer, target, request)
        explainer = Explainer(
            customer.forest,
            customer.schema,
            methods,
            target=target,
            solver=request.solver,
            time_limit=request.time_limit,
            seed=request.seed,
            training=customer.training,
            judge=customer.judge,
            fresh=_fresh(customer, certified, request.seed),
        )
    found = dict(zip(methods, explainer.explain_grid(customer.row), strict=True))
    for cf in found.values():
        if cf.status == "invalid_input":
            raise BadInput(f"{customer.title}: {cf.reason}")
    done = Explained(customer, explainer, [found[m] for m in asked], [found[m] for m in menu])
    done = replace(done, options=options_of(explainer, customer.row, done.answers, request.alternatives))
    done = replace(
        done,
        blockers=blockers_for(explainer, customer.row, done.answers, request.time_limit),
        regions=regions_for(explainer, customer.row, done.answers),
    )
    if request.forests:
        shown = [*found.values(), *(cf for some in done.options for cf in some.alternatives)]
        done = replace(done, measured=_measured(customer, shown, request))
    return done


def _decided_at(customer: CustomerWithModel, target: Label | None, asked: Request) -> CustomerWithModel:
    """Return the customer with the decision that the command line asks for."""
    if target is None:
        option = "--decision" if asked.cutoff is None else "--cutoff"
        raise BadInput(f"{option} needs --target, the label that is decided for")
    named = None if asked.score_of is None else _label(customer, asked.score_of)
    forest = customer.forest.deciding(target, asked.cutoff, named, rule_of(asked.decision))
    judge = None if customer.judge is None else DecidingJudge(customer.judge, forest)
    return replace(customer, forest=forest, judge=judge)


def _fresh(customer: CustomerWithModel, methods: Sequence[Certified], seed: int) -> list[FreshForests]:
    """Train the fresh forests of the certificates."""
    if not methods:
        return []
    if customer.training is None:
        raise BadInput("--certify needs the model's training rows; name them with --training and --label")
    X, y = customer.training
    threads = min(MOST_THREADS, os.cpu_count() or 1)
    check_trainable(customer.forest, [method.scenario for method in methods])
    rows = TrainingRows(X, y, np.arange(len(y)))
    if warning := check_training_rows(customer.forest, rows, threads, strict=customer.judge is None):
        typer.echo(f"robustcf: {warning}", err=True)
    designs = dict.fromkeys(method.design for method in methods)
    return [train_fresh(customer.forest, X, y, design, seed=seed, threads=threads) for design in designs]


def _label(customer: CustomerWithModel, text: str) -> Label:
    for label in customer.forest.classes:
        if str(label) == text:
            return label
    try:
        return customer.forest.classes[customer.forest.class_index(int(text))]
    except ValueError as error:
        shown = text if str(error).startswith("the forest") else repr(text)
        raise BadInput(
            f"the forest has no class {shown}; its classes are {list(customer.forest.classes)}"
        ) from None


def _measured(
    customer: CustomerWithModel, answers: Sequence[Counterfactual], request: Request
) -> dict[int, tuple[int, int]]:
    """Count the retrained forests that accept each point."""
    from robustcf.forest.boosted.read import refits_identically
    from robustcf.validate import derive_seed, validity

    if customer.training is None:
        raise BadInput("--forests needs the model's training rows; name them with --training and --label")
    reached = [cf for cf in answers if cf.works and cf.encoded is not None and cf.target is not None]
    if not reached:
        return {}
    X, y = customer.training
    threads = min(MOST_THREADS, os.cpu_count() or 1)
    points = np.array([cf.encoded for cf in reached])
    agreed = np.zeros(len(reached), dtype=np.int64)
    rows = TrainingRows(X, y, np.arange(len(y)))
    scenario = "bootstrap" if refits_identically(customer.forest.estimator) else "same-data"
    with reporting_bad_input():
        for k in range(request.forests):
            seed = derive_seed(request.seed, "validation", scenario, k)
            again = train_again(customer.forest, rows, scenario, seed, threads)
            agreed += validity([again], points, [cf.target for cf in reached if cf.target is not None])[:, 0]
    return {id(cf): (int(n), request.forests) for cf, n in zip(reached, agreed, strict=True)}


def _print(done: Explained) -> None:
    out, customer = console(), done.customer
    out.print(Text(customer.title, style="bold"))
    out.print(Text(customer.about))
    first = (done.answers or done.menu)[0]
    out.print(f"decision {customer.decision}; score for {first.target}: {first.score_before:.3f}")
    for cf in done.answers:
        print_counterfactual(out, done.explainer, customer.row, cf)
        if cf.works:
            out.print(_robustness(done, cf))
        if (region := done.regions.get(id(cf))) is not None:
            lines = "; ".join(region_text(done.customer.schema, region))
            out.print(Text(f"✓ the decision stays, proved: {lines}", style="green"))
        if (found := done.blockers.get(id(cf))) is not None:
            for line in blocking_text(found):
                out.print(Text(line))
    for some in done.options:
        print_options(out, done.explainer, customer.row, some, lambda cf: _robustness(done, cf))
    if done.menu and first.status != "already_favourable":
        _print_menu(out, done)
    out.print()
    out.print(Text(_note(done.answers), style="dim"))
    if not any(cf.method.design is not None for cf in done.answers):
        out.print(Text("No certificate was asked for; --certify asks for one.", style="dim"))


def _note(answers: Sequence[Counterfactual]) -> str:
    """Say what is proved about the answers shown, and what is not."""
    statuses = {cf.status for cf in answers if cf.works}
    if not statuses:
        return "No change is shown, because none was found that works."
    said = "That a change marked ✓ is the nearest is proved. " if "optimal" in statuses else ""
    if statuses != {"optimal"}:
        said += "A change marked ! works, but a nearer one may exist. "
    return f"{said}Validity under retraining is a statistical estimate."


def _robustness(done: Explained, cf: Counterfactual) -> str:
    words = f"validity: predicted {_share(cf.predicted_validity)} (optimistic, from this forest alone)"
    if done.explainer.forest.boosting is not None:
        words = "validity: not predicted for a boosted model"
    agreed = done.agreed(cf)
    return words if agreed is None else f"{words}; measured {agreed[0]} of {agreed[1]} retrained forests"


def _print_menu(out: Console, done: Explained) -> None:
    out.print()
    out.print(Text("What more robustness costs", style="bold"))
    columns = ["advice", "distance", "changes", "predicted"] + ["measured"] * bool(done.measured)
    made = table(*columns, right=tuple(columns[1:]))
    for cf in done.menu:
        line = [cf.method.title]
        if not cf.works:
            line += ["no way" if cf.status == "no_recourse" else cf.status, "", ""] + [""] * bool(
                done.measured
            )
        else:
            line += [f"{cf.distance:.4f}", str(cf.n_changed), _share(cf.predicted_validity)]
            if done.measured:
                agreed = done.agreed(cf)
                line.append("" if agreed is None else f"{agreed[0]} of {agreed[1]}")
        made.add_row(*line)
    out.print(made)


def _share(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.0%}"


def _record(done: Explained) -> dict[str, Any]:
    customer = done.customer
    return {
        **customer.facts,
        "decision": customer.decision,
        "answers": [
            as_record(cf) | _validities(done, cf) | blocking_record(done.blockers.get(id(cf)))
            for cf in done.answers
        ],
        **{"options": [record_of(some, partial(_validities, done)) for some in done.options] or None},
        "menu": [
            {
                "method": cf.method.name,
                "alpha": cf.method.alpha,
                "status": cf.status,
                "threshold": _finite(cf.threshold),
                "score": _finite(cf.score) if cf.works else None,
                "distance": _finite(cf.distance) if cf.works else None,
                "n_changed": cf.n_changed if cf.works else None,
                **_validities(done, cf),
            }
            for cf in done.menu
        ],
    }


def _validities(done: Explained, cf: Counterfactual) -> dict[str, float | None]:
    agreed = done.agreed(cf)
    return {
        "predicted_validity": _finite(cf.predicted_validity) if cf.works else None,
        "measured_validity": None if agreed is None else agreed[0] / agreed[1],
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _draw(done: Explained, path: str) -> str:
    """Plot the trajectory over the menu's α; return the path, or why nothing was plotted."""
    from robustcf.insight import trajectory_of
    from robustcf.report.figures_trajectory import trajectory_figure

    steps = [cf for cf in done.menu if cf.method.alpha is not None]
    if not steps:
        return f"{path}: not written, because the plot is over α, which a boosted model has not"
    if not any(cf.works for cf in steps):
        return f"{path}: not written, because no answer has a change that works"
    steps.sort(key=lambda cf: 1.0 - float(cf.method.alpha or 0.0))
    figure = trajectory_figure(
        trajectory_of(done.customer.schema, steps),
        done.customer.schema,
        done.customer.row,
        done.customer.title,
        [cf.point if cf.works else None for cf in steps],
    )
    try:
        figure.savefig(Path(path), dpi=150)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None
    return path
