"""Run the experiments `certified` and `certified-evolving`: one task per simulation, and their page."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from robustcf.reproduction.certified import tables
from robustcf.reproduction.certified.design import SETS, SIMULATIONS, Design, Scenario, Unit, read
from robustcf.reproduction.certified.figure import draw
from robustcf.reproduction.certified.measure import measure
from robustcf.reproduction.certified.page import FRONT, page
from robustcf.reproduction.certified.results import ABOUT, COLUMNS, Results, collect
from robustcf.reproduction.certified.words import counted
from robustcf.support.documents import parse_json

from ..cluster.session import session
from ..cluster.tasks import Tasks
from ..inputs.config import SolverChoice
from ..inputs.errors import BadInput, reporting_bad_input
from ..run.claim import claimed
from ..run.folder import BROKEN, RunFolder
from ..terminal.progress import stage
from .experiments import BY_NAME, TRIAL_LIMIT
from .results import read_noted, write_noted

SCENARIOS: dict[str, Scenario] = dict(zip(BY_NAME, ("same-data", "evolving"), strict=True))
RECORDS, UNITS, DESIGN = "certified.jsonl", "units.jsonl", "design.json"
FILE, PAGE = "certified.parquet", "certified.md"


def run_certified(
    name: str,
    output: Path,
    sets: Sequence[str],
    fraction: float,
    asked: Design,
    address: str | None,
    cpus: int | None,
) -> int:
    """Run the missing simulations of an experiment, and return the exit code.

    A folder keeps the design that it was begun with. Each finished simulation is stored at once.
    """
    wanted = fraction * SIMULATIONS
    if wanted < 1:
        asked = replace(asked.trial(), time_limit=min(asked.time_limit, TRIAL_LIMIT))
    folder = output / "runs" / name
    units = [
        Unit(data, simulation, SCENARIOS[name])
        for simulation in range(max(1, round(wanted)))
        for data in sets or SETS
    ]
    missing = _missing(folder, units)
    if not missing:
        return 0
    design = _design(folder, asked)
    print(f"{name}: {_sizes(len(missing), design)}", file=sys.stderr, flush=True)
    known = cache(read)
    with reporting_bad_input(ValueError):
        for unit in missing:
            known(unit.data)
    folder.mkdir(parents=True, exist_ok=True)
    with claimed(RunFolder(str(folder.absolute()))), session(address, 1, cpus) as ray:
        (folder / DESIGN).write_text(json.dumps(design.as_json()) + "\n", encoding="utf-8")
        missing = _missing(folder, units)
        tasks = Tasks(ray, SolverChoice(time_limit=design.time_limit))
        shared = {data: tasks.put(known(data)) for data in dict.fromkeys(u.data for u in missing)}
        errors = 0
        calls = ((unit, shared[unit.data], design) for unit in missing)
        with stage(name, len(missing)) as progress:
            for _, (records, about) in tasks.run(measure, calls, solves=True):
                _append(folder / RECORDS, records)
                _append(folder / UNITS, [about])
                errors += sum(record["status"] == "error" for record in records)
                progress.advance(1)
    return 1 if errors else 0


def _sizes(missing: int, design: Design) -> str:
    rows = "all" if design.training_rows is None else f"at most {design.training_rows:,}"
    return (
        f"{counted(missing, 'simulation')} to run, each with {design.rows} customers, {rows} training rows, "
        f"{design.trees} trees, {design.truth} truth forests, {design.time_limit:g} s per customer and method"
    )


def _missing(folder: Path, units: Sequence[Unit]) -> list[Unit]:
    done = {(about["data"], about["simulation"]) for about in _lines(folder / UNITS)}
    return [unit for unit in units if (unit.data, unit.simulation) not in done]


def _design(folder: Path, asked: Design) -> Design:
    """Return the folder's own design, or the one asked for if the folder is new."""
    found = read_design(folder)
    if found is None:
        return asked
    if found.trees != asked.trees:
        raise BadInput(f"{folder} was begun with forests of {found.trees} trees; choose another output")
    return found


def read_design(folder: Path) -> Design | None:
    """Return the design that a folder was begun with; None if it is new."""
    path = folder / DESIGN
    if not path.is_file():
        if (folder / UNITS).is_file():
            raise BadInput(f"{folder} has {UNITS} but no {DESIGN}, which says how its simulations were run")
        return None
    try:
        return Design(**parse_json(path.read_bytes()))
    except (ValueError, TypeError) as error:
        raise BadInput(f"{path}: not the design of an experiment: {error}") from None


def _lines(path: Path) -> list[dict[str, Any]]:
    """Return every whole line; a stopped run may have left a part of a line."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _append(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Append records after the last whole line."""
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write("".join(json.dumps(r) + "\n" for r in records).encode())


def read_certified(output: Path) -> Results:
    """Return the finished simulations below `output`."""
    rows, units = [pd.DataFrame(columns=COLUMNS)], [pd.DataFrame(columns=ABOUT)]
    designs: dict[str, Design] = {}
    for name, scenario in SCENARIOS.items():
        folder = output / "runs" / name
        design = read_design(folder)
        if design is None or not (about := _lines(folder / UNITS)):
            continue
        found = collect(_lines(folder / RECORDS), about, design)
        rows.append(found[0])
        units.append(found[1])
        designs[scenario] = design
    full = [pd.concat(parts[1:] or parts, ignore_index=True) for parts in (rows, units)]
    return Results(full[0], full[1], designs)


def write_certified(output: Path) -> Path:
    """Write the page, its figure and tables, and all records in one file."""
    results = read_certified(output)
    figures = output / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    rows, drawn = results.of("same-data"), []
    if len(rows):
        tables.compared(rows).to_csv(output / "certified-compared.csv", index=False)
        front = tables.front(rows)
        front.to_csv(output / "certified-front.csv", index=False)
        if len(front):
            draw(front).savefig(figures / f"{FRONT}.png", dpi=90)
            drawn.append(FRONT)
    write_file(results, output / FILE)
    path = output / PAGE
    path.write_text(page(results, drawn), encoding="utf-8")
    return path


def write_file(results: Results, path: Path) -> None:
    """Write all records in one small file."""
    about: dict[str, Any] = {"units": results.units.to_dict("records")}
    about |= {"designs": {name: d.as_json() for name, d in results.designs.items()}}
    write_noted(results.rows, about, path)


def read_file(path: Path) -> Results:
    """Read a file of `write_file`."""
    try:
        rows, note = read_noted(path)
        designs = {name: Design(**d) for name, d in note["designs"].items()}
    except (*BROKEN, KeyError, TypeError) as error:
        raise BadInput(f"{path}: not the records of `certified`: {error}") from None
    rows["certified"] = rows["certified"].astype("boolean")
    return Results(rows, pd.DataFrame(note["units"]), designs)
