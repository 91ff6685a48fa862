"""The content of a customer's file as plain values, for templates and JSON.

Every change is scored again by the run's forest before it is written. Numbers are rounded to few digits, away
from the customer's own value, as far as the forest accepts the rounded change too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robustcf import Counterfactual, Explainer, Method, Naive, blockers_of, reasons_of, region_of
from robustcf.methods.registry import certifies
from robustcf.schema.encode import read_rows
from robustcf.schema.schema import Feature, Schema, Value
from robustcf.show import blocking_text, no_way, region_text, rounded_changes, value_text

from ..export.reasons import Reasons
from ..inputs.errors import BadInput
from ..run.rows import method_key
from .source import AuditRun, Person

DIGITS = 4  # of a new value, if the forest accepts the rounded change
NOT_PROMISED = (
    "This is not an offer and not a promise of a future decision.",
    "It describes how the present model decides. It does not say what causes a loan to be repaid.",
    "It holds if everything else in the application stays as it is.",
    "A later model may decide differently.",
)


@dataclass(frozen=True)
class Wording:
    """The user's choices: reasons and their order, until when the file holds, names of decisions."""

    reasons: Reasons
    most_reasons: int = 4
    in_table_order: bool = False
    valid_until: str | None = None
    wanted: str | None = None  # what the favourable decision is called; by default its label
    blockers_limit: float = 10.0


class Writer:
    """Turns the run's lines about a customer into the content of a file."""

    def __init__(self, run: AuditRun, method: int, wording: Wording) -> None:
        self.run, self.index, self.wording = run, method, wording
        self.method: Method = run.records.methods[method]
        # A method that needs more than the forest is represented by the forest's own decision.
        stand_in = self.method if self.method.has_alternatives else Naive()
        limit = float(run.records.take("config", "solver", "time_limit", float))
        self.explainer = Explainer(
            run.forest,
            run.schema,
            stand_in,
            target=run.target,
            voting=run.records.voting,  # type: ignore[arg-type]
            time_limit=limit,
        )

    def facts(self, person: Person) -> dict[str, Any]:
        """Return the content of one customer's file."""
        mine = next(g for g in person.lines if method_key_of(g[0]) == method_key(self.method))
        first, manifest = mine[0], self.run.manifest
        outcome = {"already_favourable": "favourable", "invalid_input": "not readable"}
        facts: dict[str, Any] = {
            "customer": person.id,
            "decision": outcome.get(first["status"], "denied"),
            "wanted": self.wording.wanted or str(self.run.target),
            "score": first["score_before"],
            "cutoff": first["cutoff"],
            "method": self.method.title,
            "reasons": [],
            "options": [],
            "no_way": None,
            "blocked_by": [],
            "note": None if first["status"] == "no_recourse" else first["reason"],
            "valid_until": self.wording.valid_until,
            "not_promised": list(NOT_PROMISED),
            "model": str(manifest.get("forest_hash", ""))[:12],
            "robustcf": manifest.get("versions", {}).get("robustcf", ""),
        }
        if person.row is None or not person.denied:
            return facts
        facts["reasons"] = list(self._reasons(person))
        facts["options"] = [self._option(person, line) for line in mine if _works(line)]
        if first["status"] == "no_recourse":
            facts["no_way"] = no_way(first["threshold"], first["best_score"])
            if self.method.has_alternatives or certifies(self.method.name):
                limit = self.wording.blockers_limit
                facts["blocked_by"] = blocking_text(blockers_of(self.explainer, person.row, time_limit=limit))
        return facts

    def _reasons(self, person: Person) -> Iterator[dict[str, Any]]:
        """Yield the reasons, dearest first or in the order of the user's table; equal codes once."""
        assert person.row is not None
        schema, codes = self.run.schema, self.wording.reasons
        signs = {"up": 1, "down": -1, "changed": 0}
        found = [(codes.of(r.feature, signs[r.direction]), r) for r in reasons_of(self.explainer, person.row)]
        if self.wording.in_table_order:
            rank = {code: k for k, code in enumerate(dict.fromkeys(codes.codes.values()))}
            found.sort(key=lambda pair: rank.get(pair[0], len(rank)))  # stable: dearest first within a code
        seen: set[tuple[str, str]] = set()
        for (code, text), reason in found:
            feature = schema[reason.feature]
            own = (code, text)
            if own in seen or len(seen) == self.wording.most_reasons:
                continue
            seen.add(own)
            yield {
                "code": code,
                "text": feature.label or text if text == feature.name else text,
                "feature": feature.name,
                "label": feature.label or feature.name,
                "value": _shown(feature, person.row[feature.name]),
                "costs": reason.gain,
                "changeable": reason.changeable,
            }

    def _option(self, person: Person, line: dict[str, Any]) -> dict[str, Any]:
        assert person.row is not None
        cf = exact = self._checked(person, line)
        certified = bool(line.get("certified"))
        region = None
        if self.method.has_alternatives:  # other methods also check the exact point
            changes = rounded_changes(self.explainer, person.row, cf, DIGITS)
            rounded = self._at(person.row, {change.feature: change.after for change in changes})
            cf = rounded if rounded.works else cf
            region = region_of(self.explainer, person.row, cf)
        return {
            "alternative": line["alternative"],
            "changes": [_change(self.run.schema, change) for change in cf.changes],
            "score": cf.score,
            "proved_nearest": line["status"] == "optimal",
            "overshooting": [] if region is None else region_text(self.run.schema, region),
            "measured": {s: {"accepted": n, "of": m} for s, (n, m) in line["measured"].items()},
            "certified": certified,
            "sure": list(_sure(line, cf.point != exact.point)),
        }

    def _checked(self, person: Person, line: dict[str, Any]) -> Counterfactual:
        """Return the line's point after every check; the run's own figures are not trusted."""
        assert person.row is not None
        cf = self._at(person.row, {c["feature"]: c["after"] for c in line["changes"]})
        if not cf.works:
            raise BadInput(f"customer {person.id!r}: the run's change fails its checks: {cf.reason}")
        return cf

    def _at(self, row: dict[str, Value], changes: Mapping[str, Value]) -> Counterfactual:
        read = read_rows(self.run.schema, [{**row, **changes}], missing=self.run.forest.accepts_missing)
        (cf,) = self.explainer.check_points([row], [[read.numbers[0]]])
        return cf


