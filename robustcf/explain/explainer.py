"""The explainer: rows in, proved and checked counterfactuals out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from robustcf.certificate.fresh import FreshForests
from robustcf.counterfactual import Counterfactual
from robustcf.explain.checks import Checks, Found
from robustcf.explain.customers import Customers, read_customers
from robustcf.explain.solving import RowSolver
from robustcf.forest.decision import Rule
from robustcf.forest.forest import Forest, Label, Voting
from robustcf.judge import DecidingJudge, Judge
from robustcf.methods.alternatives import Levers
from robustcf.methods.base import Method, Setting, refuse_dependent_trees
from robustcf.methods.family import Answer, Customer, Family
from robustcf.methods.joint import settle_joint
from robustcf.methods.thresholds import Naive
from robustcf.methods.training import Training
from robustcf.schema.encode import Row, Rows, as_frame, read_rows
from robustcf.schema.schema import Schema
from robustcf.solve import BestScore, Limits, get_engine


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
    cutoff : float, optional
        The model decides for the target where the target's score is at least this number. By default the
        model's own decision counts: `predict` of a forest, or the cut-off of a model that has one. Without a
        target it is the cut-off of the last class, as in scikit-learn. With more than two classes, it asks
        for the target against the rest.
    decision : {"plurality", "one-against-rest"}, optional
        With more than two classes, what favours the target: a score above every other class's (as `predict`;
        the default without a cut-off), or a score of at least the cut-off (1/2 by default).
    score_of : label, optional
        The class whose score the cut-off is compared with, if it is not the target: the decision is
        favourable where this score, such as the probability of default, is at most the cut-off.
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
        cutoff: float | None = None,
        score_of: Label | None = None,
        decision: Rule | None = None,
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
        refuse_dependent_trees(self.methods, forest, voting)
        for one in self.methods:
            one.check_forest(one.voting or voting, len(forest.classes))
        if target is None and len(forest.classes) > 2:
            raise ValueError(f"the forest has classes {list(forest.classes)}; choose one of them as target")
        label = forest.classes[-1] if target is None else target
        decided = forest.deciding(label, cutoff, score_of, decision)
        if decided is not forest:
            judge = None if judge is None else DecidingJudge(judge, decided)
            forest = decided
        self.forest, self.schema, self.voting = forest, schema, voting
        self.target = None if target is None else forest.classes[forest.class_index(target)]
        self.engine = get_engine(solver)
        self.limits = Limits(time_limit, threads, seed)
        self.wants_best_score = best_score
        self.judge = judge
        self._best: dict[tuple[object, ...], BestScore] = {}
        self.setting = Setting(forest, schema, voting, seed, self._checked_rows(training), threads, fresh)
        self._families = self._group()

    def for_method(self, method: Method) -> Explainer:
        """Return an explainer for one of this explainer's methods; they share the compiled forest."""
        if method not in self.methods:
            raise ValueError(f"{method.title} is not a method of this explainer")
        alone = copy(self)
        alone.methods = (method,)
        alone._families = alone._group()
        return alone

    def under(self, schema: Schema) -> Explainer:
        """Return this explainer under other constraints on the same columns."""
        if schema.columns != self.schema.columns:
            raise ValueError("the schema has other columns than the explainer's")
        other = copy(self)
        other.schema, other._best = schema, {}
        other.setting = replace(self.setting, schema=schema, _thresholds={})
        other._families = other._group()
        return other

    def customer(self, row: Row) -> Customer | None:
        """Return a row as the families take it; None if its decision is favourable already."""
        customers = self._read(as_frame(row), None)
        if customers.reasons[0] is not None:
            raise ValueError(customers.reasons[0])
        if (dispute := customers.dispute(0, self.voting)) is not None:
            raise ValueError(dispute)
        return None if customers.targets[0] == customers.own[0] else customers.customer(0)

    def has_way(self, customer: Customer, seconds: float) -> bool | None:
        """Return whether an allowed change reaches the score of the only method; None if time is up."""
        self._require_alternatives()
        return self._solver.has_way(self.family, customer, seconds)

    @property
    def family(self) -> Any:
        """The family of the first method."""
        return self._families[0][0]

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
        self,
        rows: pd.DataFrame | Iterable[Row],
        progress: Callable[[int], None] | None = None,
        *,
        read: Rows | None = None,
        alternatives: int = 1,
        levers: Mapping[str, Iterable[str]] | None = None,
    ) -> list[Counterfactual]:
        """Return the counterfactuals of all rows, row by row and then method by method.

        Equal rows are solved once. Bad rows have the status `invalid_input` and a reason. Every point is
        checked against the schema. The scikit-learn model itself, or the judge if there is one, scores
        all rows and points. `progress` is called with the number of rows done. `read` is the result of
        `read_rows` for these rows, if it is known; they are then not read again.

        The certificates of joint methods hold together for all rejected rows of one call.

        `alternatives` is the number of answers per row and method, with the nearest one first (see
        `alternatives`). Methods that ask for more than a score have one answer.
        """
        groups = Levers.of(self.schema, levers)
        customers = self._read(rows, read)
        own = self._settled(customers)
        if self.judge is not None and progress is not None:
            progress(0)  # the first row starts now; the judge's time does not count towards it
        solver = own._solver
        answers: dict[int, Found] = {}
        solved: dict[tuple[Label, bytes], Found] = {}
        for k, i in enumerate(customers.usable):
            if (dispute := customers.dispute(k, self.voting)) is not None:
                answers[i] = [[Answer("error", reason=dispute)] for _ in self.methods]
            elif customers.targets[i] == customers.own[i]:
                answers[i] = [[Answer("already_favourable")] for _ in self.methods]
            else:
                key = (customers.targets[i], customers.numbers[i].tobytes())
                if key not in solved:
                    row = customers.customer(k)
                    solved[key] = solver.answers(row, alternatives, groups)
                answers[i] = solved[key]
            if progress is not None:
                progress(k + 1)
        return own._checks.results(customers, answers)

    def alternatives(
        self, row: Row, k: int = 3, *, levers: Mapping[str, Iterable[str]] | None = None
    ) -> list[Counterfactual]:
        """Return the nearest answers that are truly different, nearest first.

        Of two answers, neither changes all features of the other. Each one is the nearest among the points
        that do not change all features of an answer found before it; a point that only changes features of an
        earlier one is passed over. `status`, `lower_bound` and `gap` say what is proved.

        Parameters
        ----------
        row : mapping
            The customer, in original units.
        k : int
            The number of answers, with the nearest one. If there are fewer, no other exists (this is
            proved), or the last one has the status `timeout`.
        levers : mapping of str to list of str, optional
            Groups of features that count as one. "Features" then means levers; a feature in no group
            is a lever of its own.
        """
        self._require_alternatives()
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        return self.explain_many(as_frame(row), alternatives=k, levers=levers)

    def with_few_changes(self, row: Row, most: int = 3) -> list[Counterfactual]:
        """Return the nearest answers with at most 1, 2, ..., `most` changes.

        `no_recourse` means that so few changes do not suffice (this is proved).
        """
        self._require_alternatives()
        customers = self._read(as_frame(row), None)
        if not customers.usable or customers.targets[0] == customers.own[0]:
            return self.explain_many(as_frame(row)) * most
        found = self._solver.with_few_changes(customers.customer(0), most)
        return [self._checks.results(customers, {0: [[answer]]})[0] for answer in found]

    def _require_alternatives(self) -> None:
        if len(self.methods) > 1:
            raise ValueError("several methods were given; make an explainer for one of them")
        if not self.methods[0].has_alternatives:
            raise ValueError(f"{self.methods[0].title} asks for more than a score and has no alternatives")

    def check_points(
        self,
        rows: pd.DataFrame | Iterable[Row],
        points: Sequence[Sequence[np.ndarray | None]],
        reason: str | None = None,
        *,
        read: Rows | None = None,
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
        read : Rows, optional
            The result of `read_rows` for these rows, if it is known.

        Returns
        -------
        list of Counterfactual
            Row by row and method by method. A point that passes is `feasible` and verified; nothing is
            proved about its distance. A point that fails is an `error` with a reason. Without a point,
            the status is `timeout`.
        """
        customers, checks = self._read(rows, read), self._checks
        answers: dict[int, Found] = {}
        for k, i in enumerate(customers.usable):
            if (dispute := customers.dispute(k, self.voting)) is not None:
                answers[i] = [[Answer("error", reason=dispute)] for _ in self.methods]
                continue
            answers[i] = [
                [checks.given(customers.customer(k), j, point, reason)] for j, point in enumerate(points[i])
            ]
        return checks.results(customers, answers)

    def _read(self, rows: pd.DataFrame | Iterable[Row], read: Rows | None) -> Customers:
        """Read rows, unless they are read, with the decision and the target class of each."""
        frame = as_frame(rows)
        if read is None:
            read = read_rows(self.schema, frame, missing=self.forest.accepts_missing)
        elif len(read.numbers) != len(frame):
            raise ValueError(f"{len(frame)} rows but {len(read.numbers)} rows of numbers")
        votings = dict.fromkeys([self.voting, *(m.voting or self.voting for m in self.methods)])
        return read_customers(self.setting, frame, read, self.target, self.judge, votings)

    def _settled(self, customers: Customers) -> Explainer:
        """Return this explainer with the δ of joint methods divided among these customers."""
        if not any(method.joint for method in self.methods):
            return self
        rejected = sum(customers.targets[i] != customers.own[i] for i in customers.usable)
        settled = copy(self)
        settled.methods = settle_joint(self.methods, int(rejected))
        for one in settled.methods:
            one.check_forest(one.voting or self.voting, len(self.forest.classes))
        return settled

    @property
    def _checks(self) -> Checks:
        families = {j: family for family, members in self._families for j in members}
        own = [families[j] for j in range(len(self.methods))]
        return Checks(self.setting, self.methods, own, self.judge, self.engine.name)

    @property
    def _solver(self) -> RowSolver:
        return RowSolver(
            self.methods, self._families, self.engine, self.limits, self.wants_best_score, self._best
        )
