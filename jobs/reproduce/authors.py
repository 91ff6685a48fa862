"""Run the experiments that use the authors' rows and seeds.

One small file per simulation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from robustcf.datasets import Dataset
from robustcf.reproduction.authors import in_their_columns, same_draw

from ..cluster.tasks import Tasks
from ..inputs.config import SweepConfig
from ..run.claim import claimed
from ..run.folder import RunFolder
from ..terminal.progress import stage


def missing_simulations(config: SweepConfig) -> list[int]:
    """Return the simulations whose file is missing."""
    return [s for s in range(config.sweep.simulations) if not file_of(Path(config.output), s).is_file()]


def file_of(folder: Path, simulation: int) -> Path:
    return folder / f"s{simulation:04d}.csv"


def run_authors(ray: Any, config: SweepConfig, planned: int, data: Dataset) -> int:
    """Run the missing simulations.

    `planned` is the authors' number, which decides their seeds.
    """
    with claimed(RunFolder(config.output)):
        return _run_missing(ray, config, planned, data)


def _run_missing(ray: Any, config: SweepConfig, planned: int, data: Dataset) -> int:
    folder, grid = Path(config.output), config.sweep
    folder.mkdir(parents=True, exist_ok=True)
    tasks = Tasks(ray, config.solver)
    shared = tasks.put(in_their_columns(data))
    left = missing_simulations(config)
    limit = config.solver.time_limit
    calls = ((shared, s, grid.trees[0], planned, grid.rows, limit) for s in left)
    errors = 0
    with stage(f"authors-{grid.trees[0]} {data.name}", len(left)) as progress:
        for call, rows in tasks.run(same_draw, calls, solves=True):
            part = file_of(folder, call[1]).with_suffix(".part")
            pd.DataFrame(rows).to_csv(part, index=False)
            part.rename(file_of(folder, call[1]))
            errors += sum(row["status"] == "error" for row in rows)
            progress.advance(1)
    return 1 if errors else 0