def method_key_of(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["method"], line["alpha"], line["beta"], line["parameter"]


def _works(line: dict[str, Any]) -> bool:
    return line["status"] in ("optimal", "feasible", "relaxed", "heuristic") and bool(line["verified"])


def _change(schema: Schema, change: Any) -> dict[str, Any]:
    feature = schema[change.feature]
    return {
        "feature": feature.name,
        "label": feature.label or feature.name,
        "before": _shown(feature, change.before),
        "after": value_text(feature, change.after),
        "verb": "" if change.delta is None else ("raise" if change.delta > 0 else "lower"),
    }


def _shown(feature: Feature, value: Value) -> str:
    missing = isinstance(value, float) and math.isnan(value)
    return "missing" if missing else value_text(feature, value, 6)


def _sure(line: dict[str, Any], rounded: bool) -> Iterator[str]:
    """Say how sure it is that the change works, from a certificate and from measurements alone."""
    if line.get("certified"):
        confidence, data = 1 - line["certificate_delta"], _data_of(line["certificate_scenario"])
        model = f"a model of {line['certificate_trees']} trees that is retrained {data}"
        yield (
            f"Certified: with confidence {confidence:.3g}, {model} accepts this change with probability "
            f"at least {1 - line['alpha']:.3g}."
        )
    for scenario, (accepted, of) in line["measured"].items():
        retrained = f"models that were retrained {_data_of(scenario)}"
        before = " before its numbers were rounded" if rounded else ""
        yield f"Measured: {accepted} of {of} {retrained} accept this change{before}."
    if not line.get("certified") and not line["measured"]:
        yield "Not measured: the run did not test this change on retrained models."


def _data_of(scenario: str) -> str:
    return "on the same data" if scenario == "same-data" else f"in the scenario {scenario}"


def chosen_method(run: AuditRun, names: Sequence[str], alphas: Sequence[float]) -> int:
    """Return the method whose answers are written: the one asked for, else the most demanding one.

    A certified method comes first, then the highest threshold.
    """
    methods = run.records.methods
    open_ = [
        k
        for k, method in enumerate(methods)
        if (not names or method.name in names) and (not alphas or method.alpha in alphas)
    ]
    if not open_:
        raise BadInput(f"the run has no such method; its methods are {', '.join(m.title for m in methods)}")
    n = len(run.forest)
    return max(open_, key=lambda k: (certifies(methods[k].name), methods[k].threshold(n), -k))
