"""Sources of a run's input rows, and the comparison of these rows with the run's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from robustcf.datasets import DatasetError, load, read_typed_csv
from robustcf.schema.encode import read_rows
from robustcf.schema.schema import Schema
from robustcf.verify import Findings
from robustcf.verify.findings import short
from robustcf.verify.reading import encode_rows
from robustcf.verify.rows import Checked

from .hashing import derived_seed
from .retrain import AllRows


class Source(Protocol):
    """Collects a run's rows by shard and compares them with the input at the end."""

    def add(
        self,
        dataset: str,
        simulation: int,
        frame: pd.DataFrame,
        cohorts: Mapping[str, np.ndarray],
        checked: Checked,
    ) -> None: ...

    def add_keys(self, keys: pa.Table) -> None: ...

    def finish(self) -> list[str]: ...

    def rows_of(self, dataset: str, ids: Sequence[str]) -> np.ndarray:
        """Return the customers' own rows as numbers; NaN where a row is not available."""
        ...


class NoSource:
    """Stands in for an input that cannot be compared; `why` gives the reason."""

    def __init__(self, why: str, features: int = 0) -> None:
        self.why, self.features = why, features

    def add(self, *_: Any) -> None:
        pass

    def add_keys(self, keys: pa.Table) -> None:
        pass

    def finish(self) -> list[str]:
        return [self.why]

    def rows_of(self, dataset: str, ids: Sequence[str]) -> np.ndarray:
        return np.full((len(ids), self.features), np.nan)


class DataSets:
    """A sweep's data sets; checks the explained rows and their content.

    If the auditor named them (`trusted`), a different content is a finding.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        hashes: Mapping[str, str],
        seed: int,
        findings: Findings,
        trusted: bool = False,
    ) -> None:
        self.seed, self.grid, self.findings = seed, config["sweep"], findings
        self.notes: list[str] = []
        self.data: dict[str, tuple[Schema, np.ndarray, np.ndarray]] = {}
        self.numbers: dict[str, np.ndarray] = {}
        for name in self.grid["datasets"]:
            try:
                data = read_typed_csv(name) if _is_file(name) else load(name)
            except (DatasetError, OSError) as error:
                self.notes.append(f"the rows of data set {short(name)}: {short(str(error))}")
                continue
            read = read_rows(data.schema, data.X).numbers
            encoded = encode_rows(data.schema.features, read)
            content = hashlib.sha256(encoded.tobytes() + data.y.tobytes()).hexdigest()
            both = hashlib.sha256(json.dumps([data.schema.fingerprint, content], sort_keys=True).encode())
            if hashes.get(data.name) == both.hexdigest():
                self.data[data.name] = data.schema, encoded, np.asarray(data.y)
                self.numbers[data.name] = read
            elif trusted:
                findings.add(
                    "auditor", f"data set {short(data.name)}: differs from the auditor's (data_hash)"
                )
            else:
                self.notes.append(f"the rows of data set {short(data.name)}: the data set differs here")

    def chosen(self, dataset: str, simulation: int) -> np.ndarray:
        """Return the held-out rows that a simulation explains."""
        rng = np.random.default_rng(derived_seed(self.seed, "rows", dataset, simulation))
        return np.sort(rng.choice(len(self.data[dataset][1]), self.grid["rows"], replace=False))

    def training(self, dataset: str, simulation: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the encoded training rows and labels of a simulation's first forest."""
        rows = self.all_rows(dataset, simulation)
        return None if rows is None else (rows.X[rows.first], rows.y[rows.first])

    def all_rows(self, dataset: str, simulation: int) -> AllRows | None:
        """Return all rows that a simulation trains on, and those of its first forest."""
        if dataset not in self.data:
            return None
        _, encoded, labels = self.data[dataset]
        others = np.setdiff1d(np.arange(len(encoded)), self.chosen(dataset, simulation))
        size = min(len(others), max(1, round(self.grid["first_share"] * len(others))))
        rng = np.random.default_rng(derived_seed(self.seed, "first", dataset, simulation))
        return AllRows(encoded[others], labels[others], np.sort(rng.choice(len(others), size, replace=False)))

    def add(
        self,
        dataset: str,
        simulation: int,
        frame: pd.DataFrame,
        cohorts: Mapping[str, np.ndarray],
        checked: Checked,
    ) -> None:
        if dataset not in self.data:
            return
        encoded = self.data[dataset][1]
        ids = sorted(frame["instance_id"].astype(str).unique(), key=lambda i: (len(i), i))
        where = f"{dataset}, simulation {simulation}"
        chosen = [str(i) for i in self.chosen(dataset, simulation)]
        if not self.findings.expect("data", f"{where}: rows explained", ids, chosen):
            return
        own = frame["instance_id"].iloc[checked.instance].astype(str).astype(np.int64).to_numpy()
        rows = encoded[own]
        moved = ~((rows == checked.origin) | (np.isnan(rows) & np.isnan(checked.origin))).all(axis=1)
        self.findings.where(
            "data",
            moved,
            lambda k: f"{where}: row {own[k]}: the changes do not start from the data set's row",
        )

    def add_keys(self, keys: pa.Table) -> None:
        pass

    def finish(self) -> list[str]:
        return self.notes

    def rows_of(self, dataset: str, ids: Sequence[str]) -> np.ndarray:
        if dataset not in self.numbers:
            return np.full((len(ids), 0), np.nan)
        numbers = self.numbers[dataset]
        at = [int(i) if i.isdigit() and int(i) < len(numbers) else -1 for i in ids]
        return np.where(np.array(at)[:, None] >= 0, numbers[at], np.nan)


def _is_file(name: str) -> bool:
    return name.lower().endswith(".csv") or Path(name).is_file()
