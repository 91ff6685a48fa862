"""Write the tables, figures and page of `robustcf reproduce`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from robustcf.datasets import Dataset, describe, load
from robustcf.guarantee import guarantee_of
from robustcf.insight import importance_beside_change, permutation_importance
from robustcf.reproduction import figures, tables
from robustcf.reproduction.material import Material
from robustcf.reproduction.page import page
from robustcf.reproduction.paper import paper
from robustcf.reproduction.paths import feature_values, most_telling, signed_changes
from robustcf.schema import encode

from ..run.folder import RunFolder, require_run
from ..run.forests import stored_forest
from ..sweep.unit import Unit
from .experiments import ORDER, experiment
from .results import ALL, COLUMNS, FILE, Results, write_results

CLOCK = "wall.jsonl"
IMPORTANCE_ROWS = 4000
PATHS = ("german-credit", "adult", "credit-card-default")  # Figures 2, 7 and 8
IMPORTANCES = ("compas", "phishing", "students-performance", "german-credit")  # Figures 11 and 12
STUMP_ALPHA = 0.05


def write_page(output: Path, earlier: Results | None = None) -> Path:
    """Read every run below `output`; write `reproduction.md`, tables and figures.

    The results of an `earlier` reproduction are included.
    """
    found = (earlier or Results()).before(Results(read_rows(output), _seconds(output)))
    rows = found.rows
    material = Material(
        rows=rows,
        summary=tables.validity_table(rows),
        datasets=_dataset_table(rows),
        sources={name: (experiment(name).title, experiment(name).source) for name in ORDER},
        planned={name: experiment(name).simulations for name in ORDER},
        seconds=found.seconds,
        paper=paper(),
        guarantees=_guarantees(output, rows[rows["experiment"] == "stumps"]),
    )
    drawn = dict(_figures(output, material))
    (output / "figures").mkdir(parents=True, exist_ok=True)
    for name, figure in drawn.items():
        figure.savefig(output / "figures" / f"{name}.png", dpi=90)
    for name, table in material.tables.items():
        table.to_csv(output / f"{name}.csv", index=False)
    write_results(found, output / FILE)
    path = output / "reproduction.md"
    path.write_text(page(material, list(drawn)), encoding="utf-8")
    return path


def read_rows(output: Path) -> pd.DataFrame:
    """Return the rows of all validated shards of all runs."""
    parts = []
    for name in ORDER:
        for shard in sorted((output / "runs" / name).glob("*/counterfactuals/*.parquet")):
            other = shard.parents[1] / "validation" / shard.name
            if other.is_file():
                parts.append(_shard(name, shard, other))
        for file in sorted((output / "runs" / name).glob("*/s[0-9]*.csv")):  # the authors' draw
            drawn = pd.read_csv(file, dtype={"instance_id": str, "reason": str})
            drawn.insert(0, "experiment", name)
            parts.append(drawn)
    if not parts:
        return pd.DataFrame(columns=ALL)
    return pd.concat(parts, ignore_index=True)


def _shard(name: str, shard: Path, validation: Path) -> pd.DataFrame:
    rows: pd.DataFrame = pq.read_table(shard, columns=COLUMNS).to_pandas()
    lists = pq.read_table(validation, columns=["instance_id", "valid"]).to_pandas()
    pointed = rows["distance"].notna().to_numpy()
    if rows.loc[pointed, "instance_id"].tolist() != lists["instance_id"].tolist():
        raise ValueError(f"{validation} does not belong to {shard}")
    rows["valid"] = np.nan
    rows.loc[pointed, "valid"] = [float(np.mean(v)) for v in lists["valid"]]
    rows["forests"] = len(lists["valid"].iloc[0]) if len(lists) else 0
    rows[["alpha", "beta", "parameter"]] = rows[["alpha", "beta", "parameter"]].astype(float)
    rows.insert(0, "experiment", name)
    return rows


def _seconds(output: Path) -> dict[tuple[str, str], float]:
    """Return the wall time per (experiment, data set), summed over all resumed runs."""
    total: dict[tuple[str, str], float] = {}
    path = output / CLOCK
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        record = json.loads(line)
        key = (record["experiment"], record["dataset"])
        total[key] = total.get(key, 0.0) + record["seconds"]
    return total


def _dataset_table(rows: pd.DataFrame) -> pd.DataFrame:
    lines = []
    for name in figures.in_order(rows["dataset"]):
        found = describe(name)
        kinds = [found.kinds[k] for k in ("binary", "categorical", "discrete", "continuous")]
        lines.append([name, found.rows, found.features, *kinds, found.genuine])
    columns = ["dataset", "n", "d", "binary", "categorical", "discrete", "continuous", "genuine"]
    return pd.DataFrame(lines, columns=columns)


def _guarantees(output: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Return Prop. 5's guarantee for every row explained with stumps, per data set."""
    lines = []
    for name in figures.in_order(rows["dataset"]):
        data, run = load(name), RunFolder(str((output / "runs/stumps" / name).absolute()))
        own = rows[rows["dataset"] == name].drop_duplicates(["simulation", "instance_id"])
        found = []
        for _, part in own.groupby(["simulation", "n_trees"]):
            unit = Unit(name, int(part["simulation"].iloc[0]), int(part["n_trees"].iloc[0]))
            forest = stored_forest(run, unit.forest)
            chosen = data.X.iloc[part["instance_id"].astype(int).to_numpy()]
            numbers = encode.read_rows(data.schema, chosen).numbers
            found += [guarantee_of(forest, data.schema, row, STUMP_ALPHA) for row in numbers if forest]
        if not found:  # rows of an earlier reproduction, whose forests are not stored here
            continue
        lines.append(
            {
                "dataset": name,
                "rows": len(found),
                "guaranteed": sum(g.verdict == "guaranteed" for g in found),
                "vacuous": sum(g.verdict == "vacuous" for g in found),
                "trees": float(np.median([g.trees_needed for g in found])),
                "trees_p_star": float(np.median([g.trees_needed_p_star for g in found])),
            }
        )
    return pd.DataFrame(lines)


