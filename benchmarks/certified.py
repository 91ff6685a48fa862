"""Measure whether certificates keep their promise, and what they cost.

Run it with `python -m robustcf_benchmarks.certified`.

For each simulation, a forest is trained without the rows to explain. Every method explains the same rows.
The *truth* about a point is its validity: the trees of further forests, which no method has seen, are grouped
into 10,000 random forests, and the share that accepts the point is counted. Results are stored in
`certified.jsonl` after each simulation; run the same command to resume.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import betaincinv
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.certificate.fresh import Forests
from robustcf.datasets import load
from robustcf.datasets.registry import PAPER_SETS
from robustcf.methods.certified.ladder import Ladder, Pool
from robustcf.methods.family import Customer, Tools
from robustcf.solve import Limits, get_engine
from robustcf.stats import cluster_bootstrap
from robustcf.validate import derive_seed, retrain

from .store import read

ALPHAS = (0.2, 0.1, 0.05)
DELTA = 0.05
GROUPS = 10_000  # random forests that decide the truth about a point
JUDGES = 32  # retrained models of BetaRCE's rule
BREAST = {"breast-cancer depth 4": 4, "breast-cancer grown": None}


@dataclass(frozen=True)
class Unit:
    """One simulation: a data set, and the number of the draw."""

    data: str
    simulation: int


@dataclass(eq=False)
class Setting:
    """The rows, the forest and the fresh forests of one simulation."""

    unit: Unit
    schema: rc.Schema
    rows: pd.DataFrame
    names: list[int]
    training: tuple[np.ndarray, np.ndarray]
    forest: rc.Forest
    fresh: rc.FreshForests
    truth: Forests
    seconds: dict[str, float]


def breast_cancer() -> tuple[pd.DataFrame, np.ndarray, rc.Schema]:
    """Return scikit-learn's breast-cancer data with a schema of continuous features."""
    data = load_breast_cancer(as_frame=True)
    frame = data.data.rename(columns=lambda name: str(name).replace(" ", "_"))
    return frame, np.asarray(data.target), rc.Schema.from_frame(frame)


def prepare(unit: Unit, trees: int, rows: int, truth: int, most_rows: int | None) -> Setting:
    """Train all forests of a simulation."""
    if unit.data in BREAST:
        frame, y, schema = breast_cancer()
        from robustcf.schema.encode import encode, read_rows

        X, depth = encode(schema, read_rows(schema, frame).numbers), BREAST[unit.data]
    else:
        data = load(unit.data)
        frame, y, schema, X, depth = data.X, data.y, data.schema, data.encoded, 4
    rng = np.random.default_rng(derive_seed(unit.simulation, "certified", unit.data))
    order = rng.permutation(len(y))
    held, used = np.sort(order[:rows]), np.sort(order[rows : None if most_rows is None else rows + most_rows])
    seconds = {}
    begin = time.process_time()
    seed = derive_seed(unit.simulation, "certified", unit.data, "forest")
    model = RandomForestClassifier(trees, max_depth=depth, random_state=seed).fit(X[used], y[used])
    forest = rc.Forest.from_sklearn(model)
    seconds["one forest"] = time.process_time() - begin
    begin = time.process_time()
    fresh = rc.train_fresh(forest, X[used], y[used], rc.Certified(0.05).design, seed=seed)
    seconds["fresh forests"] = time.process_time() - begin
    seeds = [derive_seed(unit.simulation, "certified", unit.data, "truth", k) for k in range(truth)]
    judges = Forests.of([retrain(forest, X[used], y[used], s) for s in seeds])
    chosen = frame.iloc[held]
    training = (X[used], y[used])
    return Setting(unit, schema, chosen, held.tolist(), training, forest, fresh, judges, seconds)


