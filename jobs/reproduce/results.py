"""The rows of a reproduction in one small file.

They are enough for every table and to resume elsewhere.

`robustcf reproduce` writes `results.parquet` next to its page. Another call reads it with `--results`:
it includes these rows in its page and does not run them again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from robustcf.support.documents import parse_json

from ..inputs.config import SweepConfig
from ..inputs.errors import BadInput
from ..inputs.method_tables import methods_of
from ..run.folder import BROKEN

FILE = "results.parquet"
NOTE = b"robustcf"
COLUMNS = [
    "dataset", "simulation", "instance_id", "method", "alpha", "beta", "parameter", "voting", "n_trees",
    "status", "reason", "distance", "gap", "n_changed", "seconds", "predicted_validity",
]  # fmt: skip
ALL = ["experiment", *COLUMNS, "valid", "forests"]
UNIT = ["experiment", "dataset", "simulation"]

Seconds = Mapping[tuple[str, str], float]  # wall time per (experiment, data set)


@dataclass(frozen=True)
class Results:
    """Rows of finished simulations and their wall time."""

    rows: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=ALL))
    seconds: Seconds = field(default_factory=dict)

    def covers(self, experiment: str, dataset: str, config: SweepConfig) -> bool:
        """Whether the results hold every requested simulation completely."""
        own = self.rows[(self.rows["experiment"] == experiment) & (self.rows["dataset"] == dataset)]
        sizes = own.groupby("simulation").size()
        whole = config.sweep.rows * len(methods_of(config))
        wanted = sizes.reindex(range(config.sweep.simulations), fill_value=0)
        return bool((wanted == whole).all())

    def before(self, newer: Results) -> Results:
        """Return the newer results plus the simulations that only these results hold."""
        if self.rows.empty or newer.rows.empty:
            return newer if self.rows.empty else self
        again = pd.MultiIndex.from_frame(self.rows[UNIT]).isin(pd.MultiIndex.from_frame(newer.rows[UNIT]))
        seconds = dict(self.seconds)
        for key, value in newer.seconds.items():
            seconds[key] = seconds.get(key, 0.0) + value
        return Results(pd.concat([self.rows[~again], newer.rows], ignore_index=True), seconds)


def write_results(results: Results, path: Path) -> None:
    """Write the results file."""
    seconds = [[*key, value] for key, value in results.seconds.items()]
    write_noted(results.rows, {"seconds": seconds}, path)


def write_noted(rows: pd.DataFrame, note: Mapping[str, Any], path: Path) -> None:
    """Write rows with a note in their file's metadata.

    An interrupted write leaves no partial file under its name.
    """
    table = pa.Table.from_pandas(rows, preserve_index=False)
    table = table.replace_schema_metadata({NOTE: json.dumps(note).encode()})
    part = path.with_suffix(".part")
    pq.write_table(table, part, compression="zstd", compression_level=19)
    part.rename(path)


def read_noted(path: Path) -> tuple[pd.DataFrame, Any]:
    """Return the rows and the note of a file of `write_noted`."""
    table = pq.read_table(path)
    return table.to_pandas(), parse_json((table.schema.metadata or {})[NOTE])


def read_results(path: Path) -> Results:
    """Read a file of `write_results`; raise `BadInput` for any other file."""
    try:
        rows, note = read_noted(path)
        seconds = {(str(name), str(dataset)): float(value) for name, dataset, value in note["seconds"]}
    except (*BROKEN, KeyError, TypeError) as error:
        raise BadInput(f"--results {path}: not the results of a reproduction: {error}") from None
    if missing := [name for name in ALL if name not in rows]:
        raise BadInput(f"--results {path}: column {missing[0]!r} is missing")
    return Results(rows, seconds)
