"""The design of the experiment, and the simulations it consists of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from sklearn.datasets import load_breast_cancer

from robustcf.datasets import Dataset, load
from robustcf.datasets.registry import PAPER_SETS
from robustcf.methods.certified.method import Certified
from robustcf.schema.schema import Schema

ALPHAS = (0.2, 0.1, 0.05)
DELTA = 0.05
BETA = 0.05  # of Robust-SAA
FIRST_SHARE = 0.8  # rows that the explained forest sees if data evolve, as in the paper
SIMULATIONS = 40  # per data set, as in the paper
DEPTH = 4
BREAST = {"breast-cancer depth 4": DEPTH, "breast-cancer grown": None}
BREAST_ROWS = 569
SETS = (*PAPER_SETS, *BREAST)
VOTINGS: tuple[Literal["soft", "hard"], ...] = ("soft", "hard")
Scenario = Literal["same-data", "evolving"]


@dataclass(frozen=True)
class Design:
    """The sizes of each simulation.

    Attributes
    ----------
    rows : int
        Explained customers.
    trees : int
        Trees per forest.
    truth : int
        Further forests that decide the truth about a point.
    training_rows : int, optional
        Most training rows; by default, all rows but the explained ones.
    time_limit : float
        Seconds per customer and method.
    pool, pilot : int
        Fresh trees of `Certified`.
    """

    rows: int = 5
    trees: int = 100
    truth: int = 300
    training_rows: int | None = None
    time_limit: float = 60.0
    pool: int = 300
    pilot: int = 2000

    def trial(self) -> Design:
        """Return a design that takes seconds and shows nothing but that everything runs."""
        most = min(self.training_rows or 400, 400)
        return replace(self, rows=2, trees=11, truth=20, training_rows=most, pool=30, pilot=200)

    def certified(self, alpha: float, scenario: Scenario = "same-data") -> Certified:
        return Certified(alpha, DELTA, pool=self.pool, pilot=self.pilot, scenario=scenario)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def used_rows(self, data_rows: int) -> int:
        """Return the number of training rows that a data set of this size gives."""
        return min(data_rows - self.rows, self.training_rows or data_rows)


@dataclass(frozen=True)
class Unit:
    """One simulation: a data set, the number of the draw, and what happens to the data."""

    data: str
    simulation: int
    scenario: Scenario = "same-data"


def rows_of(name: str) -> int | None:
    """Return the number of rows of a known data set, without reading it.

    >>> rows_of("breast-cancer grown"), rows_of("german-credit"), rows_of("mine")
    (569, 1000, None)
    """
    if name in BREAST:
        return BREAST_ROWS
    return PAPER_SETS[name].rows if name in PAPER_SETS else None


def read(name: str) -> Dataset:
    """Return a data set of the experiment."""
    if name not in BREAST:
        return load(name)
    data = load_breast_cancer(as_frame=True)
    frame = data.data.rename(columns=lambda column: str(column).replace(" ", "_"))
    return Dataset(name, frame, data.target.to_numpy(), Schema.from_frame(frame))
