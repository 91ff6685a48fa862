"""Measure how the time grows with trees, depth, features and customers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

import robustcf as rc
from robustcf.solve import Limits

from . import plots
from .agree import disagreements
from .cases import SYNTHETIC, Case, World, data_sets, realise
from .contenders import PROVED, solve, warm_up
from .names import OURS
from .options import Options
from .store import read

TREES = (50, 100, 200, 400, 800)
DEPTHS = (3, 4, 5, 6, 7, 8)
FEATURES = (5, 10, 20, 30, 40, 57)
CUSTOMERS = (1, 4, 16, 64, 256)
METHOD = "0.05"
SETS = ("adult", "german-credit", "spambase")  # easy, middling, hard
WIDE = ("spambase", "onlinenewspopularity")


def run(options: Options, console: Console) -> None:
    """Make the measurements that are missing in `growth.jsonl`."""
    path = options.out / "growth.jsonl"
    done = {(r["axis"], r["data"], r["size"], r["contender"]) for r in read(path)}
    contenders = [n for n in (OURS, "highs-reduced") if n in options.contenders]
    for axis, size, case in plan(options.data or data_sets(), quick=options.quick):
        wanted = [OURS] if axis == "customers" else contenders
        if all((axis, case.data, size, name) in done for name in wanted):
            continue
        console.print(f"growth: {axis} = {size} on {case.data}")
        world = realise(case)
        if axis == "customers":
            lines = [_throughput(world, size, options.limit)]
        else:
            lines = list(_times(world, wanted, 1 if options.quick else 3, options.limit))
        with path.open("a", encoding="utf-8") as file:
            key = {"axis": axis, "size": size, **case.key, "method": f"{METHOD}, {axis} = {size}"}
            file.writelines(json.dumps(key | line) + "\n" for line in lines)


def conclude(folder: Path) -> list[str]:
    """Write the table and plots of a folder's growth curves; return contradictions."""
    frame = pd.DataFrame(read(folder / "growth.jsonl"))
    if frame.empty:
        return []
    frame.dropna(axis=1, how="all").to_csv(folder / "growth.csv", index=False)
    for axis, part in frame.groupby("axis", sort=False):
        plots.growth(part, str(axis), folder / f"growth-{axis}.png")
    return disagreements(frame[frame.axis != "customers"])[0]


def plan(data: Sequence[str], *, quick: bool) -> Iterator[tuple[str, int, Case]]:
    """Yield (axis, size, case), small sizes first."""
    sets = [d for d in SETS if d in data] or data[:1]
    wide = [d for d in WIDE if d in data] or data[:1]
    cut = 2 if quick else None
    for size in TREES[:cut]:
        yield from (("trees", size, Case(d, trees=size)) for d in sets)
    for size in DEPTHS[:cut]:
        yield from (("depth", size, Case(d, depth=size)) for d in sets)
    for size in FEATURES[:cut]:
        for d in wide:
            if size <= len(rc.datasets.load(d).schema):
                yield "features", size, Case(d, features=size)
    for size in CUSTOMERS[:cut]:
        yield from (("customers", size, Case(d)) for d in sets if d != SYNTHETIC or d == data[0])


def _times(world: World, names: list[str], rows: int, limit: float) -> Iterator[dict[str, Any]]:
    warm_up(world, names)
    for turn, customer in enumerate(world.customers(rows)):
        for name in names[turn % 2 :] + names[: turn % 2]:
            answer = solve(name, world, customer, METHOD, Limits(limit))
            yield {"contender": name, "row": customer.row} | answer.record()


def _throughput(world: World, count: int, limit: float) -> dict[str, Any]:
    """Time `explain_many` as a user calls it, with the compilation of the forest."""
    method = rc.DirectSAA(alpha=float(METHOD))
    begin = time.perf_counter()
    explainer = rc.Explainer(world.forest, world.data.schema, method, time_limit=limit, best_score=False)
    rows = world.data.X.iloc[[c.row for c in world.customers(count)]]
    answers = explainer.explain_many(rows)
    seconds = time.perf_counter() - begin
    proved = sum(a.status in PROVED for a in answers)
    return {
        "contender": OURS,
        "seconds": seconds,
        "rows_per_second": len(rows) / seconds,
        "status": f"{proved} of {len(rows)} proved",
    }
