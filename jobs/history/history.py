"""`robustcf history`: one page and two tables about any number of audits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa

from robustcf.methods.registry import title_of
from robustcf.report.history import Broken, History, render_history
from robustcf.report.history import Night as NightLine
from robustcf.report.method_line import Estimate

from ..cluster.signals import at_once
from ..inputs.errors import BadInput
from ..run.folder import BROKEN as UNREADABLE
from ..run.folder import RunFolder
from ..run.planned import readable_shards
from ..run.rows import Key
from ..terminal.progress import stage
from .find import Night, nights_of
from .lines import SCHEMA, MethodNight, method_nights
from .promises import BROKEN, Step, step_between

SHOWN = 10  # customers that the page names for each method and new model


def history(addresses: Sequence[str], output: str) -> list[str]:
    """Write the history of the audits at these addresses; return the addresses of the files."""
    folder = RunFolder(output)
    if folder.exists("manifest.json"):
        raise BadInput(f"{folder.shown} is a run folder; choose another --output")
    try:
        with at_once():
            nights = nights_of(addresses)
            methods = [list(method_nights(night)) for night in nights]
            steps = _steps(nights)
    except (*UNREADABLE, KeyError) as error:
        raise BadInput(f"a run is damaged or was not written by robustcf: {error}") from error
    table = pa.Table.from_pylist(list(_lines(nights, methods, steps)), schema=SCHEMA)
    broken = pa.concat_tables(
        [step.customers for step in steps if step is not None] or [BROKEN.empty_table()]
    )
    page = render_history(_content(nights, methods, steps))
    folder.publish_table("history.parquet", table)
    folder.publish_table("broken.parquet", broken)
    folder.publish("history.html", page.encode())
    return [folder.showing(name) for name in ("history.html", "history.parquet", "broken.parquet")]


def _steps(nights: Sequence[Night]) -> list[Step | None]:
    """Return what each run changed since the run before; None for the first run."""
    pairs = list(pairwise(nights))
    shards = [len(readable_shards(before.run, before.manifest)) for before, _ in pairs]
    steps: list[Step | None] = [None]
    done = 0
    with stage("testing promises", sum(shards)) as progress:
        for (before, after), count in zip(pairs, shards, strict=True):
            steps.append(step_between(before, after, progress.advance))
            done += count
            progress.advance(done - progress.done)  # a model that did not change is not tested
    return steps


def _lines(
    nights: Sequence[Night], methods: Sequence[Sequence[MethodNight]], steps: Sequence[Step | None]
) -> list[dict[str, Any]]:
    """Return the rows of `history.parquet`: one for each run and method."""
    made = []
    for k, (night, own, step) in enumerate(zip(nights, methods, steps, strict=True)):
        manifest = night.manifest
        about = {
            "position": k + 1,
            "run": night.run.shown,
            "began": night.began or None,
            "seconds": manifest.get("seconds"),
            "alarms": (manifest.get("alarms") or {}).get("state"),
            "model_changed": None if step is None else step.model,
            "schema_change": None if step is None else step.schema,
            "data_changed": None if step is None else step.data,
            "forest_hash": manifest["forest_hash"],
            "schema_hash": manifest["schema_hash"],
        }
        for method in own:
            tested = step is not None and step.given[method.key]
            promises = {
                "promises_given": step.given[method.key] if step and tested else None,
                "promises_broken": step.broken[method.key] if step and tested else None,
            }
            made.append(about | method.as_columns() | promises)
    return made


def _content(
    nights: Sequence[Night], methods: Sequence[Sequence[MethodNight]], steps: Sequence[Step | None]
) -> History:
    followed = _followed(methods)
    titles = [title_of(*key) for key in followed]
    lines, broken = [], list[Broken]()
    for k, (night, own, step) in enumerate(zip(nights, methods, steps, strict=True)):
        seconds = Estimate(night.manifest.get("seconds"))
        lines.append(
            NightLine(
                night.run.shown,
                night.when,
                own[0].customers,
                own[0].denied,
                step is not None and step.model,
                "" if step is None else step.schema,
                (night.manifest.get("alarms") or {}).get("state"),
                {m.title: {**m.figures, "seconds": seconds} for m in own if m.key in followed},
            )
        )
        if step is not None:
            broken += _broken(k + 1, night, step, followed)
    return History(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", tuple(titles), tuple(lines), tuple(broken))


def _followed(methods: Sequence[Sequence[MethodNight]]) -> list[Key]:
    """Return the strictest method of the last run and, if there is one, the naive method."""
    strict = next(m.key for m in methods[-1] if m.strictest)
    naive = [m.key for m in methods[-1] if m.key[0] == "naive" and m.key != strict]
    return [strict, *naive]


def _broken(number: int, night: Night, step: Step, followed: Sequence[Key]) -> list[Broken]:
    if step.problem is not None:
        return [Broken(number, night.run.shown, title_of(*followed[0]), 0, 0, problem=step.problem)]
    made = []
    for key in followed:
        if step.given[key]:
            names = [
                row["instance_id"]
                for row in step.customers.to_pylist()
                if (row["method"], row["alpha"], row["beta"], row["parameter"]) == key
            ]
            made.append(
                Broken(
                    number,
                    night.run.shown,
                    title_of(*key),
                    step.given[key],
                    step.broken[key],
                    tuple(sorted(names)[:SHOWN]),
                )
            )
    return made
