"""`robustcf reproduce`: run or resume the paper's experiments."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from robustcf.datasets import load
from robustcf.datasets.named import FOLDER_VARIABLE
from robustcf.reproduction.certified.design import Design

from ..cluster.capacity import started_here
from ..cluster.session import cpus_of, session
from ..cluster.signals import side_by_side
from ..inputs.config import SweepConfig, config_as_json, config_hash
from ..inputs.errors import BadInput, reporting_bad_input
from ..run.claim import claimed
from ..run.folder import RunFolder
from ..sweep.sweep import sweep
from .authors import missing_simulations, run_authors
from .certified import PAGE, SCENARIOS, run_certified, write_certified
from .experiments import ORDER, Experiment, experiment
from .results import Results, read_results

UNPROVED = ("feasible", "timeout")
CLOCK = "wall.jsonl"
AT_ONCE = 4  # parallel sweeps on a cluster, or on a machine with as many cores


@dataclass(frozen=True)
class Request:
    """What to reproduce; empty `experiments` means all of the paper, empty `datasets` all."""

    output: Path
    experiments: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    fraction: float = 1.0
    data: Path | None = None
    time_limit: float = 60.0
    results: Path | None = None  # of an earlier reproduction
    training_rows: int | None = None  # most rows of a forest, in the experiments about certificates
    customers: int = 5  # of a simulation, in these experiments

    @property
    def certified(self) -> list[str]:
        """The chosen experiments about certificates. They take hours and are chosen by name only."""
        return [name for name in self.experiments if name in SCENARIOS]

    @property
    def of_the_paper(self) -> list[str]:
        return [name for name in self.experiments or ORDER if name not in SCENARIOS]

    @property
    def pages(self) -> list[Path]:
        """The pages that the command writes."""
        made = (("reproduction.md", self.of_the_paper), (PAGE, self.certified))
        return [self.output / page for page, names in made if names]


def reproduce(request: Request, address: str | None = None, cpus: int | None = None) -> int:
    """Run the missing experiments, write the pages, and return the exit code."""
    from .material import write_page

    if not 0 < request.fraction <= 1:
        raise BadInput(f"--fraction is {request.fraction}; it must lie in (0, 1]")
    if not request.time_limit > 0:
        raise BadInput(f"--time-limit is {request.time_limit}; it must be positive")
    chosen = [experiment(name) for name in request.of_the_paper]
    earlier = Results() if request.results is None else read_results(request.results)
    code = 0
    with _data_folder(request.data):
        if chosen:
            code = _run_missing(request, chosen, earlier, address, cpus)
            write_page(request.output, earlier)
        for name in request.certified:
            design = Design(
                rows=request.customers, training_rows=request.training_rows, time_limit=request.time_limit
            )
            sets, size = request.datasets, request.fraction
            code = max(code, run_certified(name, request.output, sets, size, design, address, cpus))
        if request.certified:
            write_certified(request.output)
    return code


def _run_missing(
    request: Request, chosen: list[Experiment], earlier: Results, address: str | None, cpus: int | None
) -> int:
    missing = []
    for e in chosen:
        for dataset in e.chosen(request.datasets):
            output = str((request.output / "runs" / e.name / dataset).absolute())
            asked = e.config(dataset, request.fraction, output, request.time_limit)
            config: SweepConfig | None
            if earlier.covers(e.name, dataset, asked):
                config = None
            elif e.draw == "authors":
                config = asked if missing_simulations(asked) else None
            else:
                config = going_on(asked)
            if config is not None:
                missing.append((e, dataset, config))
    if not missing:
        return 0
    read = cache(load)  # each data set is read once
    with session(address, 1, cpus) as ray:

        def run(e: Experiment, dataset: str, config: SweepConfig) -> int:
            begin = time.time()
            with reporting_bad_input(ValueError):
                data = read(dataset)
            if e.draw == "authors":
                code = run_authors(ray, config, e.simulations, data)
            else:
                lenders = _lenders(request.output, config)
                code = sweep(config, address, cpus, lenders, read, f"{e.name} {dataset}")
            _note_time(request.output, e.name, dataset, begin, cpus)
            return code

        # While one sweep solves its last hard row, others use the cores.
        at_once = min(cpus_of(ray), AT_ONCE) if started_here(ray) else AT_ONCE
        return max(side_by_side((partial(run, *each) for each in missing), at_once))


def going_on(config: SweepConfig) -> SweepConfig | None:
    """Return the config to resume this sweep's folder, or None if it is complete.

    Simulations are independent, and an answer depends on the time limit only if it hit the limit. So a
    folder with fewer simulations or a shorter limit is extended. A folder with more than requested is
    used as it is.
    """
    run = RunFolder(config.output)
    manifest = run.manifest()
    if manifest is None:
        return config
    begun, limit = manifest["config"]["sweep"]["simulations"], manifest["config"]["solver"]["time_limit"]
    if manifest["config_hash"] != config_hash(_sized(config, begun, limit)):
        raise BadInput(f"{run.shown} belongs to another run; choose another output")
    wanted = _sized(config, max(begun, config.sweep.simulations), max(limit, config.solver.time_limit))
    if manifest["config_hash"] == config_hash(wanted):
        return None if manifest["state"] == "complete" else wanted
    with claimed(run):
        if wanted.solver.time_limit > limit:
            _forget_unproved(run, manifest)
        changed = {"config": config_as_json(wanted), "config_hash": config_hash(wanted), "state": "running"}
        run.write_manifest(manifest | changed)
    return wanted


def _lenders(output: Path, config: SweepConfig) -> list[RunFolder]:
    """Return runs of the same data and design, to reuse their forests."""
    mine, dataset = Path(config.output), config.sweep.datasets[0]
    found = []
    for folder in sorted((output / "runs").absolute().glob(f"*/{dataset}")):
        run = RunFolder(str(folder))
        manifest = run.manifest()
        if folder != mine and manifest is not None and _same_forests(manifest["config"], config):
            found.append(run)
    return found


def _same_forests(theirs: Mapping[str, Any], config: SweepConfig) -> bool:
    mine = config_as_json(config)
    decisive = ("rows", "trees", "depth", "first_share")
    return bool(
        theirs["seed"] == mine["seed"] and all(theirs["sweep"][k] == mine["sweep"][k] for k in decisive)
    )


def _sized(config: SweepConfig, simulations: int, time_limit: float) -> SweepConfig:
    return replace(
        config,
        sweep=replace(config.sweep, simulations=simulations),
        solver=replace(config.solver, time_limit=time_limit),
    )


def _forget_unproved(run: RunFolder, manifest: dict[str, Any]) -> None:
    """Delete shards in which a row hit the old time limit, to solve them again."""
    for name, facts in list(manifest["shards"].items()):
        if any(facts.get("counts", {}).get(status) for status in UNPROVED):
            for file in (name, name.replace("counterfactuals/", "validation/")):
                manifest["shards"].pop(file, None)
                if run.exists(file):
                    run.filesystem.delete_file(run.path(file))


def _note_time(output: Path, name: str, dataset: str, begin: float, cpus: int | None) -> None:
    record = {
        "experiment": name,
        "dataset": dataset,
        "seconds": round(time.time() - begin, 1),
        "cpus": cpus or os.cpu_count(),
    }
    with (output / CLOCK).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(record) + "\n")


@contextmanager
def _data_folder(data: Path | None) -> Iterator[None]:
    """Search data sets in this folder while the context lasts."""
    before = os.environ.get(FOLDER_VARIABLE)
    if data is not None:
        if not data.is_dir():
            raise BadInput(f"--data {data} is not a folder")
        os.environ[FOLDER_VARIABLE] = str(data.absolute())
    try:
        yield
    finally:
        if data is not None:
            os.environ.pop(FOLDER_VARIABLE)
            if before is not None:
                os.environ[FOLDER_VARIABLE] = before
