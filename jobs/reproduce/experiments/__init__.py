"""The experiments of the paper and beyond, one TOML file each."""

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
BY_NAME = ("certified", "certified-evolving")  # run only if asked for by name, see `reproduce/certified.py`
TRIAL_LIMIT = 0.25  # seconds


@dataclass(frozen=True)
class Experiment:
    """One experiment; `own` maps a data set to tables that replace the experiment's.

    With `draw` "authors", rows and seeds come from the authors' script and not from the sweep.
    """

    name: str
    title: str
    source: str
    tables: Mapping[str, Any]
    own: Mapping[str, Mapping[str, Any]]
    draw: str = "own"

    @property
    def simulations(self) -> int:
        """The number of simulations in the paper."""
        return int(self.tables["sweep"]["simulations"])

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(self.tables["sweep"]["datasets"])

    def chosen(self, datasets: Sequence[str]) -> tuple[str, ...]:
        """Return the requested data sets of the experiment, and those not in the paper."""
        if not datasets:
            return self.datasets
        return tuple(d for d in datasets if d in self.datasets or d not in PAPER_SETS)

    def config(self, dataset: str, fraction: float, output: str, time_limit: float) -> SweepConfig:
        """Return the sweep of one data set.

        `fraction` scales the number of simulations. Below one simulation, the sweep becomes a quick trial:
        one row of one simulation, a quarter of a second per solve, at most two retrained forests.
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
    """Return the experiment of this name; raise `BadInput` if there is none."""
    if name not in ORDER:
        raise BadInput(f"no experiment {name!r}; choose among {', '.join((*ORDER, *BY_NAME))}")
    tables = tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))
    title, source, own = tables.pop("title"), tables.pop("source"), tables.pop("for", {})
    return Experiment(name, title, source, tables, own, tables.pop("draw", "own"))
