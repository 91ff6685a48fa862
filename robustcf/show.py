"""Describe a counterfactual for people, as texts and table rows.

Numbers are shown with few digits, but a shown change must still work. Every change is rounded away from the
customer's own value and scored by the forest again, with one more digit each time, until it reaches the same
score as the exact change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from robustcf.counterfactual import Change, Counterfactual
from robustcf.schema.check import broken_rules
from robustcf.schema.encode import Row, encode, read_rows
from robustcf.schema.feature import native
from robustcf.schema.schema import Feature, Schema, Value
from robustcf.support.tolerances import reached

if TYPE_CHECKING:
    from robustcf.certificate.certificate import Certificate
    from robustcf.explain import Explainer
    from robustcf.explain.blockers import Blockers
    from robustcf.explain.regions import Region, Side

DIGITS = 6
EXACT_DIGITS = 17  # enough to represent any float64 exactly


def demand(cf: Counterfactual) -> str:
    """Return what the method demands of the point.

    >>> from robustcf.methods import DirectSAA, Naive
    >>> demand(Counterfactual("timeout", Naive(), threshold=0.5))
    'flips the decision'
    >>> demand(Counterfactual("timeout", DirectSAA(0.05), threshold=0.586))
    'score of at least 0.586'
    """
    if cf.certificate is not None:
        return f"{_level(cf.certificate)}, and the forest's own decision"
    if cf.method.name == "naive":
        return "flips the decision"
    return f"score of at least {cf.threshold:.3f}"


def _by_plurality(cf: Counterfactual) -> bool:
    """Whether the demand is a score above every other class's, not a score alone."""
    return math.isnan(cf.cutoff) and cf.threshold < 0.5


def _level(certificate: Certificate) -> str:
    """Return the score at which a certified method's point is the nearest."""
    trees = certificate.pool_trees
    return f"score of at least {certificate.level:.3f} from {trees} trees"


def verdict(cf: Counterfactual) -> str:
    """Return in one line what the answer is and what is proved about it."""
    if cf.status == "optimal" and cf.certificate is not None:
        said = f"proved nearest at its level: no smaller allowed change has a {_level(cf.certificate)}"
        return f"{said} and flips the decision"
    if cf.status == "optimal" and cf.alternative:
        return "proved: no other change that is truly different is smaller"
    if cf.status == "optimal" and _by_plurality(cf):
        return "proved nearest: no smaller allowed change lifts the score above every other class's"
    if cf.status == "optimal":
        return "proved nearest: no allowed change that reaches the score is smaller"
    if cf.status == "feasible":
        return f"not proved nearest: time limit reached; a change up to {cf.gap:.1%} smaller may exist"
    if cf.status == "no_recourse":
        return f"proved: {no_way(cf.threshold, cf.best_score)}"
    if cf.status == "timeout":
        return "nothing found and nothing proved: time limit reached"
    if cf.status == "already_favourable":
        return "the decision is already favourable"
    return f"{cf.status.replace('_', ' ')}: {cf.reason}"


def no_way(threshold: float, best_score: float | None) -> str:
    """Say that no allowed change reaches a score, and how close the closest one comes.

    The closest score is rounded down: it must not seem to reach the threshold. With more than two classes, a
    score that can win need not be the highest.

    >>> no_way(0.5, 0.49998)
    'no change within the limits reaches a score of 0.500; the closest comes to 0.499'
    >>> no_way(1 / 3, 0.4321)
    "no change within the limits lifts the score above every other class's; its highest is 0.432"
    """
    if best_score is not None and best_score >= threshold:
        highest = math.floor(best_score * 1000) / 1000
        return (
            "no change within the limits lifts the score above every other class's; "
            f"its highest is {highest:.3f}"
        )
    said = f"no change within the limits reaches a score of {threshold:.3f}"
    if best_score is None or math.isnan(best_score):
        return said
    return f"{said}; the closest comes to {math.floor(best_score * 1000) / 1000:.3f}"


