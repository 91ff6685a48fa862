"""The names of contenders and suites; the command line imports them, so nothing heavy is here."""

from __future__ import annotations

from enum import StrEnum

OURS, GRID, INCUMBENT = "ours", "ours-grid", "incumbent"
GENERAL = ("highs-reduced", "gurobi-reduced")
SOLVERS = (OURS, GRID, INCUMBENT, "highs-full", *GENERAL)
PEERS = ("treecf", "treecf-cold", "oceanpy")
CONTENDERS = (*SOLVERS, *PEERS)
ALPHAS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.01)


class Suite(StrEnum):
    """The sets of forests."""

    MAIN = "main"
    FROZEN = "frozen"
    PLAUSIBLE = "plausible"
    LARGE = "large"
    DEEP = "deep"


class Clock(StrEnum):
    """The time that the tables show."""

    WALL = "wall"
    CPU = "cpu"
