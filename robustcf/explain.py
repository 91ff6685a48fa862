"""Explain rows: find counterfactuals, prove them, and check them with the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from robustcf.certificate.fresh import FreshForests
from robustcf.counterfactual import Counterfactual, point_after, relative_gap
from robustcf.forest.forest import Forest, Label, Voting
from robustcf.judge import Judge, Judged, Verdict, ask, disputed
from robustcf.methods.base import Method, Setting
from robustcf.methods.family import Answer, Customer, Family, Tools
from robustcf.methods.thresholds import Naive
from robustcf.methods.training import Training
from robustcf.robustness import predicted_validity
from robustcf.schema.check import broken_rules, distance
from robustcf.schema.encode import Row, as_frame, encode, read_rows
from robustcf.schema.schema import Schema, Value
from robustcf.solve import BestScore, Limits, get_engine
from robustcf.support.tolerances import SAME_OBJECTIVE, reached


@dataclass(frozen=True)
class _Table:
    """Rows as read: decisions of forest and judge on each usable row, and its target."""

    numbers: np.ndarray
    reasons: list[str | None]
    usable: list[int]
    raws: list[dict[str, Value]]  # one per usable row, like `encoded`
    encoded: np.ndarray
    own: dict[int, Label]
    targets: dict[int, Label]
    verdicts: dict[Voting, list[Verdict]]  # the judge's, one per usable row; empty without a judge

    @property
    def position(self) -> dict[int, int]:
        return {i: k for k, i in enumerate(self.usable)}


class Explainer:
    """Finds the nearest allowed point with a sufficient score for each row (eq. 2).

    Parameters
    ----------
    forest : Forest
        The explained forest; it is compiled once for all rows.
    schema : Schema
        The columns of the rows, in the order that the forest was trained on.
    method : Method or sequence of methods
        What a point must satisfy. Several methods are solved together, row by row, with shared bounds.
    target : label, optional
        The target class of every row. By default, the class that the forest does not predict
        (two classes only).
    voting : {"soft", "hard"}
        "soft" is the mean of the trees' class fractions, as in scikit-learn's `predict`; "hard" is
        their majority.
    solver : {"auto", "engine", "highs", "gurobi", "oracle"}
    time_limit : float
        Seconds for each row and method.
    threads, seed : int
        Passed to the solver; isolation forests and RobX's perturbations also use the seed.
    training : (ndarray, ndarray), optional
        Encoded rows and labels that the forest was trained on, for the methods that use them
        (`IsolationForest`, `LocalOutlierFactor`, `RobX`).
    best_score : bool
        Whether `no_recourse` rows also get the best reachable score and a point that reaches it.
    judge : Judge, optional
        The user's own model, such as `ReadModel.judge(schema)`. It decides on raw rows and raw points
        instead of the forest. A row that it decides differently, or a point that it does not accept,
        gets the status `error` with a reason.
    fresh : sequence of FreshForests
        Forests for `Certified` (`rc.train_fresh`). Missing ones are trained on the training rows.

    Examples
    --------
    >>> import robustcf as rc
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> data = rc.datasets.synthetic_credit(n=300, seed=0)
    >>> model = RandomForestClassifier(20, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
    >>> forest = rc.Forest.from_sklearn(model)
    >>> explainer = rc.Explainer(forest, data.schema, method=rc.DirectSAA(alpha=0.2), target=1)
    >>> cf = explainer.explain(data.X.iloc[6])
    >>> cf.status, cf.changes
    ('optimal', (Change(feature='late_payments', before=3, after=0, delta=-3.0),))
    """

    def __init__(
        self,
        forest: Forest,
        schema: Schema,
        method: Method | Sequence[Method] = Naive(),
        *,
        target: Label | None = None,
        voting: Voting = "soft",
        solver: str = "auto",
        time_limit: float = 60.0,
        threads: int = 1,
        seed: int = 0,
        training: tuple[np.ndarray, np.ndarray] | None = None,
        best_score: bool = True,
        judge: Judge | None = None,
        fresh: Sequence[FreshForests] = (),
    ) -> None:
        self.methods: tuple[Method, ...] = tuple(method) if isinstance(method, Sequence) else (method,)
        if not self.methods:
            raise ValueError("no method was given; pass at least one, such as method=Naive()")
        if voting not in ("soft", "hard"):
            raise ValueError(f"voting is {voting!r}; choose 'soft' or 'hard'")
        if not time_limit > 0:
            raise ValueError(f"time_limit is {time_limit}; it must be positive")
        if target is None and len(forest.classes) > 2:
            raise ValueError(f"the forest has classes {list(forest.classes)}; choose one of them as target")
        self.forest, self.schema, self.voting = forest, schema, voting
        self.target = None if target is None else forest.classes[forest.class_index(target)]
        self.engine = get_engine(solver)
        self.limits = Limits(time_limit, threads, seed)
        self.wants_best_score = best_score
        self.judge = judge
        self._best: dict[tuple[object, ...], BestScore] = {}
        self.setting = Setting(forest, schema, voting, seed, self._checked_rows(training), threads, fresh)
        self._families = self._group()

    def _group(self) -> list[tuple[Family[Any], list[int]]]:
        """Group the methods by family; each family has the positions of its methods."""
        families: dict[Hashable, tuple[Family[Any], list[int]]] = {}
        for i, method in enumerate(self.methods):
            key = method.family_key()
            if key not in families:
                families[key] = (method.family(self.setting), [])
            families[key][1].append(i)
        return list(families.values())

    def _checked_rows(self, training: tuple[np.ndarray, np.ndarray] | None) -> Training | None:
        """Return the checked training rows if a method needs them, else None."""
        needing = [m for m in self.methods if m.needs_training]
        if not needing:
            return None
        if training is None:
            raise ValueError(f"{type(needing[0]).__name__} needs training rows; pass training=(X, y)")
        targets = self.forest.classes if self.target is None else (self.target,)
        return Training(self.forest, self.schema, *training, targets=targets, voting=self.voting)

    def explain(self, row: Row) -> Counterfactual:
        """Return the counterfactual of one row in original units."""
        if len(self.methods) > 1:
            raise ValueError("several methods were given; use explain_grid(row)")
        return self.explain_grid(row)[0]

    def explain_grid(self, row: Row) -> list[Counterfactual]:
        """Return the counterfactuals of one row, one per method."""
        return self.explain_many(as_frame(row))

    def explain_many(
        self, rows: pd.DataFrame | Iterable[Row], progress: Callable[[int], None] | None = None
    ) -> list[Counterfactual]:
        """Return the counterfactuals of all rows, row by row and then method by method.

        Equal rows are solved once. Bad rows have the status `invalid_input` and a reason. Every point is
        checked against the schema. The scikit-learn model itself, or the judge if there is one, scores
        all rows in one call and all points in another. `progress` is called with the number of rows done.
        """
        table = self._read(rows)
        if self.judge is not None and progress is not None:
            progress(0)  # the first row starts now; the judge's time does not count towards it
        answers: dict[int, list[Answer]] = {}
        solved: dict[tuple[Label, bytes], list[Answer]] = {}
        for k, i in enumerate(table.usable):
            if (dispute := self._disputed(table, k)) is not None:
                answers[i] = [Answer("error", reason=dispute) for _ in self.methods]
            elif table.targets[i] == table.own[i]:
                answers[i] = [Answer("already_favourable") for _ in self.methods]
            else:
                key = (table.targets[i], table.numbers[i].tobytes())
                if key not in solved:
                    solved[key] = self._solve(table.numbers[i], table.encoded[k], table.targets[i])
                answers[i] = solved[key]
            if progress is not None:
                progress(k + 1)
        return self._results(table, answers)

    def check_points(
        self,
        rows: pd.DataFrame | Iterable[Row],
        points: Sequence[Sequence[np.ndarray | None]],
        reason: str | None = None,
    ) -> list[Counterfactual]:
        """Check given points with every check of this explainer's own answers.

        Parameters
        ----------
        rows : DataFrame or rows
            Customers in original units.
        points : sequence of sequences
            For each row and method, a point (one number per feature, see `encode.py`) or None.
        reason : str, optional
            The reason of answers that pass.

        Returns
        -------
        list of Counterfactual
            Row by row and method by method. A point that passes is `feasible` and verified; nothing is
            proved about its distance. A point that fails is an `error` with a reason. Without a point,
            the status is `timeout`.
        """
        table = self._read(rows)
        answers: dict[int, list[Answer]] = {}
        for k, i in enumerate(table.usable):
            if (dispute := self._disputed(table, k)) is not None:
                answers[i] = [Answer("error", reason=dispute) for _ in self.methods]
                continue
            row = Customer(table.numbers[i], table.encoded[k], table.targets[i])
            answers[i] = [self._given(row, j, point, reason) for j, point in enumerate(points[i])]
        return self._results(table, answers)

    def _given(self, row: Customer, j: int, point: np.ndarray | None, reason: str | None) -> Answer:
        if point is None:
            return Answer("timeout", reason="no point was given")
        penalty = self._family_of(j).penalty(row, self.methods[j], point)
        objective = distance(self.schema, row.numbers, point) + penalty
        return Answer("feasible", point, objective, 0.0, reason=reason)

    def _disputed(self, table: _Table, k: int) -> str | None:
        """Return why the k-th usable row is not explained: the judge disagrees."""
        if not table.verdicts:
            return None
        return disputed(table.verdicts[self.voting][k], table.own[table.usable[k]])

    def _family_of(self, j: int) -> Family[Any]:
        return next(family for family, members in self._families if j in members)

    def _read(self, rows: pd.DataFrame | Iterable[Row]) -> _Table:
        """Read rows, with the forest's decision and the target class of each."""
        frame = as_frame(rows)
        read = read_rows(self.schema, frame, missing=self.forest.accepts_missing)
        usable = [i for i, reason in enumerate(read.reasons) if reason is None]
        encoded = encode(self.schema, read.numbers[usable])
        predicted = self.forest.predict(encoded, self.voting)
        own = {i: self.forest.classes[predicted[k]] for k, i in enumerate(usable)}
        targets = {i: self._other(own[i]) if self.target is None else self.target for i in usable}
        records = frame.iloc[usable].to_dict("records") if usable else []
        raws: list[dict[str, Value]] = [{str(name): v for name, v in raw.items()} for raw in records]
        votings = dict.fromkeys([self.voting, *map(self._voting, self.methods)])
        verdicts = {voting: ask(self.judge, raws, voting) for voting in votings} if self.judge else {}
        return _Table(read.numbers, read.reasons, usable, raws, encoded, own, targets, verdicts)

    def _results(self, table: _Table, answers: dict[int, list[Answer]]) -> list[Counterfactual]:
        """Check every answer with the real model and return the results."""
        position = table.position
        judged = self._judge(table.numbers, table.encoded, position, answers, table.targets)
        if self.judge is not None:
            points = {
                (i, j): point_after(
                    self.schema, table.numbers[i], answers[i][j].numbers, table.raws[position[i]]
                )[0]
                for i, j in judged
                if answers[i][j].numbers is not None
            }
            judged = self._judge_raw(self.judge, judged, points, table.verdicts, position, table.targets)
        results: list[Counterfactual] = []
        for i, reason in enumerate(table.reasons):
            if reason is not None:
                results += [Counterfactual("invalid_input", m, i, reason) for m in self.methods]
            else:
                k = position[i]
                row = Customer(table.numbers[i], table.encoded[k], table.targets[i])
                results += [
                    self._result(i, j, answer, row, table.raws[k], judged[i, j])
                    for j, answer in enumerate(answers[i])
                ]
        return results

    def _other(self, label: Label) -> Label:
        first, second = self.forest.classes
        return second if label == first else first

    def _solve(self, numbers: np.ndarray, encoded: np.ndarray, target: Label) -> list[Answer]:
        """Solve one row for all methods; a failure affects only this row."""
        row = Customer(numbers, encoded, target)
        answers = [Answer("error")] * len(self.methods)
        for family, members in self._families:
            begin = time.perf_counter()
            end = time.monotonic() + self.limits.seconds * len(members)
            tools = Tools(self.engine, self.limits, self.wants_best_score, self._best, end)
            try:
                found = family.answers(row, [self.methods[i] for i in members], tools)
            except Exception as error:  # it becomes the row's status; the other rows continue
                found = [Answer("error", reason=f"{type(error).__name__}: {error}") for _ in members]
            for i, answer in zip(members, found, strict=True):
                answer.seconds = (time.perf_counter() - begin) / len(found)
                answers[i] = answer
        return answers

    def _voting(self, method: Method) -> Voting:
        return method.voting or self.voting

    def _judge_raw(
        self,
        judge: Judge,
        judged: dict[tuple[int, int], Judged],
        points: dict[tuple[int, int], dict[str, Value]],
        own: dict[Voting, list[Verdict]],
        position: dict[int, int],
        targets: dict[int, Label],
    ) -> dict[tuple[int, int], Judged]:
        """Replace the forest's scores by the judge's, with one call per voting."""
        result = {}
        for voting, before in own.items():
            keys = [key for key in judged if self._voting(self.methods[key[1]]) == voting]
            pointed = [key for key in keys if key in points]
            found = ask(judge, [points[key] for key in pointed], voting)
            after = dict(zip(pointed, found, strict=True))
            for i, j in keys:
                mine = before[position[i]]
                column = self.forest.class_index(targets[i])
                result[i, j] = judged[i, j].overruled(mine, after.get((i, j), mine), column)
        return result

    def _judge(
        self,
        numbers: np.ndarray,
        encoded: np.ndarray,
        position: dict[int, int],
        answers: dict[int, list[Answer]],
        targets: dict[int, Label],
    ) -> dict[tuple[int, int], Judged]:
        """Score every usable row and every point by the scikit-learn model."""
        keys = [(i, j) for i in answers for j in range(len(self.methods))]
        if not keys:
            return {}
        points = [answers[i][j].numbers for i, j in keys]
        kept = [numbers[i] if p is None else p for (i, _), p in zip(keys, points, strict=True)]
        after = encode(self.schema, np.array(kept))
        rows = np.vstack([encoded, after])
        judged: dict[tuple[int, int], Judged] = {}
        for target in dict.fromkeys(targets.values()):
            predicted_validities = predicted_validity(self.forest, after, target, self.voting).estimate
            for voting in dict.fromkeys(self._voting(m) for m in self.methods):
                score, predicted = self.forest.judged_score(rows, target, voting)
                for k, (i, j) in enumerate(keys):
                    if targets[i] == target and self._voting(self.methods[j]) == voting:
                        at = len(encoded) + k
                        judged[i, j] = Judged(
                            after[k],
                            float(score[position[i]]),
                            float(score[at]),
                            self.forest.classes[predicted[at]],
                            float(predicted_validities[k]),
                        )
        return judged

    def _result(
        self, i: int, j: int, answer: Answer, row: Customer, raw: dict[str, Value], judged: Judged
    ) -> Counterfactual:
        numbers, target = row.numbers, row.target
        method, encoded, after = self.methods[j], judged.encoded, judged.score
        threshold = method.threshold(len(self.forest))
        common: dict[str, Any] = {
            "row": i,
            "target": target,
            "threshold": threshold,
            "score_before": judged.score_before,
            "lower_bound": answer.lower_bound,
            "solver": self.engine.name,
            "seconds": answer.seconds,
            "nodes": answer.nodes,
        }
        common["guarantee"] = method.guarantee(self.setting, numbers)
        if answer.numbers is None:
            return Counterfactual(answer.status, method, reason=answer.reason, **common)
        family = self._family_of(j)
        moved = distance(self.schema, numbers, answer.numbers)
        penalty = 0.0 if answer.status == "no_recourse" else family.penalty(row, method, answer.numbers)
        wrong = broken_rules(self.schema, numbers, answer.numbers)
        if abs(moved + penalty - answer.objective) > SAME_OBJECTIVE * (moved + penalty):
            wrong.append(f"the point's objective is {moved + penalty}, not {answer.objective} as solved")
        demanded = answer.best_score if answer.status == "no_recourse" else threshold
        if judged.complaint is not None:
            wrong.append(judged.complaint)
        elif not reached(after, demanded, len(self.forest)):
            wrong.append(f"the model gives the point the score {after}, below {demanded}")
        if answer.status != "no_recourse" and judged.label not in (target, None):
            wrong.append(f"the model predicts {judged.label!r} at the point")
        wrong += family.complaints(row, method, answer, encoded)
        point, changes = point_after(self.schema, numbers, answer.numbers, raw)
        return Counterfactual(
            "error" if wrong else answer.status,
            method,
            reason="; ".join(wrong) or answer.reason,
            score=after,
            distance=moved,
            objective=answer.objective,
            gap=relative_gap(answer.objective, answer.lower_bound),
            best_score=answer.best_score,
            best_score_gap=answer.best_score_gap,
            point=point,
            changes=changes,
            encoded=encoded,
            verified=not wrong,
            predicted_validity=judged.predicted_validity,
            penalty=penalty,
            relaxation=answer.relaxation,
            certificate=answer.certificate,
            **common,
        )
