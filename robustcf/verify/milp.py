"""Build an integer program row by row, and find any solution of it with HiGHS."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from robustcf.support.tolerances import SOLVER_FEASIBILITY

Row = dict[int, float]


@dataclass
class Model:
    """The rows and columns of an integer program."""

    cost: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def column(self, cost: float = 0.0, whole: bool = False) -> int:
        self.cost.append(cost)
        self.whole.append(whole)
        return len(self.cost) - 1

    def row(self, terms: Row, low: float = -math.inf, high: float = math.inf) -> None:
        self.rows.append(terms)
        self.low.append(low)
        self.high.append(high)


class Solver:
    """HiGHS with the model loaded."""

    def __init__(self, model: Model) -> None:
        import highspy

        self.kinds = highspy
        self.whole = np.array(model.whole, dtype=bool)
        self.highs = highspy.Highs()  # type: ignore[no-untyped-call]
        options: dict[str, bool | int | float | str] = {
            "output_flag": False,
            "presolve": "off",  # HiGHS 1.15's presolve loses solutions
            "threads": 1,
            "mip_rel_gap": 1.0,  # any point below the claimed cost is enough
            "mip_feasibility_tolerance": SOLVER_FEASIBILITY,
            "primal_feasibility_tolerance": SOLVER_FEASIBILITY,
        }
        for option, value in options.items():
            self.highs.setOptionValue(option, value)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(model.cost), len(model.rows)
        lp.col_cost_ = np.array(model.cost)
        lp.col_lower_, lp.col_upper_ = np.zeros(len(model.cost)), np.ones(len(model.cost))
        lp.row_lower_, lp.row_upper_ = np.array(model.low), np.array(model.high)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(r) for r in model.rows)]).astype(np.int32)
        lp.a_matrix_.index_ = np.array([c for r in model.rows for c in r], dtype=np.int32)
        lp.a_matrix_.value_ = np.array([v for r in model.rows for v in r.values()])
        whole, real = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        lp.integrality_ = [whole if w else real for w in model.whole]
        self.highs.passModel(lp)

    def run(self, seconds: float) -> tuple[Literal["found", "none", "limit"], np.ndarray | None]:
        if seconds <= 0:
            return "limit", None
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + seconds)
        self.highs.run()
        status, kinds = self.highs.getModelStatus(), self.kinds.HighsModelStatus
        if status in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible):  # every variable is bounded
            return "none", None
        info = self.highs.getInfo()
        if info.primal_solution_status == self.kinds.SolutionStatus.kSolutionStatusFeasible:
            return "found", np.array(self.highs.getSolution().col_value)
        return "limit", None

    def cut(self, x: np.ndarray) -> None:
        """Exclude this solution's binaries."""
        at = np.flatnonzero(self.whole)
        ones = x[at] > 0.5
        values = np.where(ones, -1.0, 1.0)
        self.highs.addRow(1.0 - ones.sum(), math.inf, len(at), at.astype(np.int32), values)
