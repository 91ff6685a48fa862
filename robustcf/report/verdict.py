"""Summarise the report in a few sentences, and warn of promises that were not kept."""

from __future__ import annotations

from robustcf.report.content import Population
from robustcf.report.method_line import MethodLine, Outcomes
from robustcf.report.words import count, number, share, with_interval

NOTHING_MEASURED = (
    "Nothing was measured: the run had no training data, so no forest was retrained. Whether the changes "
    "survive retraining is unknown."
)


def warnings(p: Population) -> list[str]:
    """Return a warning for each method whose measured validity lies significantly below its target."""
    return [_warning(m) for m in p.methods if m.falls_short]


def _warning(m: MethodLine) -> str:
    target, found = share(1 - (m.alpha or 0.0), 0), with_interval(m.promised, "share")
    if m.certificates is not None:
        return (
            f"{m.title} claims that at least {target} of retrained forests accept a certified change, but "
            f"validation measured {found} ({m.certificates.scenario}). Do not rely on these certificates: "
            "check the training rows, and check the run with robustcf verify."
        )
    return (
        f"{m.title} aims at {target}, but only {found} of its changes work in retrained forests (same-data). "
        "Do not call these changes robust. What to do: certify them (method “certified”), use a forest with "
        "more trees or with shallower trees, or use Robust-SAA with a smaller β."
    )


def verdict(p: Population, experiment: bool = False) -> list[str]:
    """Return the sentences that summarise one population; what was measured comes first."""
    unread = f"; {count(p.invalid)} could not be read" if p.invalid else ""
    said = [f"The model denied {count(p.denied)} of {count(p.seen)} customers{unread}."]
    if experiment:
        said = [f"The run looked for a change of class for {count(p.denied)} rows{unread}."]
    if p.decision is not None:
        said.append(p.decision)
    if not p.denied:
        return said
    strict, naive = p.strict_method, p.naive
    said = [*_measured(strict or naive, naive), *said]
    if p.fully_grown and strict is not None and strict.falls_short:
        said.insert(0, _grown(strict))
    said.append(_outcomes(p.any, "an allowed change that flips the decision"))
    if strict is None or p.strict is None:
        return [*said, "The run has no method that aims at robustness against retraining."]
    demand = f"a change with a score of at least {number(strict.threshold)} ({strict.title})"
    if strict.certificates is not None:
        demand = f"a certified change ({strict.title})"
    said.append(_outcomes(p.strict, demand))
    if strict.ratio is not None:
        said.append(
            f"The change of {strict.title} is {strict.ratio:.1f} times as far as the naive change (mean "
            f"distance {number(strict.distance_paired)} against {number(strict.naive_paired)}, on the "
            f"{count(strict.pairs)} customers who have both)."
        )
    return said


def _grown(method: MethodLine) -> str:
    """Say that the model is the obstacle to robustness, and what helps."""
    found, target = share(method.promised.value), share(1 - (method.alpha or 0.0), 0)
    return (
        "The model itself is the obstacle: its trees are fully grown, so each repeats its own rows, and the "
        f"score of one forest says little about the next ({found} of the changes of {method.title} still "
        f"work, the target is {target}). What helps: limit the trees (max_depth, or min_samples_leaf of 5 "
        "and more) and compare the accuracy, or ask for certified changes (method “certified”)."
    )


def _outcomes(outcomes: Outcomes, what: str) -> str:
    """Say how many have it, how many are proved to have none, and how many are unresolved."""
    if outcomes.reached == outcomes.total:
        return f"All {count(outcomes.total)} of them have {what}."
    parts = [f"{count(outcomes.reached)} of them have {what}"]
    if outcomes.uncertified:
        parts.append(f"{count(outcomes.uncertified)} have only a change that is not certified")
    if outcomes.none:
        parts.append(f"{_are(outcomes.none)} proved to have none")
    if outcomes.unresolved:
        parts.append(f"{_are(outcomes.unresolved)} unresolved")
    return "; ".join(parts) + "."


def _are(n: int) -> str:
    return f"{count(n)} {'is' if n == 1 else 'are'}"


def _measured(method: MethodLine | None, naive: MethodLine | None) -> list[str]:
    """Say what retraining measured for the strictest method and for the naive one."""
    if method is None or not method.validity:
        return [NOTHING_MEASURED]
    first = method.validity[0]
    said = f"After retraining ({first.scenario}), {_still(method, first.reached.value)} still work"
    if method.promises and method.alpha is not None:
        said += f" (target {share(1 - method.alpha, 0)})"
    if naive is not None and naive is not method and naive.validity:
        said += f", against {_still(naive, naive.validity[0].reached.value)}"
    sentences = [said + "."]
    own = method.certificates
    if own is not None and own.certified:
        held = method.promised
        measured = (
            f"on other forests they held in {with_interval(held, 'share')} of the cases, and the promise is "
            f"at least {share(1 - (method.alpha or 0.0), 0)}"
        )
        if held.value is None:
            measured = f"validation did not measure the scenario {own.scenario}"
        sentences.append(
            f"Of the changes of {method.title}, {count(own.certified)} of {count(own.recourse)} are "
            f"certified; {measured}."
        )
    return sentences


def _still(method: MethodLine, value: float | None) -> str:
    return f"{share(value)} of the changes of {method.title}"
