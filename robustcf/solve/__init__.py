"""The solvers, all behind one interface: `get_engine(name)`."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from robustcf.solve.contract import BestScore, CutShort, Engine, Finished, Limits, Solution, SolverError
from robustcf.solve.engine import OwnEngine
from robustcf.solve.highs import Highs
from robustcf.solve.milp import MilpEngine
from robustcf.solve.oracle import Oracle

__all__ = [
    "SOLVERS",
    "BestScore",
    "CutShort",
    "Engine",
    "Finished",
    "Limits",
    "Solution",
    "SolverError",
    "get_engine",
    "solver_names",
]

SOLVERS = ("auto", "engine", "highs", "gurobi", "oracle")
PLUGINS = "robustcf.solvers"  # entry points of other packages: a name, and a function that makes an engine


def solver_names() -> tuple[str, ...]:
    """Return the names of all solvers, those of installed packages too."""
    return (*SOLVERS, *sorted(_plugins().keys() - set(SOLVERS)))


def _plugins() -> dict[str, EntryPoint]:
    return {plugin.name: plugin for plugin in entry_points(group=PLUGINS)}


def get_engine(name: str) -> Engine:
    """Return the engine with the given name.

    >>> get_engine("highs").name
    'highs'
    """
    if name in ("auto", "engine"):  # the own engine is the fastest on every kind of problem measured
        return OwnEngine()
    if name == "highs":
        return MilpEngine(Highs())
    if name == "gurobi":
        return _gurobi()
    if name == "oracle":
        return Oracle()
    if name in (plugins := _plugins()):
        return _loaded(plugins[name])
    raise SolverError(f"no solver {name!r}; choose one of {', '.join(solver_names())}")


def _loaded(plugin: EntryPoint) -> Engine:
    try:
        engine: Engine = plugin.load()()
    except Exception as error:
        raise SolverError(f"solver {plugin.name!r} of {plugin.value} cannot be loaded: {error}") from error
    return engine


def _gurobi() -> Engine:
    try:
        from robustcf.solve.gurobi import Gurobi
    except ImportError:
        raise SolverError("solver 'gurobi' needs gurobipy: pip install 'robustcf[gurobi]'") from None
    return MilpEngine(Gurobi())
