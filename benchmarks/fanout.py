"""Simulate the schedule of the paper's sweep with 400 trees on clusters of several sizes.

The solver seconds are those of `docs/reproduction/results.parquet`, which has a quarter of the simulations:
each is used four times. The cut is that of `robustcf sweep`. The extra time of bundles that are solved apart
is not simulated. Run it with `python -m robustcf_benchmarks.fanout`.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from robustcf_jobs.sweep.cut import Cut, Part
from robustcf_jobs.sweep.unit import MOST_TOGETHER

RESULTS = Path(__file__).parents[1] / "docs/reproduction/results.parquet"
COPIES = 4
CORES = (8, 64, 128, 512)
OVERHEAD = 0.1  # seconds of a task outside the solver


def solver_seconds(path: Path = RESULTS) -> dict[tuple[str, int, int], np.ndarray]:
    """Return the seconds of each simulation as an array of rows × bundles."""
    found = pd.read_parquet(path).query("experiment == 'saa-400'")
    units: dict[tuple[str, int, int], np.ndarray] = {}
    for _, own in found.groupby(["dataset", "simulation"]):
        dataset, simulation = str(own["dataset"].iloc[0]), int(own["simulation"].iloc[0])
        rows = [row["seconds"].to_numpy() for _, row in own.groupby("instance_id")]
        parts = -(-len(rows[0]) // MOST_TOGETHER)
        seconds = np.array([[part.sum() for part in np.array_split(row, parts)] for row in rows])
        for copy in range(COPIES):
            units[dataset, simulation, copy] = seconds
    return units


def simulate(units: dict[Any, np.ndarray], cores: int) -> float:
    """Return the seconds until the last part ends, if every free core takes the next part of the cut."""
    rows, bundles = next(iter(units.values())).shape
    cut = Cut({unit: unit[0] for unit in units}, rows, bundles, lambda: cores)
    now = 0.0
    pending: deque[Part] = deque()
    running: list[tuple[float, int, Part]] = []
    for number in count():
        while len(pending) + len(running) < 2 * cores and (part := next(cut, None)) is not None:
            pending.append(part)
        while pending and len(running) < cores:
            part = pending.popleft()
            seconds = float(units[part.unit][np.ix_(part.rows, part.bundles)].sum())
            heapq.heappush(running, (now + OVERHEAD + seconds, number * cores + len(running), part))
        if not running:
            break
        now, _, ended = heapq.heappop(running)
        cut.ended(ended, units[ended.unit][np.ix_(ended.rows, ended.bundles)].sum(axis=0).tolist())
    return now


def main() -> None:
    units = solver_seconds()
    total = sum(float(seconds.sum()) for seconds in units.values())
    print("cores     ideal  simulated  ratio")
    for cores in CORES:
        found = simulate(units, cores)
        print(f"{cores:5d} {total / cores:9.0f} {found:10.0f} {found * cores / total:6.2f}")


if __name__ == "__main__":
    main()
