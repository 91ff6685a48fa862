"""The MILP solver Gurobi, with the licence that gurobipy finds."""

from __future__ import annotations

from functools import cache
from typing import Any

import gurobipy as gp
import numpy as np

from robustcf.solve.contract import Limits, SolverError
from robustcf.solve.formulation import Milp
from robustcf.solve.milp import MilpResult
from robustcf.support.tolerances import SOLVER_FEASIBILITY

_SIZE_LIMIT = 10010  # GRB.ERROR_SIZE_LIMIT_EXCEEDED
_STATUS = {
    gp.GRB.OPTIMAL: "optimal",
    gp.GRB.INFEASIBLE: "infeasible",
    gp.GRB.TIME_LIMIT: "limit",
    gp.GRB.INTERRUPTED: "limit",
    gp.GRB.SUBOPTIMAL: "limit",  # tolerances were not met: there is a point but no proof
}


@cache
def _environment() -> gp.Env:
    env = gp.Env(empty=True)
    env.setParam("OutputFlag", 0)
    try:
        env.start()
    except gp.GurobiError as error:
        raise SolverError(f"Gurobi found no valid licence ({error}); use solver='highs'") from None
    return env


class Gurobi:
    name = "gurobi"

    def solve(self, model: Milp, limits: Limits) -> MilpResult:
        with gp.Model(env=_environment()) as grb:
            for parameter, value in {
                "Threads": limits.threads,
                "Seed": limits.seed,
                "TimeLimit": limits.seconds,
                "MIPGap": limits.gap,
                "MIPGapAbs": 0.0,
                "FeasibilityTol": SOLVER_FEASIBILITY,
                "IntFeasTol": SOLVER_FEASIBILITY,
                "OptimalityTol": SOLVER_FEASIBILITY,
                "DualReductions": 0,  # otherwise the status may be "infeasible or unbounded"
            }.items():
                grb.setParam(parameter, value)
            kinds = np.where(model.is_binary, "B", "C")
            x: Any = grb.addMVar(len(model.cost), lb=0.0, ub=1.0, obj=model.cost, vtype=kinds)
            grb.ObjCon = model.offset
            sense = np.where(model.lower == model.upper, "=", np.where(np.isinf(model.upper), ">", "<"))
            matrix: Any = model.matrix  # gurobipy's type hints lack sparse matrices
            grb.addMConstr(matrix, x, sense, np.where(sense == "<", model.upper, model.lower))
            if model.start is not None:
                x.Start = model.start
            try:
                grb.optimize()
            except gp.GurobiError as error:
                if error.errno == _SIZE_LIMIT:
                    raise SolverError(
                        f"Gurobi's licence is too small for this problem ({len(model.cost)} variables, "
                        f"{len(model.lower)} rows); use solver='highs' or install a full licence"
                    ) from None
                raise SolverError(f"Gurobi failed: {error}") from None
            if grb.Status not in _STATUS:
                raise SolverError(f"Gurobi failed with status {grb.Status}")
            status = _STATUS[grb.Status]
            found = grb.SolCount > 0
            bound = np.inf if status == "infeasible" else float(grb.ObjBound)
            return MilpResult(status, np.array(x.X) if found else None, bound, int(grb.NodeCount))
