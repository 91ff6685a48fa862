"""The MILP solver HiGHS, which needs no licence, through highspy."""

from __future__ import annotations

import highspy
import numpy as np

from robustcf.solve.contract import Limits, SolverError
from robustcf.solve.formulation import Milp
from robustcf.solve.milp import MilpResult
from robustcf.support.tolerances import SOLVER_FEASIBILITY

_STATUS = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kUnboundedOrInfeasible: "infeasible",  # every variable is bounded
    highspy.HighsModelStatus.kTimeLimit: "limit",
    highspy.HighsModelStatus.kInterrupt: "limit",
}


class Highs:
    name = "highs"

    def solve(self, model: Milp, limits: Limits) -> MilpResult:
        highs = highspy.Highs()  # type: ignore[no-untyped-call]
        options: dict[str, bool | int | float | str] = {
            "output_flag": False,
            "presolve": "off",  # HiGHS 1.15's presolve loses solutions: false optima in models of 26 columns
            "threads": limits.threads,
            "parallel": "off" if limits.threads == 1 else "on",
            "random_seed": limits.seed,
            "time_limit": float(limits.seconds),
            "mip_rel_gap": float(limits.gap),
            "mip_abs_gap": 0.0,
            "mip_feasibility_tolerance": SOLVER_FEASIBILITY,
            "primal_feasibility_tolerance": SOLVER_FEASIBILITY,
            "dual_feasibility_tolerance": SOLVER_FEASIBILITY,
        }
        for option, value in options.items():
            if highs.setOptionValue(option, value) != highspy.HighsStatus.kOk:
                raise SolverError(f"HiGHS refused {option} = {value}")
        lp = linear_program(model)
        binary, real = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        lp.integrality_ = [binary if b else real for b in model.is_binary]
        if highs.passModel(lp) == highspy.HighsStatus.kError:
            raise SolverError("HiGHS refused the model")
        if model.start is not None:
            start = highspy.HighsSolution()
            start.col_value = model.start.tolist()
            highs.setSolution(start)
        highs.run()
        status = highs.getModelStatus()
        if status not in _STATUS:
            raise SolverError(f"HiGHS failed: {highs.modelStatusToString(status)}")
        info = highs.getInfo()
        found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        x = np.array(highs.getSolution().col_value) if found else None
        bound = float(info.mip_dual_bound)
        if _STATUS[status] == "limit" and bound == np.inf:  # nothing was proved
            bound = -np.inf
        return MilpResult(_STATUS[status], x, bound, max(int(info.mip_node_count), 0))


def linear_program(model: Milp) -> highspy.HighsLp:
    """Return the linear relaxation of a model as a HiGHS object."""
    lp = highspy.HighsLp()
    n_rows, n_columns = model.matrix.shape
    lp.num_col_, lp.num_row_ = n_columns, n_rows
    lp.col_cost_, lp.offset_ = model.cost, model.offset
    lp.col_lower_, lp.col_upper_ = np.zeros(n_columns), np.ones(n_columns)
    lp.row_lower_ = np.where(np.isinf(model.lower), -highspy.kHighsInf, model.lower)
    lp.row_upper_ = np.where(np.isinf(model.upper), highspy.kHighsInf, model.upper)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = model.matrix.indptr
    lp.a_matrix_.index_ = model.matrix.indices
    lp.a_matrix_.value_ = model.matrix.data
    return lp
