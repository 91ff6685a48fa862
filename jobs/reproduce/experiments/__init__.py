"""The paper's experiments and those beyond it, one TOML file each: a sweep, and where it is printed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from robustcf.datasets.registry import PAPER_SETS

from ...inputs.config import SweepConfig, check_config, parse
from ...inputs.errors import BadInput

ORDER = (
    "naive-100", "naive-400", "authors-100", "authors-400", "saa-100", "isolation", "lof", "robx", "saa-400",
    "evolving", "hard", "retrain-20", "stumps",
)  # fmt: skip
TRIAL_LIMIT = 0.25  # seconds


@dataclass(frozen=True)
class Experiment:
    """One experiment; `own` holds tables that replace the sweep's on single data sets.

    `draw` "authors" means the rows and seeds of the authors' script instead of the sweep's.
    """

    name: str
    title: str
    source: str
    tables: Mapping[str, Any]
    own: Mapping[str, Mapping[str, Any]]
    draw: str = "own"

    @property
    def simulations(self) -> int:
        """As many as the paper's."""
        return int(self.tables["sweep"]["simulations"])

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(self.tables["sweep"]["datasets"])

    def chosen(self, datasets: Sequence[str]) -> tuple[str, ...]:
        """The experiment's data sets among those asked for; a set that is not the paper's always counts."""
        if not datasets:
            return self.datasets
        return tuple(d for d in datasets if d in self.datasets or d not in PAPER_SETS)

    def config(self, dataset: str, fraction: float, output: str, time_limit: float) -> SweepConfig:
        """The sweep of one data set.

        Simulations shrink with the fraction. Where less than one would be left, one row of one is
        explained for a quarter of a second, and twenty retrained forests become two: a trial of the whole.
        """
        tables = dict(self.tables) | dict(self.own.get(dataset, {}))
        sweep = dict(tables["sweep"])
        validation = dict(tables["validation"])
        wanted = fraction * sweep["simulations"]
        sweep |= {"datasets": [dataset], "simulations": max(1, round(wanted))}
        if wanted < 1:
            sweep["rows"], validation["forests"] = 1, min(2, validation["forests"])
            time_limit = min(time_limit, TRIAL_LIMIT)
        tables |= {
            "sweep": sweep,
            "validation": validation,
            "output": output,
            "solver": {"time_limit": time_limit},
        }
        config = parse(SweepConfig, tables, f"experiment {self.name}")
        check_config(config, f"experiment {self.name}")
        return config


def experiment(name: str) -> Experiment:
    """The experiment of that name; an unknown one is bad input."""
    if name not in ORDER:
        raise BadInput(f"no experiment {name!r}; choose among {', '.join(ORDER)}")
    tables = tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))
    title, source, own = tables.pop("title"), tables.pop("source"), tables.pop("for", {})
    return Experiment(name, title, source, tables, own, tables.pop("draw", "own"))
