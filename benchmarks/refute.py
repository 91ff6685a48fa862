"""Find claims of answers that points of other answers refute.

Answers are dictionaries with the fields that `limits.py` stores. Points are exact, because the real model
scored them. A point refutes claims about the same customer, whatever its method, limit or solver.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

Answer = dict[str, Any]
CUSTOMER = ("world", "row", "voting")
SLACK = 1e-6  # relative tolerance of objectives: that of the 1-LOF solver
SCORE = 1e-9  # tolerance of scores: the tie margin of soft votes
LENGTH = 1e-7  # tolerance of the distance to an isolation forest's threshold
THRESHOLD_METHODS = ("naive", "direct-saa", "robust-saa", "convex-approximation")
ACCEPTED = ("optimal", "feasible")


def refutations(answers: Iterable[Answer]) -> list[str]:
    """Return one line per refuted claim and per answer that failed its own check."""
    wrong: list[str] = []
    customers: dict[tuple[Any, ...], list[Answer]] = defaultdict(list)
    for answer in answers:
        customers[tuple(answer[k] for k in CUSTOMER)].append(answer)
    for mine in customers.values():
        wrong += [f"{named(a)}: {line}" for a in mine for line in _about(a, mine)]
    return wrong


def named(answer: Answer) -> str:
    """Return a readable name of an answer."""
    return (
        f"{answer['world']} row {answer['row']} {answer['voting']} {answer['method']} "
        f"by {answer['solver']} in {answer['limit']:g} s"
    )


def _about(a: Answer, customer: Sequence[Answer]) -> list[str]:
    """Return what is wrong with one answer, given all answers of its customer."""
    if a["status"] == "error" or (a["point"] and not a["verified"]):
        return [f"{a['status']}: {a['reason']}"]
    wrong = []
    reached = max((b["score"] for b in customer if b["point"]), default=-math.inf)
    if a["status"] == "no_recourse" and a["best_score"] is not None:
        most = a["best_score"] + a["best_score_gap"]
        if reached > most + SCORE:
            wrong.append(f"claims that no point scores above {most!r}, but one scores {reached!r}")
        as_good = [b["distance"] for b in customer if b["point"] and b["score"] >= a["best_score"] + 1e-12]
        nearest = min(as_good, default=math.inf)
        if a["lower_bound"] is not None and _above(a["lower_bound"], nearest):
            wrong.append(f"bounds the nearest best point by {a['lower_bound']!r}, but one is at {nearest!r}")
    best = _least_objective(a, customer)
    if a["status"] == "no_recourse" and math.isfinite(best):
        wrong.append(f"no_recourse, but a point at {best!r} exists")
    if a["status"] == "relaxed":
        wrong += _about_relaxed(a, customer)
    bound = a["objective"] if a["status"] == "optimal" else a["lower_bound"]
    if a["status"] in ("optimal", "feasible", "timeout") and bound is not None and _above(bound, best):
        wrong.append(f"{a['status']} with bound {bound!r}, but a point at {best!r} exists")
    return wrong


def _least_objective(a: Answer, customer: Sequence[Answer]) -> float:
    """Return the lowest objective of a point that meets the method's demands."""
    same = [b for b in customer if b["method"] == a["method"] and b["status"] in ACCEPTED]
    least = [b["objective"] for b in same]
    by_score = a["method"].split(" ")[0] in THRESHOLD_METHODS
    if by_score or a["status"] == "no_recourse":  # any point with the score
        least += [b["distance"] for b in customer if b["point"] and _reaches(b["score"], a)]
    return min(least, default=math.inf)


def _reaches(score: float, a: Answer) -> bool:
    """Whether a score is high enough for an answer's method, despite rounding."""
    if a["voting"] == "hard":
        return bool(score > 0.5 and score >= a["threshold"] - SCORE)
    return bool(score >= max(a["threshold"], 0.5 + SCORE) + 1e-10)


def _about_relaxed(a: Answer, customer: Sequence[Answer]) -> list[str]:
    """Check a relaxed answer.

    No accepted point may exist, and none nearer to acceptance.
    """
    same = [b for b in customer if b["method"] == a["method"]]
    if any(b["status"] in ACCEPTED for b in same):
        return ["relaxed, but a point that the isolation forest accepts exists"]
    least = min(b["relaxation"] for b in same if b["status"] == "relaxed")
    if "time limit" not in (a["reason"] or "") and a["relaxation"] > least + LENGTH:
        return [f"relaxed by {a['relaxation']!r}, but a point relaxed by {least!r} exists"]
    return []


def _above(bound: float, point: float) -> bool:
    return math.isfinite(point) and bound > point + SLACK * abs(point) + 1e-12