def region_text(schema: Schema, region: Region) -> list[str]:
    """Say how far a customer may overshoot, one line per changed feature."""
    lines = []
    for side in region.sides:
        feature = schema[side.feature]
        first = value_text(feature, _rounded_side(feature, side, side.value, inwards=False))
        bound = {"up": "of at least", "down": "of at most", "none": "of exactly"}[side.direction]
        said = f"{feature.label or feature.name} {bound} {first}"
        if side.direction != "none" and side.end is not None:
            last = value_text(feature, _rounded_side(feature, side, side.end, inwards=True))
            said = f"{feature.label or feature.name} from {first} to {last}; beyond that it can fail again"
        lines.append(said)
    return lines


def _rounded_side(feature: Feature, side: Side, value: Value, *, inwards: bool) -> Value:
    """Round an end of a region with few digits, into the region; exactly if that is not possible."""
    if feature.kind != "continuous" or feature.allowed is not None:
        return value
    first, last = feature.number(side.value), feature.number(side.value if side.end is None else side.end)
    up = (side.direction == "up") != inwards
    rounded = float(_rounded(feature.number(value), DIGITS, ROUND_CEILING if up else ROUND_FLOOR))
    unlimited = side.end is None and not inwards
    return rounded if unlimited or min(first, last) <= rounded <= max(first, last) else value


def blocking_text(found: Blockers) -> list[str]:
    """Say what blocks a customer without recourse, as lines of text."""
    if found.status == "found":
        one = len(found.constraints) == 1
        return [
            f"{'this limit blocks' if one else 'these limits together block'} every way; without "
            f"{'it' if one else 'them'} there is one, and no smaller set of limits would do (proved):",
            *(f"- {words}" for words in found.words),
        ]
    return [
        {
            "none": "no change reaches the score even without any of the schema's limits (proved)",
            "unknown": "which limits block every way was not found within the time limit",
            "not_blocked": "no limit blocks this customer",
        }[found.status]
    ]


def certificate_text(cf: Counterfactual) -> str | None:
    """Return a certificate's claim, or why there is none; None if the method makes no certificates.

    >>> from robustcf.methods import Certified, Naive
    >>> certificate_text(Counterfactual("no_recourse", Certified(0.05)))
    'no certificate: no allowed change flips the decision, so there is no point to test'
    >>> certificate_text(Counterfactual("optimal", Naive())) is None
    True
    """
    if cf.method.design is None or cf.status in ("already_favourable", "invalid_input"):
        return None
    if cf.certificate is not None:
        return f"certified: {cf.certificate}" if cf.certificate.certified else str(cf.certificate)
    if cf.status == "no_recourse":
        return "no certificate: no allowed change flips the decision, so there is no point to test"
    if cf.status == "timeout":
        return "no certificate: the time limit was reached before a point was found"
    return f"no certificate: {cf.reason or 'the row has no point'}"


def value_text(feature: Feature, value: Value, digits: int = EXACT_DIGITS) -> str:
    """Return a value with its unit; a number has at most `digits` digits.

    >>> value_text(Feature("income", "continuous", unit="EUR"), 12345.678, 6)
    '12,345.7 EUR'
    """
    if not feature.is_number or isinstance(value, str) or not math.isfinite(value):
        return str(value)
    text = _plain_text(_rounded(value, digits, ROUND_HALF_EVEN))
    return f"{text} {feature.unit}".rstrip()


def change_rows(schema: Schema, changes: tuple[Change, ...]) -> list[tuple[str, str, str]]:
    """Return the feature's label, old value and new value of each change.

    The new value is shown exactly.
    """
    rows = []
    for change in changes:
        feature = schema[change.feature]
        before, after = (value_text(feature, v, DIGITS) for v in (change.before, change.after))
        if before == after or value_text(feature, change.after) != after:
            before, after = value_text(feature, change.before, DIGITS), value_text(feature, change.after)
        rows.append((feature.label or feature.name, before, after))
    return rows


