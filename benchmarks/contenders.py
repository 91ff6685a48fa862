"""The contenders: each answers one customer at one threshold.

Times include model building.

Work that depends only on the forest (geometry, a peer's parsed model) is done once and not timed here.
Everything else is timed: the customer's moves, the problem, incumbent, reduction and search.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from robustcf.explain import Explainer
from robustcf.problem.build import build_problem
from robustcf.problem.moves import moves_of
from robustcf.problem.problem import Problem
from robustcf.problem.reduction import choice_within, reduce
from robustcf.solve import Limits, Solution, SolverError, get_engine
from robustcf.solve.contract import cheapest, settle
from robustcf.solve.grid import solve_grid
from robustcf.solve.incumbent import find_incumbent, improve

from .cases import NAIVE, PLAUSIBLE, Customer, World
from .names import GRID, INCUMBENT, OURS, SOLVERS
from .peers import Peer, PeerGone

PROVED = ("optimal", "no_recourse")
_ENGINES = {OURS: "engine", "highs-reduced": "highs", "gurobi-reduced": "gurobi"}
_STATUS = {"optimal": "optimal", "feasible": "feasible", "infeasible": "no_recourse", "unknown": "timeout"}


@dataclass
class Answer:
    """A contender's answer, with its wall time and processor time."""

    status: str
    objective: float | None = None
    lower_bound: float | None = None
    seconds: float | None = None
    cpu: float | None = None
    nodes: int | None = None
    reason: str | None = None
    build_seconds: float | None = None
    reduce_seconds: float | None = None
    options: int | None = None
    leaves: int | None = None

    def record(self) -> dict[str, Any]:
        return asdict(self)


