"""Rows in, proved counterfactuals out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from robustcf.cells import Moves, compile_geometry, moves_of
from robustcf.check import broken_rules, distance
from robustcf.encode import Row, as_frame, encode, read_rows
from robustcf.forest import Forest, Label, Voting
from robustcf.methods import Method, Naive
from robustcf.problem import Problem, build_problem, leaf_votes, score_of, votes_needed
from robustcf.schema import Schema, Value
from robustcf.solve import BestScore, Limits, Solution, get_engine
from robustcf.solve.grid import highest_score, solve_grid

Status = Literal[
    "optimal",
    "feasible",
    "no_recourse",
    "relaxed",
    "heuristic",
    "already_favourable",
    "timeout",
    "invalid_input",
    "error",
]
SCORE_TOLERANCE = 1e-12  # the last bits of a floating-point mean over trees


@dataclass(frozen=True)
class Change:
    """One feature's change, in the customer's own units; `delta` only for numbers."""

    feature: str
    before: Value
    after: Value
    delta: float | None


@dataclass(frozen=True)
class Counterfactual:
    """What one customer can do, and what is proved about it.

    `distance` is the paper's f; `objective`, `lower_bound` and `gap` are of what was minimised.
    For `no_recourse`, `point` is the nearest one that reaches `best_score`, the highest score
    that any allowed change reaches (short of the threshold by proof).
    """

    status: Status
    method: Method
    row: int = 0
    reason: str | None = None
    target: Label | None = None
    threshold: float = math.nan
    score_before: float = math.nan
    score: float = math.nan
    distance: float = math.nan
    objective: float = math.nan
    lower_bound: float = math.nan
    gap: float = math.nan
    best_score: float = math.nan
    best_score_gap: float = math.nan
    point: dict[str, Value] | None = None
    changes: tuple[Change, ...] = ()
    encoded: np.ndarray | None = field(default=None, repr=False, compare=False)
    verified: bool = False
    solver: str = ""
    seconds: float = 0.0
    nodes: int = 0

    @property
    def n_changed(self) -> int:
        return len(self.changes)


@dataclass
class _Answer:
    """One (row, method) on its way from the engine to the judge."""

    status: Status
    numbers: np.ndarray | None = None
    objective: float = math.nan
    lower_bound: float = math.nan
    best_score: float = math.nan
    best_score_gap: float = math.nan
    reason: str | None = None
    nodes: int = 0
    seconds: float = 0.0


class Explainer:
    """Finds, for each row, the nearest allowed point that the forest scores high enough.

    Parameters
    ----------
    forest : Forest
        What is explained; compiled once for all rows.
    schema : Schema
        The columns of the rows, in the order the forest was trained on.
    method : Method or sequence of methods
        What is demanded. Several methods are solved together, row by row, with shared bounds.
    target : label, optional
        The class wanted for every row. By default, the other class than the row's own
        (two classes only).
    voting : {"soft", "hard"}
        Mean of the trees' class fractions, as scikit-learn's `predict`, or their majority.
    solver : {"auto", "highs", "gurobi", "oracle"}
    time_limit : float
        Seconds for each row and method.
    threads, seed : int
        Set on the solver.
    best_score : bool
        Whether `no_recourse` rows also get the best reachable score and a point reaching it.

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
        best_score: bool = True,
    ) -> None:
        self.methods: tuple[Method, ...] = tuple(method) if isinstance(method, Sequence) else (method,)
        if not self.methods:
            raise ValueError("no method given")
        if voting not in ("soft", "hard"):
            raise ValueError(f"voting is {voting!r}; choose 'soft' or 'hard'")
        if not time_limit > 0:
            raise ValueError(f"time_limit is {time_limit}; it must be positive")
        if target is None and len(forest.classes) > 2:
            raise ValueError(f"the forest has classes {list(forest.classes)}; say which one is the target")
        self.forest, self.schema, self.voting = forest, schema, voting
        self.target = None if target is None else forest.classes[forest.class_index(target)]
        self.geometry = compile_geometry(forest, schema)
        self.engine = get_engine(solver)
        self.limits = Limits(time_limit, threads, seed)
        self.wants_best_score = best_score
        self._votes = {c: leaf_votes(self.geometry, c, voting) for c in forest.classes}
        self._best: dict[tuple[Label, bytes], BestScore] = {}

    def explain(self, row: Row) -> Counterfactual:
        """The counterfactual of one row in original units."""
        if len(self.methods) > 1:
            raise ValueError("several methods were given; use explain_grid(row)")
        return self.explain_grid(row)[0]

    def explain_grid(self, row: Row) -> list[Counterfactual]:
        """The counterfactuals of one row, one for each method."""
        return self.explain_many(as_frame(row))

    def explain_many(
        self, rows: pd.DataFrame | Iterable[Row], progress: Callable[[int], None] | None = None
    ) -> list[Counterfactual]:
        """The counterfactuals of all rows, row by row and within a row method by method.

        Equal rows are solved once. Bad rows come back as `invalid_input` with the reason. Every
        point is checked against the schema and scored by the scikit-learn model itself.
        `progress`, if given, is called with the number of rows done so far.
        """
        frame = as_frame(rows)
        read = read_rows(self.schema, frame, missing=self.forest.accepts_missing)
        usable = [i for i, reason in enumerate(read.reasons) if reason is None]
        encoded = encode(self.schema, read.numbers[usable])
        predicted = self.forest.predict(encoded, self.voting)
        answers: dict[int, list[_Answer]] = {}
        targets: dict[int, Label] = {}
        solved: dict[tuple[Label, bytes], list[_Answer]] = {}
        for k, i in enumerate(usable):
            own = self.forest.classes[predicted[k]]
            targets[i] = self._other(own) if self.target is None else self.target
            if targets[i] == own:
                answers[i] = [_Answer("already_favourable") for _ in self.methods]
            else:
                key = (targets[i], read.numbers[i].tobytes())
                if key not in solved:
                    solved[key] = self._solve(read.numbers[i], encoded[k], targets[i])
                answers[i] = solved[key]
            if progress is not None:
                progress(k + 1)
        position = {i: k for k, i in enumerate(usable)}
        raws = frame.iloc[usable].to_dict("records") if usable else []
        results: list[Counterfactual] = []
        judged = self._judge(read.numbers, encoded, position, answers, targets)
        for i, reason in enumerate(read.reasons):
            if reason is not None:
                results += [Counterfactual("invalid_input", m, i, reason) for m in self.methods]
            else:
                raw = {str(name): value for name, value in raws[position[i]].items()}
                results += [
                    self._result(i, m, answer, targets[i], read.numbers[i], raw, judged.get((i, j)))
                    for j, (m, answer) in enumerate(zip(self.methods, answers[i], strict=True))
                ]
        return results

    def _other(self, label: Label) -> Label:
        first, second = self.forest.classes
        return second if label == first else first

    def _solve(self, numbers: np.ndarray, encoded: np.ndarray, target: Label) -> list[_Answer]:
        """One row's whole grid; a failure is this row's alone."""
        begin = time.perf_counter()
        try:
            moves = moves_of(self.geometry, numbers, encoded)
            taus = [method.threshold(len(self.forest)) for method in self.methods]
            demands = [votes_needed(self.geometry, target, self.voting, tau) for tau in taus]
            problem = build_problem(self.geometry, moves, self._votes[target], demands[0])
            # trees whose vote is settled were folded into the first demand
            folded = demands[0] - int(problem.demand[0])
            solutions = solve_grid(problem, [d - folded for d in demands], self.engine, self.limits)
            answers = [self._answer(s, problem, moves, numbers) for s in solutions]
            stuck = [a for a in answers if a.status == "no_recourse"]
            if stuck and self.wants_best_score:
                self._add_best_score(stuck, problem, moves, numbers, target, folded)
        except Exception as error:  # the row's status carries it; the other rows go on
            answers = [_Answer("error", reason=f"{type(error).__name__}: {error}") for _ in self.methods]
        for answer in answers:
            answer.seconds = (time.perf_counter() - begin) / len(answers)
        return answers

    def _answer(self, solution: Solution, problem: Problem, moves: Moves, numbers: np.ndarray) -> _Answer:
        status: Status = {
            "optimal": "optimal",
            "feasible": "feasible",
            "infeasible": "no_recourse",
            "unknown": "timeout",
        }[solution.status]  # type: ignore[assignment]
        if solution.choice is None:
            bound = solution.lower_bound if status == "timeout" else math.nan
            return _Answer(status, lower_bound=bound, nodes=solution.nodes)
        point = _numbers_of(problem, solution.choice, moves, numbers)
        return _Answer(status, point, solution.objective, solution.lower_bound, nodes=solution.nodes)

    def _add_best_score(
        self,
        stuck: list[_Answer],
        problem: Problem,
        moves: Moves,
        numbers: np.ndarray,
        target: Label,
        folded: int,
    ) -> None:
        """The best reachable score (once per set of reachable cells), and the nearest point there."""
        key = (target, moves.allowed.tobytes() + moves.missing.tobytes())
        if key not in self._best:
            self._best[key] = highest_score(problem, self.engine, self.limits)
        best = self._best[key]
        if best.choice is None:
            return
        # Scores that differ only by the rounding of soft votes are one score, as in `votes_needed`.
        rounding = len(self.forest) if self.voting == "soft" else 0
        nearest = solve_grid(problem, [best.votes - rounding], self.engine, self.limits)[0]
        if nearest.choice is None:
            return
        n = len(self.forest)
        for answer in stuck:
            answer.best_score = score_of(best.votes + folded, n, self.voting)
            answer.best_score_gap = score_of(best.at_most - best.votes, n, self.voting)
            answer.numbers = _numbers_of(problem, nearest.choice, moves, numbers)
            answer.objective, answer.lower_bound = nearest.objective, nearest.lower_bound
            answer.nodes += nearest.nodes

    def _judge(
        self,
        numbers: np.ndarray,
        encoded: np.ndarray,
        position: dict[int, int],
        answers: dict[int, list[_Answer]],
        targets: dict[int, Label],
    ) -> dict[tuple[int, int], tuple[np.ndarray, float, float, Label]]:
        """Every usable row and every point, scored by the scikit-learn model in one call."""
        keys = [(i, j) for i in answers for j in range(len(self.methods))]
        if not keys:
            return {}
        points = [answers[i][j].numbers for i, j in keys]
        kept = [numbers[i] if p is None else p for (i, _), p in zip(keys, points, strict=True)]
        after = encode(self.schema, np.array(kept))
        rows = np.vstack([encoded, after])
        judged: dict[tuple[int, int], tuple[np.ndarray, float, float, Label]] = {}
        for target in set(targets.values()):
            score, predicted = self.forest.judged_score(rows, target, self.voting)
            for k, (i, j) in enumerate(keys):
                if targets[i] == target:
                    at = len(encoded) + k
                    label = self.forest.classes[predicted[at]]
                    judged[i, j] = (after[k], float(score[position[i]]), float(score[at]), label)
        return judged

    def _result(
        self,
        i: int,
        method: Method,
        answer: _Answer,
        target: Label,
        numbers: np.ndarray,
        raw: dict[str, Value],
        judged: tuple[np.ndarray, float, float, Label] | None,
    ) -> Counterfactual:
        assert judged is not None
        encoded, before, after, label = judged
        threshold = method.threshold(len(self.forest))
        common: dict[str, Any] = {
            "row": i,
            "target": target,
            "threshold": threshold,
            "score_before": before,
            "lower_bound": answer.lower_bound,
            "solver": self.engine.name,
            "seconds": answer.seconds,
            "nodes": answer.nodes,
        }
        if answer.numbers is None:
            return Counterfactual(answer.status, method, reason=answer.reason, **common)
        moved = distance(self.schema, numbers, answer.numbers)
        wrong = broken_rules(self.schema, numbers, answer.numbers)
        if abs(moved - answer.objective) > 1e-9:
            wrong.append(f"distance is {moved}, not {answer.objective}")
        reached = answer.best_score if answer.status == "no_recourse" else threshold
        if after < reached - SCORE_TOLERANCE * len(self.forest):
            wrong.append(f"the model scores the point {after}, below {reached}")
        if answer.status != "no_recourse" and label != target:
            wrong.append(f"the model predicts {label!r} at the point")
        changes = _changes(self.schema, numbers, answer.numbers, raw)
        point = {**raw, **{c.feature: c.after for c in changes}}
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
            **common,
        )


def relative_gap(objective: float, lower_bound: float) -> float:
    """How far, relatively, the optimum may lie below what was found."""
    return 0.0 if objective <= lower_bound else (objective - lower_bound) / abs(objective)


def _numbers_of(problem: Problem, choice: np.ndarray, moves: Moves, numbers: np.ndarray) -> np.ndarray:
    """The chosen cells' numbers; a feature that stays in its cell keeps its own."""
    point: np.ndarray = moves.number[problem.cell[problem.start[:-1] + choice]]
    return np.where(np.isnan(point), numbers, point)


def _changes(
    schema: Schema, before: np.ndarray, after: np.ndarray, raw: dict[str, Value]
) -> tuple[Change, ...]:
    changes = []
    for feature, old, new in zip(schema.features, before, after, strict=True):
        if old != new and not (math.isnan(old) and math.isnan(new)):
            delta = float(new - old) if feature.is_number else None
            changes.append(Change(feature.name, raw[feature.name], feature.value(float(new)), delta))
    return tuple(changes)
