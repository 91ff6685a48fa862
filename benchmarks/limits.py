"""Check answers at short time limits by longer solves.

Run it with `python -m robustcf_benchmarks.limits`.

Every customer is solved with every family of methods and both votings, at limits between 1 ms and 2 s, and
once with a long limit. Then no point of one answer may refute another answer (`refute.py`). Answers are
stored in `limits.jsonl` as they are found; run the same command to resume.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc

from .cases import Case, data_sets, realise
from .refute import Answer, refutations
from .store import code_fingerprint, read

SHORTEST, LONGEST = 1e-3, 2.0  # seconds
GROWN = ("breast-cancer grown", "made 40x4", "made grown")  # worlds made from scikit-learn's data
NUMBERS = (
    "threshold", "score", "distance", "objective", "lower_bound",
    "best_score", "best_score_gap", "relaxation",
)  # fmt: skip
GRID: tuple[rc.Method, ...] = (rc.Naive(), rc.DirectSAA(0.2), rc.DirectSAA(0.05), rc.RobustSAA(0.05, 0.05))
QUESTIONS: tuple[tuple[str, str, tuple[rc.Method, ...]], ...] = (  # voting, solver, methods solved together
    ("soft", "auto", GRID),
    ("soft", "auto", (rc.Naive(),)),
    ("soft", "auto", (rc.DirectSAA(0.05),)),
    ("soft", "auto", (rc.RobustSAA(0.05, 0.05),)),
    ("soft", "auto", (rc.IsolationForest(0.1),)),
    ("soft", "auto", (rc.IsolationForest(0.3, rc.DirectSAA(0.05)),)),
    ("soft", "auto", (rc.LocalOutlierFactor(0.1),)),
    ("soft", "auto", (rc.LocalOutlierFactor(1.0, rc.DirectSAA(0.05)),)),
    ("soft", "auto", (rc.RobX(0.5, k=200),)),
    ("soft", "highs", (rc.DirectSAA(0.05),)),
    ("hard", "auto", GRID),
    ("hard", "auto", (rc.DirectSAA(0.05),)),
    ("hard", "auto", (rc.ConvexApproximation(0.05),)),
    ("hard", "auto", (rc.IsolationForest(0.1),)),
    ("hard", "auto", (rc.LocalOutlierFactor(0.1),)),
    ("hard", "highs", (rc.ConvexApproximation(0.05),)),
)


@dataclass(frozen=True, eq=False)
class Subject:
    """A forest, its schema and training rows, and the customers to explain."""

    forest: rc.Forest
    schema: rc.Schema
    training: tuple[np.ndarray, np.ndarray]
    customers: pd.DataFrame


def worlds(data: Sequence[str]) -> dict[str, Callable[[int], Subject]]:
    """Return, by name, a function that makes each world for a number of customers."""

    def of_case(case: Case) -> Callable[[int], Subject]:
        return lambda count: _from_case(case, count)

    made: dict[str, Callable[[int], Subject]] = {}
    for name in data:
        made[f"{name} 100x4"] = of_case(Case(name))
        made[f"{name} 150x4 frozen"] = of_case(Case(name, trees=150, seed=1, frozen=True))
        made[f"{name} 15x4"] = of_case(Case(name, trees=15, seed=2))
    for name in GROWN:
        made[name] = lambda count, name=name: _from_sklearn(name, count)  # type: ignore[misc]
    return made


def _from_case(case: Case, count: int) -> Subject:
    world = realise(case)
    rows = [c.row for c in world.customers(count)]
    return Subject(world.forest, world.data.schema, world.training, world.data.X.iloc[rows])


def _from_sklearn(name: str, count: int) -> Subject:
    """Make a world with a default scikit-learn forest, or 40 trees of depth 4.

    The latter once led to a false `no_recourse`.
    """
    if name.startswith("breast-cancer"):
        X, y = load_breast_cancer(return_X_y=True)
    else:
        X, y = make_classification(600, 20, n_informative=11, n_redundant=0, flip_y=0.05, random_state=5)
    frame = pd.DataFrame(X).add_prefix("x")
    data = rc.datasets.Dataset(name, frame, y, rc.Schema.from_frame(frame))
    encoded = data.encode(frame)
    size = {"n_estimators": 40, "max_depth": 4} if name.endswith("40x4") else {}
    model = RandomForestClassifier(**size, random_state=5).fit(encoded, y)
    denied = np.flatnonzero(model.predict(encoded) == 0)[:count]
    return Subject(rc.Forest.from_sklearn(model), data.schema, (encoded, y), frame.iloc[denied])


def missing_answers(
    subject: Subject, world: str, limits: int, long: float, done: set[str]
) -> Iterator[list[Answer]]:
    """Yield the missing answers about one world's customers, one list per call."""
    for q, (voting, solver, methods) in enumerate(QUESTIONS):
        explainer: rc.Explainer | None = None
        for position, row in enumerate(map(int, subject.customers.index)):
            draws = np.random.default_rng([q, row, len(world)]).uniform(size=limits)
            short = [SHORTEST * (LONGEST / SHORTEST) ** u for u in draws]
            for k, limit in enumerate([*short, *([long] if solver == "auto" else [])]):
                key = f"{world}|{row}|{q}|{'long' if k == limits else k}"
                if key in done:
                    continue
                if explainer is None:
                    explainer = rc.Explainer(
                        subject.forest,
                        subject.schema,
                        methods,
                        voting=voting,  # type: ignore[arg-type]
                        solver=solver,
                        training=subject.training,
                    )
                explainer.limits = replace(explainer.limits, seconds=float(limit))
                explainer._best.clear()
                begin = time.perf_counter()
                found = explainer.explain_many(subject.customers.iloc[[position]])
                seconds = time.perf_counter() - begin
                shared = {
                    "key": key,
                    "world": world,
                    "row": row,
                    "voting": voting,
                    "solver": solver,
                }
                yield [_record(a, shared | {"limit": float(limit), "seconds": seconds}) for a in found]