def _figures(output: Path, material: Material) -> Iterator[tuple[str, Figure]]:
    rows, summary = material.rows, material.summary
    yield "thresholds", figures.thresholds()
    by_name = {name: summary[summary["experiment"] == name] for name in summary["experiment"].unique()}
    if len(material.beside):
        yield "naive", figures.beside(material.beside)
    for name, naive in (("saa-100", "naive-100"), ("saa-400", "naive-400"), ("evolving", None)):
        if name in by_name:
            line = by_name.get(naive) if naive else None
            yield f"validity-{name}", figures.validity(by_name[name], line)
    if len(material.identical):
        yield "pareto", figures.pareto(material.identical)
    if "saa-100" in by_name:
        yield "features-changed", figures.changed(by_name["saa-100"])
    timed = rows[rows["experiment"].isin(["naive-100", "saa-100", "isolation", "lof", "robx"])]
    if len(timed):
        yield "times", figures.times(timed)
    if "saa-100" in by_name:
        yield from _explained(output, rows[rows["experiment"] == "saa-100"])
    if "hard" in by_name and "saa-100" in by_name:
        yield "hard-and-soft", figures.two_votings(by_name["saa-100"], by_name["hard"])
    if len(material.predicted):
        yield "predicted", figures.predicted(material.predicted)


def _explained(output: Path, rows: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
    """Yield trajectories and importance figures.

    Both need the run folder for the points.
    """
    there = {name for name in set(rows["dataset"]) if (output / "runs/saa-100" / name).is_dir()}
    others = tuple(there - set(material_sets()))
    beside = {}
    for name in (*PATHS, *IMPORTANCES, *others):
        if name not in there or (name in PATHS and name in beside):
            continue
        data = load(name)
        X = data.encoded
        own = rows[rows["dataset"] == name]
        points = _points(output / "runs/saa-100" / name)
        if name in (*PATHS, *others) and (found := most_telling(own)) is not None:
            yield f"trajectory-{name}", _trajectory(data, X, points, found)
        if name in (*IMPORTANCES, *others):
            beside[name] = importance_beside_change(
                _importance(output, data, X), _average_change(data, X, points)
            )
    if beside:
        ordered = {name: beside[name] for name in (*IMPORTANCES, *others) if name in beside}
        yield "importance", figures.importance(ordered)


def material_sets() -> tuple[str, ...]:
    return tuple(paper().datasets)


def _points(run: Path) -> pd.DataFrame:
    columns = ["simulation", "instance_id", "method", "alpha", "status", "point"]
    files = sorted((run / "counterfactuals").glob("*.parquet"))
    frame: pd.DataFrame = pd.concat([pq.read_table(f, columns=columns).to_pandas() for f in files])
    return frame[(frame["method"] == "direct-saa") & frame["point"].notna()]


def _trajectory(data: Dataset, X: np.ndarray, points: pd.DataFrame, found: tuple[int, str]) -> Figure:
    simulation, instance = found
    own = points[(points["simulation"] == simulation) & (points["instance_id"] == instance)]
    own = own.sort_values("alpha", ascending=False)
    before = X[[int(instance)]]
    moved = signed_changes(data.schema, np.repeat(before, len(own), axis=0), np.stack(own["point"].tolist()))
    moved.index = pd.Index(1 - own["alpha"].to_numpy())
    title = f"{data.name}, row {instance}: changes at rising targets"
    return figures.trajectory(feature_values(data.schema, before).iloc[0], moved, title)


def _average_change(data: Dataset, X: np.ndarray, points: pd.DataFrame) -> pd.Series:
    """Return the mean absolute change per feature at 1 - α = 0.5, as in the paper."""
    own = points[points["alpha"] == points["alpha"].max()]
    before = X[own["instance_id"].astype(int).to_numpy()]
    return signed_changes(data.schema, before, np.stack(own["point"].tolist())).abs().mean()


def _importance(output: Path, data: Dataset, X: np.ndarray) -> pd.Series:
    """Return the importances of the first simulation's forest; a file caches them."""
    path = output / "importance" / f"{data.name}.csv"
    if not path.is_file():
        run, manifest = require_run(str((output / "runs/saa-100" / data.name).absolute()))
        size = manifest["config"]["sweep"]["trees"][0]
        forest = stored_forest(run, Unit(data.name, 0, size).forest)
        if forest is None:
            raise ValueError(f"{run.shown} has no forest of the first simulation")
        chosen = np.random.default_rng(0).permutation(len(X))[:IMPORTANCE_ROWS]
        found = permutation_importance(forest, data.schema, X[chosen], data.y[chosen])
        path.parent.mkdir(parents=True, exist_ok=True)
        found.to_csv(path, index_label="feature")
    return pd.read_csv(path, index_col="feature")["importance"]
