"""What a certificate needs: how many fresh trees and forests, and how they are retrained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from robustcf.validate import Scenario, derive_seed

Kind = Literal["pool", "pilot", "certification"]
KINDS: tuple[Kind, ...] = ("pool", "pilot", "certification")
POOL_GROUP, PILOT_GROUP = 10, 25  # trees per resample of the rows, in scenarios that resample


@dataclass(frozen=True)
class Design:
    """Fresh trees and forests for certificates, all trained from one seed.

    Attributes
    ----------
    scenario : str
        How the certification forests are retrained (`robustcf.validate.Scenario`).
    forests : int
        Number of certification forests.
    pool : int
        Fresh trees that join the explained forest's own trees in the search; 0 for none.
    pilot : int
        Further fresh trees that choose which levels are tested.
    """

    scenario: str = "same-data"
    forests: int = 100
    pool: int = 300
    pilot: int = 2000

    def __post_init__(self) -> None:
        Scenario.parse(self.scenario)
        for name, least in (("forests", 1), ("pool", 0), ("pilot", 50)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {least}")

    @property
    def resamples(self) -> bool:
        """Whether each forest has its own rows, so that its trees are not independent."""
        return Scenario.parse(self.scenario).rows == "bootstrap"

    @property
    def needs_later_rows(self) -> bool:
        """Whether forests are also trained on rows collected after the explained forest's."""
        return Scenario.parse(self.scenario).rows == "all"

    def size(self, n_trees: int) -> int:
        """Return the number of trees of a retrained forest."""
        return Scenario.parse(self.scenario).n_trees or n_trees


@dataclass(frozen=True)
class Order:
    """One forest to train."""

    kind: Kind
    number: int
    seed: int
    n_trees: int


def orders(design: Design, n_trees: int, seed: int, single_tree: bool = False) -> list[Order]:
    """Return all forests to train, with seeds that depend only on the run's seed.

    Pool and pilot are trained in parts, so that they can be trained in parallel. A `single_tree` estimator
    trains one tree at a time.
    """
    size = design.size(n_trees)
    pool_part, pilot_part = (POOL_GROUP, PILOT_GROUP) if design.resamples else (size, size)
    if single_tree:
        pool_part = pilot_part = 1
    parts: list[tuple[Kind, int]] = [
        *(("pool", n) for n in _divided(design.pool, pool_part)),
        *(("pilot", n) for n in _divided(design.pilot, pilot_part)),
        *(("certification", size) for _ in range(design.forests)),
    ]
    numbers = dict.fromkeys(KINDS, 0)
    made, used = [], set()
    for kind, count in parts:
        k = numbers[kind]
        numbers[kind] += 1
        attempt = 0
        while (drawn := derive_seed(seed, "certificate", design.scenario, kind, k, attempt)) in used:
            attempt += 1
        used.add(drawn)
        made.append(Order(kind, k, drawn, count))
    return made


def _divided(total: int, part: int) -> list[int]:
    whole, rest = divmod(total, part)
    return [part] * whole + ([rest] if rest else [])
