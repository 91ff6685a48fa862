"""The benchmark: solve, summarise and check. `robustcf bench` starts it."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from threadpoolctl import threadpool_limits

from robustcf.solve import Limits

from . import agree, growth, summary
from .cases import NAIVE, NAMED, PLAUSIBLE, PROBLEM, Case, Customer, World, data_sets, realise, suite
from .contenders import PROVED, Answer, solve, solve_peer, solve_together, warm_up
from .names import GENERAL, GRID, OURS, PEERS
from .options import Options
from .peers import Peer, PeerGone, importable
from .store import Store, read

console = Console(width=None if sys.stdout.isatty() else 160)


def measure_all(options: Options) -> int:
    """Make all measurements; write tables and plots.

    Return 0 if all contenders agree, 1 for disagreements, 2 without any measurement.
    """
    with threadpool_limits(1):
        return _measure_all(options)


def _measure_all(options: Options) -> int:
    settings = {k: getattr(options, k) for k in ("limit", "seed")}
    settings |= {p: version(p) for p in ("highspy", "numba", "numpy", "scikit-learn")}
    if not options.summary_only:
        store = Store(options.out, settings, options.fresh)
        names = present(options)
        for which in options.suite:
            rows = options.rows if which == "main" else options.extra_rows
            for case in suite(which, options.data or data_sets(), options.trees, options.depth, options.seed):
                who, methods = names, [NAIVE, *map(str, options.alphas)]
                if which == "plausible":
                    who, methods = [n for n in names if n in (OURS, *GENERAL)], [*PLAUSIBLE]
                measure(case, rows, who, options, store, methods)
        if options.growth:
            growth.run(options, console)
    return conclude(options.out, options.clock)


def present(options: Options) -> list[str]:
    """Return the requested contenders that are installed.

    Print which peers are missing.
    """
    names = []
    for name in options.contenders:
        if name in PEERS and not importable(name, options.peer_python):
            console.print(f"[yellow]{name} skipped: it is not installed in {options.peer_python}")
        else:
            names.append(name)
    return names


def measure(
    case: Case,
    rows: int,
    names: list[str],
    options: Options,
    store: Store,
    methods: list[str],
) -> None:
    world = realise(case)
    customers = world.customers(rows)
    peers = start_peers(world, [n for n in names if n in PEERS], options.peer_python)
    warm_up(world, names, methods[0])
    limits, turn = Limits(options.limit), 0
    try:
        for i, customer in enumerate(customers):
            console.print(f"{case.data} {case.trees}x{case.depth}: customer {i + 1} of {len(customers)}")
            with_peers = options.peer_rows is None or i < options.peer_rows
            for method in methods:
                todo = [
                    n for n in names if n != GRID and (n not in PEERS or (method == NAIVE and with_peers))
                ]
                todo = todo[turn % len(todo) :] + todo[: turn % len(todo)]  # rotate who goes first
                turn += 1
                for name in todo:
                    record = {**case.key, **_who(customer), "method": method, "contender": name}
                    if not store.has(record) and (name not in PEERS or name in peers):
                        answer = (
                            solve_peer(peers[name], world, customer, method, limits)
                            if name in PEERS
                            else solve(name, world, customer, method, limits)
                        )
                        store.add(record | answer.record())
            if GRID in names:
                _measure_grid(world, customer, methods, limits, store)
    finally:
        for peer in peers.values():
            peer.close()
    for name, seconds in {**world.seconds, **{n: p.setup_seconds for n, p in peers.items()}}.items():
        record = {**case.key, "row": -1, "target": "", "method": "", "contender": f"setup:{name}"}
        if not store.has(record):
            store.add(record | Answer("setup", seconds=seconds).record())


def _who(customer: Customer) -> dict[str, Any]:
    return {"row": customer.row, "target": str(customer.target)}


def _measure_grid(world: World, customer: Customer, methods: list[str], limits: Limits, store: Store) -> None:
    records = [{**world.case.key, **_who(customer), "method": m, "contender": GRID} for m in methods]
    if all(map(store.has, records)):
        return
    answers = solve_together(world, customer, methods, limits)
    for record in records:
        if not store.has(record):
            store.add(record | answers[record["method"]].record())


def start_peers(world: World, names: list[str], python: str) -> dict[str, Peer]:
    peers = {}
    for name in names:
        try:
            peers[name] = Peer(name, python, world)
        except PeerGone as gone:
            console.print(f"[yellow]{gone}")
    return peers


def conclude(folder: Path, clock: str = "wall") -> int:
    """Write tables and plots of a folder's measurements; check their agreement."""
    frame = pd.DataFrame(read(folder / "measurements.jsonl"))
    if frame.empty:
        console.print("there are no measurements")
        return 2
    solved = frame[frame.status != "setup"]
    summary.write(frame, folder, console, clock)
    wrong, notes = agree.disagreements(solved)
    wrong += growth.conclude(folder)
    (folder / "disagreements.txt").write_text("".join(f"{line}\n" for line in wrong))
    (folder / "peer-notes.txt").write_text("".join(f"{line}\n" for line in notes))
    if notes:
        console.print(f"{len(notes)} answers of peers differ but do not contradict ours: see peer-notes.txt")
    for line in wrong:
        console.print(f"[red]disagreement:[/red] {line}", highlight=False)
    lost = solved[(solved.contender == OURS) & ~solved.status.isin(PROVED)]
    for _, row in lost.iterrows():
        console.print(f"[red]not proved:[/red] {NAMED.format(*row[PROBLEM])}", highlight=False)
    console.print(f"results in {folder}: {len(solved)} solves, {len(wrong)} disagreements")
    return 1 if wrong else 0
