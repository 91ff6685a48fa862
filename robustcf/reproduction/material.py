"""The rows of all runs and the tables computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from robustcf.reproduction import dominance, tables, targets
from robustcf.reproduction.paper import Paper

PARETO = ("naive-100", "saa-100", "isolation", "lof", "robx")


@dataclass(frozen=True)
class Material:
    """The data of the page and the figures.

    Per experiment, `sources` has its title and its place in the paper, `planned` the paper's number of
    simulations.
    """

    rows: pd.DataFrame
    summary: pd.DataFrame
    datasets: pd.DataFrame
    sources: Mapping[str, tuple[str, str]]
    planned: Mapping[str, int]
    seconds: Mapping[tuple[str, str], float]
    paper: Paper
    guarantees: pd.DataFrame = field(default_factory=pd.DataFrame)

    @cached_property
    def beside(self) -> pd.DataFrame:
        return tables.beside_the_paper(self.rows, self.paper)

    @cached_property
    def their_draw(self) -> pd.DataFrame:
        return tables.on_their_draw(self.rows, self.paper)

    @cached_property
    def targets(self) -> pd.DataFrame:
        return self._per_experiment(targets.targets)

    @cached_property
    def together(self) -> pd.DataFrame:
        return self._per_experiment(targets.together)

    def _per_experiment(self, made: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
        experiments = [*(claim.experiment for claim in self.paper.targets), "retrain-20", "hard"]
        found = [made(self.rows[self.rows["experiment"] == name]) for name in experiments]
        return pd.concat([t for t in found if len(t)] or [pd.DataFrame()])

    @cached_property
    def compared(self) -> pd.DataFrame:
        """Rows of the Pareto figure: data sets with both robust methods and a benchmark."""
        own = self.rows[self.rows["experiment"].isin(PARETO)]
        robust = set(own.loc[own["method"].isin(tables.ROBUST), "dataset"])
        others = set(own.loc[~own["method"].isin(tables.ROBUST), "dataset"])
        return own[own["dataset"].isin(robust & others)]

    @cached_property
    def identical(self) -> pd.DataFrame:
        kept = dominance.on_identical_rows(self.compared)
        return tables.validity_table(kept) if len(kept) else kept

    @cached_property
    def dominance(self) -> pd.DataFrame:
        return dominance.dominance(self.compared)

    @cached_property
    def unproved(self) -> pd.DataFrame:
        return tables.unproved(self.rows)

    @cached_property
    def predicted(self) -> pd.DataFrame:
        own = self.rows[self.rows["experiment"] == "retrain-20"]
        return tables.predicted_and_measured(own) if len(own) else own

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        return {
            "summary": self.summary,
            "beside": self.beside,
            "their-draw": self.their_draw,
            "targets": self.targets,
            "targets-together": self.together,
            "dominance": self.dominance,
            "unproved": self.unproved,
        }