def rounded_changes(
    explainer: Explainer, row: Row, cf: Counterfactual, fewest: int = DIGITS
) -> tuple[Change, ...]:
    """Return the changes with as few digits as possible, checked with the real model.

    Parameters
    ----------
    explainer : Explainer
        The explainer of the row.
    row : mapping
        The customer, in original units.
    cf : Counterfactual
        The answer; it is not changed.
    fewest : int
        Significant digits to begin with.

    Returns
    -------
    tuple of Change
        With the fewest significant digits if they suffice, otherwise with more. Changes with a certificate
        stay exact, because the certificate is about the exact point.
    """
    if cf.certificate is not None:
        return cf.changes
    schema, demanded = explainer.schema, cf.best_score if cf.status == "no_recourse" else cf.threshold
    before = read_rows(schema, row, missing=True).numbers[0]
    for digits in range(fewest, EXACT_DIGITS):
        changes = tuple(_round_away(schema[c.feature], c, digits) for c in cf.changes)
        after = before.copy()
        for change in changes:
            after[schema.names.index(change.feature)] = schema[change.feature].number(change.after)
        if not broken_rules(schema, before, after) and _reaches(explainer, after, cf, demanded):
            return changes
    return cf.changes


def _reaches(explainer: Explainer, numbers: np.ndarray, cf: Counterfactual, score: float) -> bool:
    forest = explainer.forest
    assert cf.target is not None
    point = encode(explainer.schema, numbers[None, :])
    scores, predicted = forest.judged_score(point, cf.target, explainer.voting)
    flips = forest.classes[predicted[0]] == cf.target or cf.status == "no_recourse"
    return bool(flips and reached(scores[0], score, len(forest)))


def _round_away(feature: Feature, change: Change, digits: int) -> Change:
    """Round so that the change grows; listed values and multiples of a step stay."""
    if feature.kind != "continuous" or feature.allowed is not None or feature.step is not None:
        return change
    before, after = feature.number(change.before), feature.number(change.after)
    rounded = float(_rounded(after, digits, ROUND_CEILING if after > before else ROUND_FLOOR))
    return replace(change, after=rounded, delta=rounded - before)


def _rounded(value: float, digits: int, rounding: str) -> Decimal:
    exact = Decimal(repr(float(value)))
    if not exact:
        return Decimal(0)
    return exact.quantize(Decimal((0, (1,), exact.adjusted() - digits + 1)), rounding=rounding)


def _plain_text(number: Decimal) -> str:
    """Format a number without trailing zeros, with commas from 10,000 on.

    Very large and very small numbers use scientific notation.
    """
    number = number.normalize()
    if number and not -5 <= number.adjusted() <= 15:
        return f"{number:e}"
    return f"{number:,f}" if abs(number) >= 10_000 else f"{number:f}"


def as_record(cf: Counterfactual) -> dict[str, Any]:
    """Return an answer at full precision as a JSON value; unknown figures are None."""
    return {
        "status": cf.status,
        "reason": cf.reason,
        "method": cf.method.name,
        "alpha": cf.method.alpha,
        "beta": cf.method.beta,
        "target": cf.target,
        "cutoff": _finite(cf.cutoff),
        "threshold": _finite(cf.threshold),
        "score_before": _finite(cf.score_before),
        "score_after": _finite(cf.score) if cf.works else None,
        "distance": _finite(cf.distance) if cf.works else None,
        "lower_bound": _finite(cf.lower_bound),
        "gap": _finite(cf.gap),
        "best_score": _finite(cf.best_score),
        "best_score_gap": _finite(cf.best_score_gap),
        "changes": []
        if not cf.works  # a point that does not work must not be taken for advice
        else [
            {
                "feature": c.feature,
                "before": _json_value(c.before),
                "after": _json_value(c.after),
                "delta": c.delta,
            }
            for c in cf.changes
        ],
        "point": _json_row(cf.point) if cf.works and cf.point is not None else None,
        "verified": cf.verified,
        "solver": cf.solver,
        "seconds": cf.seconds,
        "nodes": cf.nodes,
        "certificate": None if cf.certificate is None else _certificate(cf.certificate),
    }


def _certificate(certificate: Certificate) -> dict[str, Any]:
    parts = {name: _json_value(value) for name, value in asdict(certificate).items()}
    return parts | {"text": str(certificate)}


def _json_row(row: Mapping[str, Value]) -> dict[str, Any]:
    return {name: _json_value(value) for name, value in row.items()}


def _json_value(value: Any) -> Any:
    own = native(value)
    return _finite(own) if isinstance(own, float) else own


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
