"""Explain the rows of one simulation with every method, and measure the truth about each answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from robustcf.counterfactual import Counterfactual
from robustcf.datasets import Dataset
from robustcf.explain import Explainer
from robustcf.forest.forest import Voting
from robustcf.methods.base import Method
from robustcf.methods.certified.method import Certified
from robustcf.methods.thresholds import DirectSAA, Naive, RobustSAA
from robustcf.reproduction.certified.beta_rce import beta_rce
from robustcf.reproduction.certified.design import ALPHAS, BETA, VOTINGS, Design, Unit
from robustcf.reproduction.certified.setting import Setting, prepare, true_validity

Record = dict[str, Any]


def measure(unit: Unit, data: Dataset, design: Design) -> tuple[list[Record], Record]:
    """Run one simulation; return its records, and facts about the simulation.

    The result depends on the arguments only, except for the seconds and where a time limit was reached.
    """
    setting = prepare(unit, data, design)
    found = [record for voting in VOTINGS for record in measured(setting, voting, design)]
    about = {"data": unit.data, "simulation": unit.simulation, **setting.seconds}
    about["training_rows"] = len(setting.training[1])
    if unit.scenario != "same-data":
        about["scenario"] = unit.scenario
    return found, about


def measured(setting: Setting, voting: Voting, design: Design) -> Iterator[Record]:
    """Explain every row with every method alone, so that each has its own cost."""
    for method in methods(setting.unit, design):
        explainer = Explainer(
            setting.forest, setting.schema, method, voting=voting, time_limit=design.time_limit,
            training=setting.training, fresh=setting.fresh, best_score=False,
        )  # fmt: skip
        explainer.explain_many(setting.rows.iloc[:1])  # compile
        for name, (_, row) in zip(setting.names, setting.rows.iterrows(), strict=True):
            begin = time.process_time()
            answer = explainer.explain(row)
            yield _record(setting, voting, method, name, answer, time.process_time() - begin)
    if setting.unit.scenario == "same-data":
        for name, found in beta_rce(setting, voting, design.time_limit):
            yield _key(setting, voting, name) | found


def methods(unit: Unit, design: Design) -> list[Method]:
    """Return all methods; if data evolve, `Certified` for the same data and for evolving data."""
    found: list[Method] = [Naive()]
    for alpha in ALPHAS:
        found += [DirectSAA(alpha), RobustSAA(alpha, BETA), design.certified(alpha)]
        if unit.scenario == "evolving":
            found.append(design.certified(alpha, "evolving"))
    return found


def _record(
    setting: Setting, voting: Voting, method: Method, row: int, answer: Counterfactual, seconds: float
) -> Record:
    point, target = answer.encoded, answer.target
    held = None
    if point is not None and target is not None and answer.status in ("optimal", "feasible"):
        held = true_validity(setting, point, target, voting)
    found = answer.certificate
    record = _key(setting, voting, row) | {
        "method": method.name,
        "alpha": method.alpha,
        "status": answer.status,
        "distance": None if held is None else answer.distance,
        "validity": held,
        "certified": None if found is None else found.certified,
        "agreeing": None if found is None else found.agree,
        "level": None if found is None else found.level,
        "pool_trees": None if found is None else found.pool_trees,
        "seconds": seconds,
    }
    if setting.unit.scenario != "same-data":
        record["certificate_for"] = method.scenario if isinstance(method, Certified) else None
    return record


def _key(setting: Setting, voting: str, row: int) -> Record:
    """Return what identifies a record; without a scenario, the data stay the same."""
    unit = setting.unit
    key: Record = {"data": unit.data, "simulation": unit.simulation, "voting": voting, "row": row}
    return key if unit.scenario == "same-data" else key | {"scenario": unit.scenario}
