"""The report in a few sentences, for those who read no further."""

from __future__ import annotations

from robustcf.report.content import MethodLine, Outcomes, Population
from robustcf.report.words import count, number, share


def verdict(p: Population, experiment: bool = False) -> list[str]:
    """What came out for one population, sentence by sentence."""
    unread = f"; {count(p.invalid)} could not be read" if p.invalid else ""
    said = [f"The model turned down {count(p.denied)} of {count(p.seen)} customers{unread}."]
    if experiment:
        said = [
            f"{count(p.denied)} rows were asked for the class that the forest does not give them{unread}."
        ]
    if not p.denied:
        return said
    if p.n_classes == 2:
        said.append(_outcomes(p.any, "an allowed change that turns the decision"))
    else:
        said.append(_outcomes(p.any, "an allowed change that gives the class wanted half of the votes"))
        said.append(
            f"One of {p.n_classes} classes can win with less than half of the votes: who is proved to have "
            "no such change may still have one that turns the decision."
        )
    robust, naive = p.robust_method, p.naive
    if robust is None or p.robust is None:
        return [*said, "The run asked for no robust method."]
    demand = f"a change robust to retraining ({robust.title}: score of at least {number(robust.threshold)})"
    said.append(_outcomes(p.robust, demand))
    said.append(_validity(robust, naive))
    if robust.ratio is not None:
        said.append(
            f"The price: the robust change is {robust.ratio:.1f} times as far as the naive one (mean "
            f"distance {number(robust.distance_paired)} against {number(robust.naive_paired)}, on the "
            f"{count(robust.pairs)} customers who have both)."
        )
    return said


def _outcomes(outcomes: Outcomes, what: str) -> str:
    """Who has it, who is proved not to, and of whom nothing is known."""
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
        return "Whether the advice survives retraining was not measured: the run had no training data."
    first = robust.validity[0]
    held = f"When the forest was trained again ({first.scenario}), {share(first.reached)} of that advice held"
    if naive is not None and naive.validity:
        held += f", against {share(naive.validity[0].reached)} of the naive"
    return held + "."