def true_validity(setting: Setting, point: np.ndarray, target: Any, voting: Any) -> float:
    """Return the share of random forests of fresh trees that accept a point; a tie counts as rejected."""
    values = setting.truth.values(point, target, voting)
    rng = np.random.default_rng(0)
    n, accepted = len(setting.forest), 0
    for _ in range(10):
        drawn = rng.integers(0, len(values), size=(GROUPS // 10, n))
        accepted += int((values[drawn].mean(axis=1) > 0.5).sum())
    return accepted / GROUPS


def methods() -> list[rc.Method]:
    found: list[rc.Method] = [rc.Naive()]
    for alpha in ALPHAS:
        found += [rc.DirectSAA(alpha), rc.RobustSAA(alpha, 0.05), rc.Certified(alpha, DELTA)]
    return found


def measured(setting: Setting, voting: Any, time_limit: float) -> Iterator[dict[str, Any]]:
    """Explain every row with every method alone, so that each has its own cost."""
    for method in methods():
        explainer = rc.Explainer(
            setting.forest, setting.schema, method, voting=voting, time_limit=time_limit,
            training=setting.training, fresh=(setting.fresh,), best_score=False,
        )  # fmt: skip
        explainer.explain_many(setting.rows.iloc[:1])  # compile
        for name, (_, row) in zip(setting.names, setting.rows.iterrows(), strict=True):
            begin = time.process_time()
            answer = explainer.explain(row)
            yield _record(setting, voting, method, name, answer, time.process_time() - begin)
    yield from _beta_rce(setting, voting, time_limit)


def _record(
    setting: Setting, voting: str, method: rc.Method, row: int, answer: rc.Counterfactual, seconds: float
) -> dict[str, Any]:
    given = answer.encoded is not None and answer.status in ("optimal", "feasible")
    held = math.nan
    if given and answer.encoded is not None:
        held = true_validity(setting, answer.encoded, answer.target, voting)
    found = answer.certificate
    return _key(setting, voting, row) | {
        "method": method.name,
        "alpha": method.alpha,
        "status": answer.status,
        "distance": answer.distance if given else None,
        "validity": held if given else None,
        "certified": None if found is None else found.certified,
        "agreeing": None if found is None else found.agreeing,
        "level": None if found is None else found.level,
        "pool_trees": None if found is None else found.pool_trees,
        "seconds": seconds,
    }


def _key(setting: Setting, voting: str, row: int) -> dict[str, Any]:
    return {"data": setting.unit.data, "simulation": setting.unit.simulation, "voting": voting, "row": row}


def _beta_rce(setting: Setting, voting: Any, time_limit: float) -> Iterator[dict[str, Any]]:
    """Apply BetaRCE's rule: the same retrained models judge every candidate, and the first pass wins.

    The candidates are our nearest points at rising levels. A candidate passes if the 0.95 credible lower
    bound of its validity, with a uniform prior, reaches 1 - α.
    """
    thresholds = rc.Explainer(setting.forest, setting.schema, rc.Naive(), voting=voting).setting.thresholds()
    pool, path = Pool(thresholds), rc.Certified(0.05).path(len(setting.forest))
    from robustcf.schema.encode import encode, read_rows

    numbers = read_rows(setting.schema, setting.rows, missing=setting.forest.accepts_missing).numbers
    encoded = encode(setting.schema, numbers)
    predicted = setting.forest.predict(encoded, voting)
    for i, name in enumerate(setting.names):
        target = setting.forest.classes[1 - predicted[i]]
        ladder = Ladder(
            pool, Customer(numbers[i], encoded[i], target), Tools(get_engine("auto"), Limits(time_limit))
        )
        for alpha in ALPHAS:
            given = None
            for level in path:
                point = ladder.encoded(ladder.at(level))
                if point is None:
                    break
                agreeing = int(setting.fresh.certification.agree(point, target, voting)[:JUDGES].sum())
                if betaincinv(1 + agreeing, 1 + JUDGES - agreeing, 0.05) >= 1 - alpha:
                    given = point, ladder.at(level).objective
                    break
            yield _key(setting, voting, name) | {
                "method": "beta-rce",
                "alpha": alpha,
                "status": "no point" if given is None else "given",
                "distance": None if given is None else given[1],
                "validity": None if given is None else true_validity(setting, given[0], target, voting),
                "certified": given is not None,
            }


def compared(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one line per data set, voting and α: what each method gives, and what it costs."""
    lines = []
    for (data, voting), group in frame.groupby(["data", "voting"]):
        for alpha in ALPHAS:
            part = group[group.alpha == alpha]
            lines.append({"data": data, "votes": voting, "alpha": alpha} | _compared(part, 1 - alpha))
    return pd.DataFrame(lines)


def _compared(part: pd.DataFrame, promise: float) -> dict[str, Any]:
    by = {str(name): group.set_index(["simulation", "row"]) for name, group in part.groupby("method")}
    direct, robust, ours, beta = (by[n] for n in ("direct-saa", "robust-saa", "certified", "beta-rce"))
    tested = ours[ours.certified.notna()]
    granted = tested[tested.certified.astype(bool)]

    def ratio(a: pd.DataFrame, b: pd.DataFrame) -> float:
        other = b.distance.reindex(a.index)
        both = a.distance.notna() & other.notna()
        return float(a.distance[both].sum() / other[both].sum())

    return {
        "rows": len(direct),
        "direct_validity": direct.validity.mean(),
        "direct_kept": (direct.validity.dropna() >= promise).mean(),
        "robust_validity": robust.validity.mean(),
        "robust_kept": (robust.validity.dropna() >= promise).mean(),
        "robust_to_direct": ratio(robust, direct),
        "tested": len(tested),
        "granted": len(granted),
        "false": int((granted.validity < promise).sum()),
        "certified_validity": granted.validity.mean(),
        "certified_to_direct": ratio(granted, direct),
        "certified_to_robust": ratio(granted, robust),
        "cost_to_direct": ours.seconds.sum() / direct.seconds.sum(),
        "pooled": (tested.pool_trees > tested.pool_trees.min()).mean(),
        "beta_rce_given": int(beta.validity.notna().sum()),
        "beta_rce_broken": (beta.validity.dropna() < promise).mean(),
    }


def false_certificates(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rate of false certificates per voting and α, with its interval over simulations."""
    tested = frame[(frame.method == "certified") & frame.certified.notna()]
    wrong = tested.certified.astype(bool) & (tested.validity < 1 - tested.alpha)
    lines = []
    for (voting, alpha), part in tested.assign(wrong=wrong).groupby(["voting", "alpha"]):
        groups = part.groupby(["data", "simulation"])["wrong"]
        low, high = cluster_bootstrap(groups.sum().tolist(), groups.count().tolist())
        line = {"votes": voting, "alpha": alpha, "tested": len(part), "false": int(part.wrong.sum())}
        lines.append(line | {"rate": part.wrong.mean(), "low": low, "high": high})
    return pd.DataFrame(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", nargs="*", default=[*PAPER_SETS, *BREAST], help="data sets")
    parser.add_argument("--simulations", type=int, default=40, help="simulations per data set")
    parser.add_argument("--rows", type=int, default=5, help="explained rows per simulation")
    parser.add_argument("--trees", type=int, default=100, help="trees per forest")
    parser.add_argument("--truth", type=int, default=300, help="further forests that decide the truth")
    parser.add_argument("--most-rows", type=int, default=None, help="most training rows; by default all")
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds per row and method")
    parser.add_argument("--out", type=Path, default=Path("certified"), help="folder for the results")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "certified.jsonl"
    done = {(r["data"], r["simulation"]) for r in read(given.out / "units.jsonl")}
    for simulation in range(given.simulations):
        for data in given.data:
            if (data, simulation) in done:
                continue
            setting = prepare(Unit(data, simulation), given.trees, given.rows, given.truth, given.most_rows)
            found = [r for voting in ("soft", "hard") for r in measured(setting, voting, given.time_limit)]
            with path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(r) + "\n" for r in found)
            with (given.out / "units.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps({"data": data, "simulation": simulation, **setting.seconds}) + "\n")
            print(f"{data} {simulation}: {len(found)} answers", flush=True)
    frame = pd.DataFrame(read(path))
    for name, table in (("compared", compared(frame)), ("false", false_certificates(frame))):
        table.to_csv(given.out / f"{name}.csv", index=False)
        print(table.round(3).to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
