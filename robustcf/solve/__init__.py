"""Engines behind one contract: `get_engine(name)`."""

from __future__ import annotations

from robustcf.solve.contract import BestScore, Engine, Limits, Solution, SolverError
from robustcf.solve.engine import OwnEngine
from robustcf.solve.highs import Highs
from robustcf.solve.milp import MilpEngine
from robustcf.solve.oracle import Oracle

__all__ = ["SOLVERS", "BestScore", "Engine", "Limits", "Solution", "SolverError", "get_engine"]

SOLVERS = ("auto", "engine", "highs", "gurobi", "oracle")


def get_engine(name: str) -> Engine:
    """The engine of that name.

    >>> get_engine("highs").name
    'highs'
    """
    if name in ("auto", "engine"):  # ours is the fastest on every kind of problem measured
        return OwnEngine()
    if name == "highs":
        return MilpEngine(Highs())
    if name == "gurobi":
        return _gurobi()
    if name == "oracle":
        return Oracle()
    raise SolverError(f"no solver {name!r}; choose one of {', '.join(SOLVERS)}")


def _gurobi() -> Engine:
    try:
        from robustcf.solve.gurobi import Gurobi
    except ImportError:
        raise SolverError("solver 'gurobi' needs the package gurobipy; use solver='highs'") from None
    return MilpEngine(Gurobi())
