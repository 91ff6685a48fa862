"""A customer's options in `robustcf explain`: alternatives, and what few changes can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from robustcf import Counterfactual, Explainer
from robustcf.show import as_record

from ..terminal.printing import print_counterfactual, table

MOST_CHANGES = 3


@dataclass(frozen=True)
class Options:
    """The alternatives to one answer, and the nearest answers with one change, two and three."""

    nearest: Counterfactual
    alternatives: list[Counterfactual]
    asked: int
    few: list[Counterfactual]

    @property
    def complete(self) -> bool:
        """Whether it is proved that no other alternative exists."""
        cut = any(cf.status in ("timeout", "error") for cf in self.alternatives)
        return not cut and len(self.alternatives) < self.asked - 1


def options_of(
    explainer: Explainer, row: Mapping[str, Any], answers: Sequence[Counterfactual], k: int
) -> list[Options]:
    """Return the options for each answer that works and whose method has alternatives."""
    found = []
    for cf in answers if k > 1 else ():
        if cf.works and cf.method.has_alternatives:
            alone = explainer.for_method(cf.method)
            few = alone.with_few_changes(row, MOST_CHANGES)
            found.append(Options(cf, alone.alternatives(row, k)[1:], k, few))
    return found


def print_options(
    out: Console,
    explainer: Explainer,
    row: Mapping[str, Any],
    options: Options,
    robustness: Callable[[Counterfactual], str],
) -> None:
    """Print the alternatives one by one, then the table of few changes."""
    out.print()
    out.print(Text(f"Other ways, {options.nearest.method.title}", style="bold"))
    for cf in options.alternatives:
        print_counterfactual(out, explainer, row, cf)
        if cf.works:
            out.print(robustness(cf))
    if options.complete:
        out.print(Text("✓ proved: there is no other way that is truly different", style="green"))
    out.print()
    made = table("with at most", "distance", "changes", right=("distance",))
    for most, cf in enumerate(options.few, start=1):
        words = ", ".join(change.feature for change in cf.changes) if cf.works else _outcome(cf)
        distance = f"{cf.distance:.4f}" if cf.works else ""
        made.add_row(f"{most} change{'s' * (most > 1)}", distance, Text(words))
    out.print(made)


def _outcome(cf: Counterfactual) -> str:
    return "no way" if cf.status == "no_recourse" else cf.status


def record_of(
    options: Options, validities: Callable[[Counterfactual], Mapping[str, float | None]]
) -> dict[str, Any]:
    """Return the options as a JSON value."""
    return {
        "method": options.nearest.method.name,
        "alpha": options.nearest.method.alpha,
        "alternatives": [as_record(cf) | dict(validities(cf)) for cf in options.alternatives],
        "complete": options.complete,
        "few_changes": [as_record(cf) | {"at_most": n} for n, cf in enumerate(options.few, start=1)],
    }