def _record(answer: rc.Counterfactual, shared: dict[str, Any]) -> Answer:
    numbers = {name: value if math.isfinite(value := getattr(answer, name)) else None for name in NUMBERS}
    asked = answer.method
    parts = (asked.name, asked.alpha, asked.beta, asked.parameter)
    return {
        **shared,
        **numbers,
        "method": " ".join(str(part) for part in parts if part is not None),
        "status": "error" if math.isinf(answer.lower_bound) else answer.status,
        "reason": "an infinite bound" if math.isinf(answer.lower_bound) else answer.reason,
        "point": answer.point is not None,
        "verified": answer.verified,
    }


def summary(answers: Sequence[Answer], wrong: Sequence[str]) -> str:
    """Return counts of answers by method and status, and the refuted answers."""
    short = [a for a in answers if not a["key"].endswith("long")]
    lines = [f"{len(short)} answers at short limits, {len(answers) - len(short)} at the long one"]
    for method in sorted({a["method"] for a in short}):
        counts = Counter(a["status"] for a in short if a["method"] == method)
        lines.append(f"  {method}: " + ", ".join(f"{n} {status}" for status, n in counts.most_common()))
    settled = {"optimal", "no_recourse", "relaxed", "heuristic", "already_favourable"}
    open_ = sum(a["status"] not in settled for a in answers if a["key"].endswith("long"))
    lines.append(f"  {open_} of the long solves ended without a proof")
    lines += [f"REFUTED {line}" for line in wrong]
    lines.append(f"{len(wrong)} refuted")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Solve, store and check the answers; return 1 if an answer was refuted."""
    parser = argparse.ArgumentParser(prog="python -m robustcf_benchmarks.limits", description=__doc__)
    parser.add_argument("--data", nargs="*", default=None, help="data sets; by default all that are found")
    parser.add_argument("--worlds", nargs="*", default=None, help="only these worlds, by name")
    parser.add_argument("--answers", type=int, default=5000, help="number of answers at short limits")
    parser.add_argument("--customers", type=int, default=2, help="customers per world")
    parser.add_argument("--long", type=float, default=60.0, help="time limit of the long solves, in seconds")
    parser.add_argument("--out", type=Path, default=Path("limits"), help="folder for the answers")
    options = parser.parse_args(arguments)
    makers = worlds(data_sets() if options.data is None else options.data)
    chosen = list(makers) if options.worlds is None else options.worlds
    each = sum(len(methods) for _, _, methods in QUESTIONS)
    limits = max(1, math.ceil(options.answers / (each * len(chosen) * options.customers)))
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "limits.jsonl"
    stored, code = read(path), code_fingerprint()
    if any(a["code"] != code for a in stored):
        print(f"{path} has answers of a different code version; choose another --out", file=sys.stderr)
        return 2
    done, begin = {a["key"] for a in stored}, time.perf_counter()
    for number, name in enumerate(chosen, 1):
        fresh = 0
        with path.open("a", encoding="utf-8") as file:
            for answers in missing_answers(makers[name](options.customers), name, limits, options.long, done):
                file.writelines(json.dumps(a | {"code": code}) + "\n" for a in answers)
                file.flush()
                fresh += len(answers)
        spent = time.perf_counter() - begin
        print(f"{number}/{len(chosen)} {name}: {fresh} answers, {spent:.0f} s so far", flush=True)
    stored = read(path)
    wrong = refutations(stored)
    print(summary(stored, wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
