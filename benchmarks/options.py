"""The options of the benchmark."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .names import ALPHAS, CONTENDERS

QUICK: Mapping[str, Any] = {"rows": 2, "extra_rows": 1, "alphas": (0.05,), "limit": 10.0}


@dataclass(frozen=True)
class Options:
    """What to measure, and where to store it."""

    data: tuple[str, ...] = ()  # empty: all data sets that are found
    suite: tuple[str, ...] = ("main",)
    rows: int = 10
    extra_rows: int = 3
    alphas: tuple[float, ...] = ALPHAS
    contenders: tuple[str, ...] = CONTENDERS
    peer_python: str = sys.executable
    peer_rows: int | None = None
    limit: float = 60.0
    trees: int = 100
    depth: int = 4
    seed: int = 0
    out: Path = Path("bench-results")
    fresh: bool = False
    growth: bool = False
    summary_only: bool = False
    clock: str = "wall"
    quick: bool = False

    def __post_init__(self) -> None:
        for name in self.contenders:
            if name not in CONTENDERS:
                raise ValueError(f"--contenders has {name!r}; choose among {', '.join(CONTENDERS)}")
        for alpha in self.alphas:
            if not 0 < alpha <= 0.5:
                raise ValueError(f"--alphas has {alpha}; each must lie in (0, 0.5]")
        if not self.limit > 0:
            raise ValueError(f"--limit is {self.limit}; it must be positive")


def options_of(quick: bool, given: Mapping[str, Any]) -> Options:
    """Return the options; those that are None have their defaults, which `quick` changes."""
    chosen = dict(QUICK) if quick else {}
    for name, value in given.items():
        if value is not None:
            chosen[name] = tuple(value) if isinstance(value, list) else value
    return Options(**chosen, quick=quick)
