"""Summarise the report in a few sentences."""

from __future__ import annotations

from robustcf.report.content import MethodLine, Outcomes, Population
from robustcf.report.words import count, number, share


def verdict(p: Population, experiment: bool = False) -> list[str]:
    """Return the sentences that summarise one population."""
    unread = f"; {count(p.invalid)} could not be read" if p.invalid else ""
    said = [f"The model denied {count(p.denied)} of {count(p.seen)} customers{unread}."]
    if experiment:
        said = [f"The run looked for a change of class for {count(p.denied)} rows{unread}."]
    if not p.denied:
        return said
    if p.n_classes == 2:
        said.append(_outcomes(p.any, "an allowed change that flips the decision"))
    else:
        said.append(_outcomes(p.any, "an allowed change that gives the target class half of the votes"))
        said.append(
            f"One of {p.n_classes} classes can win with less than half of the votes. A customer proved to "
            "have no such change may still have one that flips the decision."
        )
    robust, naive = p.robust_method, p.naive
    if robust is None or p.robust is None:
        return [*said, "The run has no robust method."]
    demand = f"a robust change ({robust.title}: score of at least {number(robust.threshold)})"
    said.append(_outcomes(p.robust, demand))
    said.append(_validity(robust, naive))
    if robust.ratio is not None:
        said.append(
            f"The robust change is {robust.ratio:.1f} times as far as the naive change (mean "
            f"distance {number(robust.distance_paired)} against {number(robust.naive_paired)}, on the "
            f"{count(robust.pairs)} customers who have both)."
        )
    return said


def _outcomes(outcomes: Outcomes, what: str) -> str:
    """Say how many have it, how many are proved to have none, and how many are unresolved."""
    if outcomes.reached == outcomes.total:
        return f"All {count(outcomes.total)} of them have {what}."
    parts = [f"{count(outcomes.reached)} of them have {what}"]
    if outcomes.none:
        parts.append(f"{_are(outcomes.none)} proved to have none")
    if outcomes.unresolved:
        parts.append(f"{_are(outcomes.unresolved)} unresolved")
    return "; ".join(parts) + "."


def _are(n: int) -> str:
    return f"{count(n)} {'is' if n == 1 else 'are'}"


def _validity(robust: MethodLine, naive: MethodLine | None) -> str:
    if not robust.validity:
        return "Validity under retraining was not measured, because the run had no training data."
    first = robust.validity[0]
    held = f"After retraining ({first.scenario}), {share(first.reached)} of the robust changes still work"
    if naive is not None and naive.validity:
        held += f", against {share(naive.validity[0].reached)} of the naive changes"
    return held + "."