@contextmanager
def _quiet() -> Iterator[None]:
    """Disable garbage collection while timing.

    Do not collect right before either: it empties the caches.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def problem_of(world: World, customer: Customer, methods: Sequence[str]) -> tuple[Problem, list[int]]:
    """Return the customer's problem and each method's demand, as in `Explainer`."""
    moves = moves_of(world.geometry, customer.numbers, customer.encoded)
    demands = [world.demand(customer.target, m) for m in methods]
    problem = build_problem(world.geometry, moves, world.votes(customer.target), demands[0])
    folded = demands[0] - int(problem.demand[0])
    return problem, [d - folded for d in demands]


def solve(name: str, world: World, customer: Customer, method: str, limits: Limits) -> Answer:
    """Solve one (customer, method) with one of our engines or a general solver."""
    run = _full if name == "highs-full" else _incumbent if name == INCUMBENT else _through_grid
    if method in PLAUSIBLE:
        run = _explained
        _explainer(name, world, method, limits)  # fit before timing starts
    with _quiet():
        begin, cpu = time.perf_counter(), time.process_time()
        try:
            answer = run(name, world, customer, method, limits)
        except SolverError as error:
            fits = "licence" not in str(error)
            answer = Answer("error" if fits else "does_not_fit", reason=str(error))
        if answer.seconds is None:
            answer.seconds = time.perf_counter() - begin
            answer.cpu = time.process_time() - cpu
    return answer


def _through_grid(name: str, world: World, customer: Customer, method: str, limits: Limits) -> Answer:
    engine = get_engine(_ENGINES[name])
    problem, demands = problem_of(world, customer, [method])
    return _answer(solve_grid(problem, demands, engine, limits)[0])


def _explained(name: str, world: World, customer: Customer, method: str, limits: Limits) -> Answer:
    """Solve through `Explainer`; fitting, done once per forest, is not timed."""
    found = _explainer(name, world, method, limits).explain(world.data.X.iloc[customer.row])
    if found.status == "error":
        raise SolverError(str(found.reason))
    status = "no_recourse" if found.status == "relaxed" else found.status  # proved: no plausible point
    known = status in ("optimal", "feasible")
    bound = found.lower_bound if np.isfinite(found.lower_bound) else None
    return Answer(status, found.objective if known else None, bound, nodes=found.nodes, reason=found.reason)


def _explainer(name: str, world: World, method: str, limits: Limits) -> Explainer:
    return world.explainer("auto" if name == OURS else _ENGINES[name], method, limits.seconds)


def _full(_name: str, world: World, customer: Customer, method: str, limits: Limits) -> Answer:
    problem, _ = problem_of(world, customer, [method])
    return _answer(get_engine("highs").nearest(problem, limits))


def _incumbent(_name: str, world: World, customer: Customer, method: str, _limits: Limits) -> Answer:
    """Run the heuristic alone.

    `seconds` excludes building and reducing, which are timed separately.
    """
    begin = time.perf_counter()
    problem, _ = problem_of(world, customer, [method])
    built = time.perf_counter()
    if settle(problem) is not None:
        return Answer("settled", seconds=time.perf_counter() - built, build_seconds=built - begin)
    cpu = time.process_time()
    found = find_incumbent(problem, cheapest(problem))
    found = None if found is None else improve(problem, found)
    end, cpu = time.perf_counter(), time.process_time() - cpu
    objective = None if found is None else problem.objective(found)
    reduced = reduce(problem, np.inf if objective is None else objective)
    return Answer(
        "none" if found is None else "heuristic",
        objective,
        seconds=end - built,
        cpu=cpu,
        build_seconds=built - begin,
        reduce_seconds=time.perf_counter() - end,
        options=len(reduced.cost),
        leaves=reduced.n_leaves,
    )


def solve_together(
    world: World, customer: Customer, methods: Sequence[str], limits: Limits
) -> dict[str, Answer]:
    """Solve all thresholds of a customer together.

    Each gets an equal share of the time.
    """
    with _quiet():
        begin, cpu = time.perf_counter(), time.process_time()
        problem, demands = problem_of(world, customer, methods)
        solutions = solve_grid(problem, demands, get_engine("engine"), limits)
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    answers = {m: _answer(s) for m, s in zip(methods, solutions, strict=True)}
    for answer in answers.values():
        answer.seconds, answer.cpu = seconds / len(methods), cpu / len(methods)
    return answers


def _answer(solution: Solution) -> Answer:
    known = solution.choice is not None
    bound = float(solution.lower_bound)
    return Answer(
        _STATUS[solution.status],
        float(solution.objective) if known else None,
        bound if np.isfinite(bound) else None,
        nodes=int(solution.nodes),
    )


def solve_peer(peer: Peer, world: World, customer: Customer, method: str, limits: Limits) -> Answer:
    """Return a peer's answer; our own code computes the cost and votes of its point."""
    problem, _ = problem_of(world, customer, [method])
    try:
        reply = peer.solve(customer.encoded, world.forest.class_index(customer.target), limits.seconds)
    except PeerGone as gone:
        return Answer("timeout", seconds=gone.seconds, reason=str(gone))
    answer = Answer(reply["status"], seconds=reply["seconds"], cpu=reply["cpu"], reason=reply.get("reason"))
    if reply.get("point") is not None:
        answer.objective, answer.reason = _priced(world, customer, problem, np.array(reply["point"]))
    return answer


def _priced(
    world: World, customer: Customer, problem: Problem, point: np.ndarray
) -> tuple[float | None, str | None]:
    """Return our cost of a peer's encoded point, or why the point does not count."""
    schema, start = world.data.schema, world.geometry.start
    numbers = customer.numbers.copy()
    for j, feature in enumerate(schema.features):
        if not feature.ordered:
            first = schema.column_start[j]
            numbers[j] = float(point[first : first + feature.n_columns].argmax())
    cells = start[:-1] + world.geometry.cell_of(point, numbers)
    choice = choice_within(problem, cells)
    if choice is None:
        return None, "the point lies in cells without an allowed value"
    if not problem.reaches(choice):
        return None, "the point does not reach the threshold"
    return problem.objective(choice), None


def warm_up(world: World, names: Sequence[str], method: str = NAIVE) -> None:
    """Load and compile everything before timing starts."""
    customer, limits = world.customers(1)[0], Limits(10.0)
    for name in names:
        if name == GRID:
            solve_together(world, customer, ["naive", "0.5"], limits)
        elif name in SOLVERS:
            solve(name, world, customer, method, limits)
