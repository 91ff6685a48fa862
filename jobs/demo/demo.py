"""`robustcf demo`: explain rejected customers, retrain the forest and test the answers."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text
from sklearn.ensemble import RandomForestClassifier

from robustcf import Counterfactual, DirectSAA, Explainer, Forest, Method, Naive
from robustcf.datasets import Dataset, synthetic_credit
from robustcf.show import value_text

from ..cluster.signals import at_once
from ..inputs.errors import BadInput
from ..terminal.printing import console, print_counterfactual, table

METHODS: tuple[Method, ...] = (Naive(), DirectSAA(alpha=0.2), DirectSAA(alpha=0.05))
TRAINING_ROWS, HELD_OUT_ROWS = 800, 200
TREES, DEPTH = 100, 4
REPAID = 1


def run(seed: int, customers: int, retrain: int, output: str | None = None) -> None:
    """Explain one customer in detail and several in a table, then run a batch job."""
    out = console()
    data = synthetic_credit(TRAINING_ROWS + HELD_OUT_ROWS, seed=seed)
    model = _train(data, seed)
    rejected = _rejected(data, model)[:customers]
    if not len(rejected):
        raise BadInput(f"with seed {seed}, no customer is rejected; try another --seed")
    out.print(Text("Which change would get a rejected customer accepted?", style="bold"))
    out.print(
        f"A forest of {TREES} trees of depth {DEPTH}, trained on {TRAINING_ROWS} synthetic loans, predicts "
        "whether a loan is repaid."
    )
    explainer = Explainer(Forest.from_sklearn(model), data.schema, METHODS, target=REPAID)
    with at_once():
        with out.status("compiling for this machine (about a minute, only the first time)"):
            explainer.explain_grid(data.X.iloc[rejected[-1]])
        with out.status(f"explaining {len(rejected)} customers"):
            begin = time.perf_counter()
            answers = explainer.explain_many(data.X.iloc[rejected])
            seconds = time.perf_counter() - begin
        first = answers[: len(METHODS)]
        _print_customer(out, data, int(rejected[0]), first[0].score_before)
        for cf in first:
            print_counterfactual(out, explainer, data.X.iloc[rejected[0]], cf)
        with out.status(f"retraining {retrain} forests"):
            holds = _holds(data, answers, [_train(data, seed + 1 + k) for k in range(retrain)])
        _print_retraining(out, answers, holds)
    proved = sum(cf.status in ("optimal", "no_recourse") for cf in answers)
    out.print(
        f"{len(answers)} answers ({len(rejected)} customers × {len(METHODS)} methods) in {seconds:.1f} s; "
        f"{proved} are proved."
    )
    _audit(out, data, explainer.forest, seed, retrain, output)


def _audit(out: Console, data: Dataset, forest: Forest, seed: int, retrain: int, output: str | None) -> None:
    """Audit all test customers as a batch job on Ray and print its summary."""
    from .audit import audit_everyone

    customers, training = data.X.iloc[TRAINING_ROWS:], data.X.iloc[:TRAINING_ROWS]
    out.print()
    out.print(Text(f"All {len(customers)} test customers, as a batch job on Ray", style="bold"))
    labels = data.y[:TRAINING_ROWS]
    where = audit_everyone(data.schema, forest, customers, training, labels, METHODS, seed, retrain, output)
    summary = pd.read_csv(where / "run/summary/summary.csv")
    made = table(
        "advice", "proved", "still valid", "95 % interval", right=("proved", "still valid", "95 % interval")
    )
    everyone = summary[summary["cohort"].isna()].sort_values("distance")
    for method, (_, line) in zip(METHODS, everyone.iterrows(), strict=True):
        made.add_row(
            method.title,
            str(line["n_optimal"] + line["n_no_recourse"]),
            f"{line['validity']:.0%}",
            f"{line['validity_low']:.0%} to {line['validity_high']:.0%}",
        )
    out.print(made)
    out.print(Text(f"files of the run: {where}"), soft_wrap=True)
    out.print(Text(f"report to open in a browser: {where}/run/report.html", style="bold"), soft_wrap=True)


def _train(data: Dataset, seed: int) -> RandomForestClassifier:
    model = RandomForestClassifier(TREES, max_depth=DEPTH, random_state=seed)
    return model.fit(data.encode(data.X)[:TRAINING_ROWS], data.y[:TRAINING_ROWS])


def _rejected(data: Dataset, model: RandomForestClassifier) -> np.ndarray:
    """Return the test customers whom the forest rejects."""
    held_out = np.arange(TRAINING_ROWS, len(data))
    predicted = model.predict(data.encode(data.X.iloc[held_out]))
    rejected: np.ndarray = held_out[predicted != REPAID]
    return rejected


def _print_customer(out: Console, data: Dataset, row: int, score: float) -> None:
    out.print()
    out.print(Text(f"Customer {row}: rejected with a score of {score:.3f}", style="bold red"))
    raw = data.X.iloc[row]
    facts = (f"{f.label or f.name}: {value_text(f, raw[f.name])}" for f in data.schema.features)
    out.print(Text(" · ".join(facts), style="dim"))


def _holds(data: Dataset, answers: list[Counterfactual], forests: list[RandomForestClassifier]) -> np.ndarray:
    """Return whether each retrained forest accepts each answer; a missing answer counts as no."""
    found = [cf.encoded is not None for cf in answers]
    points = [np.zeros(len(data.schema.columns)) if cf.encoded is None else cf.encoded for cf in answers]
    accepted = np.array([forest.predict(np.array(points)) == REPAID for forest in forests]).T
    holds: np.ndarray = accepted & np.array(found)[:, None]
    return holds


def _print_retraining(out: Console, answers: list[Counterfactual], holds: np.ndarray) -> None:
    n_methods, retrained = len(METHODS), holds.shape[1]
    out.print()
    out.print(Text("Does the advice survive retraining?", style="bold"))
    out.print(f"{retrained} forests were retrained on the same data with other seeds. The advice works in:")
    out.print()
    first, everyone = "this customer", f"all {len(answers) // n_methods} customers"
    made = table("advice", first, everyone, "mean distance", right=(first, everyone, "mean distance"))
    for m, method in enumerate(METHODS):
        mine, theirs = holds[m], holds[m::n_methods]
        distances = [cf.distance for cf in answers[m::n_methods] if cf.point is not None]
        made.add_row(
            method.title,
            f"{mine.sum()} of {retrained}",
            Text(f"{theirs.mean():.0%}", style="bold green" if m else "bold red"),
            f"{np.mean(distances):.3f}" if distances else "-",
        )
    out.print(made)
    out.print()
    out.print(
        Text("distance: weighted sum of the changes, each as a share of the feature's range", style="dim")
    )
