"""Print counterfactuals and counts on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from .printable import printable

if TYPE_CHECKING:
    from robustcf import Counterfactual, Explainer
    from robustcf.schema.encode import Row

    from ..run.folder import RunFolder

MARKS = {"optimal": ("✓", "green"), "no_recourse": ("✗", "yellow"), "already_favourable": ("✓", "green")}


class _PlainConsole(Console):
    """A console that prints no markup, no emoji and no control characters of the data."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


def console() -> Console:
    return _PlainConsole(highlight=False, soft_wrap=False, markup=False, emoji=False)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        made.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=column == "name",
            overflow="fold",
        )
    return made


def print_counterfactual(out: Console, explainer: Explainer, row: Row, cf: Counterfactual) -> None:
    """Print one answer: demand, changes, score, distance, time and verdict."""
    from robustcf.show import certificate_text, change_rows, demand, rounded_changes, verdict

    out.print()
    title = f"Alternative {cf.alternative}" if cf.alternative else cf.method.title
    out.print(Text.assemble((title, "bold"), (f"  {demand(cf)}", "dim")))
    if cf.works and cf.changes:
        made = table("change", "from", "to")
        for label, before, after in change_rows(explainer.schema, rounded_changes(explainer, row, cf)):
            made.add_row(Text(label), Text(before), Text(after, style="bold"))
        out.print(made)
    if cf.works:
        out.print(
            f"score {cf.score_before:.3f} → {cf.score:.3f} · distance {cf.distance:.4f} · {cf.seconds:.3f} s"
        )
    mark, colour = MARKS.get(cf.status, ("!", "red"))
    out.print(Text(f"{mark} {verdict(cf)}", style=colour))
    if (said := certificate_text(cf)) is not None:
        holds = cf.certificate is not None and cf.certificate.certified
        out.print(Text(f"{'✓' if holds else '!'} {said}", style="green" if holds else "yellow"))


def print_counts(address: str) -> None:
    """Print a run's counts by status, its validity and where its summary is."""
    from robustcf.methods.registry import title_of

    from ..run.folder import require_run

    run, manifest = require_run(address)
    made = table("status", "rows", right=("rows",))
    for status, count in manifest["counts"].items():
        made.add_row(status, f"{count:,}")
    out = console()
    out.print(made)
    if "previous" in manifest:
        out.print(Text(f"previous run: {manifest['previous']}"), soft_wrap=True)
    for row in manifest.get("survival", []):
        name = title_of(row["method"], row["alpha"], None, None)
        out.print(f"earlier recourses that still work, {name}: {row['survived']:,} of {row['given']:,}")
    out.print(f"validity: {manifest.get('validation', 'not measured')}")
    for line in _promises(run):
        out.print(Text(line), soft_wrap=True)
    _print_alarms(out, run)
    out.print(Text(run.showing("summary/summary.csv")), soft_wrap=True)


def _print_alarms(out: Console, run: RunFolder) -> None:
    """Print one line for each broken limit, or that all limits hold."""
    from ..run.alarms import FILE, read_alarms

    found = read_alarms(run)
    if found is None:
        return
    for alarm in found.broken:
        style = "red" if alarm.state == "fail" else "yellow"
        out.print(Text(f"! {alarm.state.upper()}: {alarm.text}", style=style), soft_wrap=True)
    if found.state == "ok":
        held = "the limit" if len(found.alarms) == 1 else f"all {len(found.alarms)} limits"
        out.print(Text(f"✓ {held} of {found.method} kept", style="green"), soft_wrap=True)
    out.print(Text(run.showing(FILE)), soft_wrap=True)


def _promises(run: RunFolder) -> Iterator[str]:
    """Say what was measured for each method that aims at a validity of 1 - α, and its certificates."""
    from robustcf.methods.registry import certifies, promises, title_of
    from robustcf.report.method_line import Estimate
    from robustcf.report.words import share, with_interval

    from ..run.reader import read_shard

    for line in read_shard(run, "summary", "summary.parquet").to_pylist():
        if line["cohort"] or not promises(line["method"]) or line["scenario"] not in (None, "same-data"):
            continue
        title = title_of(line["method"], line["alpha"], line["beta"], line["parameter"])
        where = f"{line['dataset']}, {line['n_trees']} trees: " if line["dataset"] != "customers" else ""
        certified = certifies(line["method"])
        column = "held" if certified else "validity_reached"
        found = Estimate(*(line[name] for name in (column, f"{column}_low", f"{column}_high")))
        said = f"{line['n_certified']:,} of {line['n_reached']:,} certified; " if certified else ""
        target = 1 - (line["alpha"] or 0.0)
        if found.value is None or found.high is None:
            said += "validity not measured"
        else:
            said += f"measured {with_interval(found, 'share')}, target {share(target, 0)}"
            said += ": below target; certify, or see the report" if found.high < target else ""
        yield f"{where}{title}: {said}"
