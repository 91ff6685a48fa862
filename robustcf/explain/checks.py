"""Check answers against the schema and the real model, and return counterfactuals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustcf.counterfactual import Counterfactual, point_after, relative_gap
from robustcf.explain.customers import Customers
from robustcf.forest.forest import Label, Voting
from robustcf.judge import Judge, Judged, verdicts_of
from robustcf.methods.base import Method, Setting
from robustcf.methods.family import Answer, Customer, Family
from robustcf.robustness import predicted_validity
from robustcf.schema.check import broken_rules, distance
from robustcf.schema.encode import encode
from robustcf.schema.schema import Value
from robustcf.support.tolerances import SAME_OBJECTIVE, reached

Found = list[list[Answer]]  # per method, the nearest answer and its alternatives
Place = tuple[int, int]  # method and alternative
Key = tuple[int, Place]  # row and place


def _each(found: Found) -> Iterator[tuple[Place, Answer]]:
    return (((j, a), answer) for j, own in enumerate(found) for a, answer in enumerate(own))


@dataclass(frozen=True)
class _Measured:
    """A point's distance and penalty, recomputed, and its errors.

    `wrong` are errors of distance and schema, `complaints` those that the family found.
    """

    distance: float
    penalty: float
    wrong: list[str]
    complaints: list[str]


@dataclass(frozen=True)
class Checks:
    """The checks of an explainer's answers. `families` has the family of each method."""

    setting: Setting
    methods: Sequence[Method]
    families: Sequence[Family[Any]]
    judge: Judge | None
    solver: str

    def results(self, customers: Customers, answers: dict[int, Found]) -> list[Counterfactual]:
        """Check every answer with the real model and return the results.

        Equal customers share their answers. Each shared point is scored and measured once.
        """
        judged = self._score(customers, answers)
        if self.judge is not None:
            judged = self._overrule(self.judge, judged, customers, answers)
        measured: dict[int, _Measured] = {}
        results: list[Counterfactual] = []
        for i, reason in enumerate(customers.reasons):
            if reason is not None:
                results += [Counterfactual("invalid_input", m, i, reason) for m in self.methods]
                continue
            k = customers.position[i]
            row = customers.customer(k)
            for place, answer in _each(answers[i]):
                found = judged[i, place]
                if answer.numbers is not None and id(answer) not in measured:
                    measured[id(answer)] = self._measure(row, place[0], answer, found.encoded)
                own = measured.get(id(answer))
                results.append(self._result(i, place, answer, row, customers.raws[k], found, own))
        return results

    def given(self, row: Customer, j: int, point: np.ndarray | None, reason: str | None) -> Answer:
        """Return a point that was not solved for as an answer, about which nothing is proved."""
        if point is None:
            return Answer("timeout", reason="no point was given")
        penalty = self.families[j].penalty(row, self.methods[j], point)
        objective = distance(self.setting.schema, row.numbers, point) + penalty
        return Answer("feasible", point, objective, 0.0, reason=reason)

    def _voting(self, j: int) -> Voting:
        return self.methods[j].voting or self.setting.voting

    def _score(self, customers: Customers, answers: dict[int, Found]) -> dict[Key, Judged]:
        """Score every usable row and every distinct point by the scikit-learn model."""
        forest, schema = self.setting.forest, self.setting.schema
        place: dict[int, int] = {}  # of each answer's point among the distinct points
        points: list[np.ndarray] = []
        targets: list[Label] = []
        for i, found in answers.items():
            for _, answer in _each(found):
                if answer.numbers is not None and id(answer) not in place:
                    place[id(answer)] = len(points)
                    points.append(answer.numbers)
                    targets.append(customers.targets[i])
        if not answers:
            return {}
        after = encode(schema, np.array(points).reshape(len(points), len(schema)))
        likely = self._predicted_validities(after, targets)
        rows = np.vstack([customers.encoded, after])
        first = len(customers.encoded)
        judged: dict[Key, Judged] = {}
        for voting in dict.fromkeys(map(self._voting, range(len(self.methods)))):
            scores, predicted = forest.judged_scores(rows, voting)
            for i, found in answers.items():
                before, column = customers.position[i], forest.class_index(customers.targets[i])
                for where, answer in _each(found):
                    if self._voting(where[0]) != voting:
                        continue
                    at = before if answer.numbers is None else first + place[id(answer)]
                    judged[i, where] = Judged(
                        rows[at],
                        float(scores[before, column]),
                        float(scores[at, column]),
                        forest.classes[predicted[at]],
                        math.nan if answer.numbers is None else float(likely[place[id(answer)]]),
                    )
        return judged

    def _predicted_validities(self, points: np.ndarray, targets: list[Label]) -> np.ndarray:
        found = np.full(len(points), np.nan)
        for target in dict.fromkeys(targets):
            mine = np.array([t == target for t in targets])
            found[mine] = predicted_validity(
                self.setting.forest, points[mine], target, self.setting.voting
            ).estimate
        return found

    def _overrule(
        self,
        judge: Judge,
        judged: dict[Key, Judged],
        customers: Customers,
        answers: dict[int, Found],
    ) -> dict[Key, Judged]:
        """Replace the forest's scores by the judge's, with one call per voting."""
        points = {
            (i, (j, a)): point_after(
                self.setting.schema,
                customers.numbers[i],
                answers[i][j][a].numbers,
                customers.raws[customers.position[i]],
            )[0]
            for i, (j, a) in judged
            if answers[i][j][a].numbers is not None
        }
        result = {}
        for voting, before in customers.verdicts.items():
            keys = [key for key in judged if self._voting(key[1][0]) == voting]
            pointed = [key for key in keys if key in points]
            found = verdicts_of(judge, [points[key] for key in pointed], voting)
            after = dict(zip(pointed, found, strict=True))
            rounding = 2 * self.setting.forest.score_rounding
            for key in keys:
                mine = before[customers.position[key[0]]]
                column = self.setting.forest.class_index(customers.targets[key[0]])
                result[key] = judged[key].overruled(mine, after.get(key, mine), column, rounding)
        return result

    def _measure(self, row: Customer, j: int, answer: Answer, encoded: np.ndarray) -> _Measured:
        """Recompute an answer's distance and penalty, and check them and the schema's rules."""
        assert answer.numbers is not None
        method, family, schema = self.methods[j], self.families[j], self.setting.schema
        moved = distance(schema, row.numbers, answer.numbers)
        penalty = 0.0 if answer.status == "no_recourse" else family.penalty(row, method, answer.numbers)
        wrong = broken_rules(schema, row.numbers, answer.numbers)
        if abs(moved + penalty - answer.objective) > SAME_OBJECTIVE * (moved + penalty):
            wrong.append(f"the point's objective is {moved + penalty}, not {answer.objective} as solved")
        return _Measured(moved, penalty, wrong, family.complaints(row, method, answer, encoded))

    def _result(
        self,
        i: int,
        place: Place,
        answer: Answer,
        row: Customer,
        raw: dict[str, Value],
        judged: Judged,
        measured: _Measured | None,
    ) -> Counterfactual:
        method, forest = self.methods[place[0]], self.setting.forest
        threshold = forest.demanded(method.threshold, row.target)
        common: dict[str, Any] = {
            "row": i,
            "alternative": place[1],
            "target": row.target,
            "threshold": threshold,
            "cutoff": forest.shown_cutoff(row.target),
            "score_before": judged.score_before,
            "lower_bound": answer.lower_bound,
            "solver": self.solver,
            "seconds": answer.seconds,
            "nodes": answer.nodes,
            "guarantee": method.guarantee(self.setting, row.numbers, row.target),
        }
        if answer.numbers is None or measured is None:
            return Counterfactual(answer.status, method, reason=answer.reason, **common)
        wrong = [*measured.wrong]
        demanded = answer.best_score if answer.status == "no_recourse" else threshold
        if judged.complaint is not None:
            wrong.append(judged.complaint)
        elif not reached(judged.score, demanded, len(forest)):
            wrong.append(f"the model gives the point the score {judged.score}, below {demanded}")
        if answer.status != "no_recourse" and judged.label not in (row.target, None):
            wrong.append(f"the model predicts {judged.label!r} at the point")
        wrong += measured.complaints
        point, changes = point_after(self.setting.schema, row.numbers, answer.numbers, raw)
        return Counterfactual(
            "error" if wrong else answer.status,
            method,
            reason="; ".join(wrong) or answer.reason,
            score=judged.score,
            distance=measured.distance,
            objective=answer.objective,
            gap=relative_gap(answer.objective, answer.lower_bound),
            best_score=answer.best_score,
            best_score_gap=answer.best_score_gap,
            point=point,
            changes=changes,
            encoded=judged.encoded,
            verified=not wrong,
            predicted_validity=judged.predicted_validity,
            penalty=measured.penalty,
            relaxation=answer.relaxation,
            certificate=answer.certificate,
            **common,
        )
