"""The paper's own numbers, read from `paper.toml` next to this module."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

SHORT = {
    "adult": "A",
    "compas": "C",
    "credit-card-default": "CC",
    "german-credit": "GC",
    "onlinenewspopularity": "ON",
    "phishing": "P",
    "spambase": "S",
    "students-performance": "SP",
}


@dataclass(frozen=True)
class NaiveTable:
    """A table of naive validities in [0, 1].

    Each covers `simulations` × `rows` explanations.
    """

    source: str
    experiment: str
    n_trees: int
    simulations: int
    rows: int
    validity: Mapping[str, float]


@dataclass(frozen=True)
class TargetClaim:
    """Data sets on which, according to the text, Direct-SAA misses 1 - α.

    It reaches it elsewhere.
    """

    source: str
    experiment: str
    missed: tuple[str, ...]
    said: str


@dataclass(frozen=True)
class Paper:
    """All numbers of the paper that we compare with."""

    naive: tuple[NaiveTable, ...]
    datasets: Mapping[str, tuple[int, ...]]
    targets: tuple[TargetClaim, ...]

    def claim(self, experiment: str) -> TargetClaim | None:
        """Return the paper's claim about the targets in this experiment, if any."""
        return next((c for c in self.targets if c.experiment == experiment), None)


def paper() -> Paper:
    """Return the numbers as printed.

    >>> paper().naive[0].validity["spambase"], paper().datasets["compas"]
    (0.17, (5278, 5, 2, 0, 3, 0))
    """
    tables = tomllib.loads((files(__package__) / "paper.toml").read_text(encoding="utf-8"))
    naive = tuple(
        NaiveTable(**(t | {"validity": {name: v / 100 for name, v in t["validity"].items()}}))
        for t in tables["naive"]
    )
    targets = tuple(TargetClaim(**(t | {"missed": tuple(t["missed"])})) for t in tables["target"])
    return Paper(naive, {name: tuple(row) for name, row in tables["datasets"].items()}, targets)


def short(dataset: str) -> str:
    """Return the paper's letters for a data set, or its own name for other sets.

    >>> short("spambase"), short("mine")
    ('S', 'mine')
    """
    return SHORT.get(dataset, dataset)
