"""`robustcf explain`: one row of a data set, by a forest trained on all the others."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import typer
from rich.text import Text
from sklearn.ensemble import RandomForestClassifier

from jobs.badinput import BadInput, reporting_bad_input
from jobs.printing import console, print_counterfactual
from robustcf import Counterfactual, DirectSAA, Explainer, Forest, Method, Naive
from robustcf.datasets import Dataset
from robustcf.show import as_record


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    row: int
    alphas: tuple[float, ...]
    naive: bool
    target: int | None
    trees: int
    depth: int
    seed: int
    solver: str
    time_limit: float


def run(data: Dataset, request: Request, as_json: bool) -> None:
    """Train, explain, print; exit code 1 if the answer failed its own check."""
    if request.row >= len(data):
        raise BadInput(f"row {request.row} is not in {data.name}, whose rows are 0 to {len(data) - 1}")
    explainer = _explainer(data, request)
    row = data.X.iloc[request.row]
    answers = explainer.explain_grid(row)
    if as_json:
        record = {"dataset": data.name, "row": request.row, "answers": [as_record(cf) for cf in answers]}
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print(data, request, explainer, answers)
    if any(cf.status == "error" for cf in answers):
        raise typer.Exit(1)


def _explainer(data: Dataset, request: Request) -> Explainer:
    with reporting_bad_input(ValueError):
        methods: list[Method] = [Naive()] if request.naive else []
        methods += [DirectSAA(alpha) for alpha in request.alphas]
    if len(data) < 2 or not data.schema.columns:
        raise BadInput(f"{data.name} has {len(data)} rows and {len(data.schema.columns)} columns that vary")
    others = np.arange(len(data)) != request.row
    model = RandomForestClassifier(request.trees, max_depth=request.depth, random_state=request.seed)
    forest = Forest.from_sklearn(model.fit(data.encode(data.X)[others], data.y[others]))
    with reporting_bad_input(ValueError):
        return Explainer(
            forest,
            data.schema,
            methods,
            target=request.target,
            solver=request.solver,
            time_limit=request.time_limit,
            seed=request.seed,
        )


def _print(data: Dataset, request: Request, explainer: Explainer, answers: list[Counterfactual]) -> None:
    out, row = console(), data.X.iloc[request.row]
    own = explainer.forest.classes[explainer.forest.predict(data.encode(row))[0]]
    out.print(Text(f"{data.name}, row {request.row}", style="bold"))
    out.print(f"a forest of {request.trees} trees of depth {request.depth}, trained on all other rows")
    target, before = answers[0].target, answers[0].score_before
    out.print(f"decision {own}; score for {target}: {before:.3f}")
    for cf in answers:
        print_counterfactual(out, explainer, row, cf)
    out.print()
    out.print(Text("The nearest change is proved; that retrained forests agree is statistics.", style="dim"))
