"""Rows of the `counterfactuals` table, with their points and question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from robustcf.schema.schema import Schema
from robustcf.verify.certificates import Terms
from robustcf.verify.demands import Demand
from robustcf.verify.findings import Findings, short
from robustcf.verify.moves import Changes
from robustcf.verify.plausible import Plausible
from robustcf.verify.trees import Trees


@dataclass(frozen=True)
class ShardQuestion:
    """The question that every row of a shard answers.

    `target` None means the other class. `terms` has what each certified method demands, by its index.
    """

    schema: Schema
    trees: Trees
    demands: Sequence[Demand]
    voting: str
    target: str | None
    constants: dict[str, object]
    time_limit: float | None = None
    plausible: Plausible | None = None
    terms: Mapping[int, Terms] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """Some rows of one file.

    `frame` has the flat columns; points and changes belong to the rows `at`. `certificates` has the columns
    of the certificates, and in "row" the rows that they belong to.
    """

    file: str
    frame: pd.DataFrame
    at: np.ndarray
    points: np.ndarray
    changes: Changes
    certificates: Mapping[str, np.ndarray] | None = None


class Sheet:
    """A block and its question, with helpers that add findings."""

    def __init__(self, block: Block, asked: ShardQuestion, findings: Findings) -> None:
        self.block, self.asked, self.findings = block, asked, findings
        frame = block.frame
        self.frame, self.n = frame, len(frame)
        self.status = frame["status"].to_numpy(dtype=object)
        self.has = np.zeros(self.n, dtype=bool)
        self.has[block.at] = True
        self.method = method_of(frame, asked.demands)
        names = frame["target"].to_numpy(dtype=object)
        position = {name: asked.trees.position(str(name)) for name in pd.unique(names)}
        self.target = np.array([position[name] for name in names], dtype=np.int64)
        self.rounding = asked.trees.rounding

    def name(self, i: int) -> str:
        m = self.method[i]
        label = str(self.asked.demands[m]) if m >= 0 else short(self.frame["method"].iloc[i])
        return f"{self.block.file}: {short(self.frame['instance_id'].iloc[i])}, {label}"

    def note(self, kind: str, wrong: np.ndarray, what: str) -> None:
        self.findings.where(kind, wrong, lambda i: f"{self.name(i)}: {what}")

    def compare(
        self, column: str, where: np.ndarray, wanted: np.ndarray, within: float, kind: str | None = None
    ) -> None:
        """Add a finding where a stored number differs from the recomputed one."""
        stored = self.number(column)
        with np.errstate(invalid="ignore"):
            wrong = where & ~(np.abs(stored - wanted) <= within)
        self.findings.where(
            kind or column,
            wrong,
            lambda i: f"{self.name(i)}: {column}: stored {short(stored[i])}, recomputed {short(wanted[i])}",
        )

    def number(self, column: str) -> np.ndarray:
        return self.frame[column].to_numpy(dtype=np.float64, na_value=np.nan)


def method_of(frame: pd.DataFrame, demands: Sequence[Demand]) -> np.ndarray:
    """Return the index of each row's method in `demands`; -1 for an unknown method."""
    found = np.full(len(frame), -1)
    name = frame["method"].to_numpy(dtype=object)
    columns = [frame[c].to_numpy(dtype=np.float64, na_value=np.nan) for c in ("alpha", "beta", "parameter")]
    for d, demand in enumerate(demands):
        mine = name == demand.name
        for column, value in zip(columns, demand.key[1:], strict=True):
            mine = mine & (np.isnan(column) if value is None else column == value)
        found[mine] = d
    return found
