"""The problem as a mixed-integer linear program.

Variables: a binary u per question ("feature f lies above option b", "feature f is category o"), and a
continuous y per leaf, which is 1 for the leaf that a tree reaches.

- Per tree: the y of its leaves sum to 1.
- Per tree and question: the y of the leaves wholly on the yes side sum to at most u, and those wholly on the
  no side to at most 1 - u.
- Per condition: the votes of the leaves reached meet the demand (eq. 2b, eq. 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from robustcf.problem.problem import Problem, holds
from robustcf.support.jit import compiled
from robustcf.support.tolerances import SCORE_ROW_SLACK


@dataclass
class Milp:
    """min cost·x with lower <= A x <= upper, 0 <= x <= 1.

    The first `n_binary` columns are binary, and so are those marked in `also_binary`.
    """

    cost: np.ndarray
    matrix: sp.csr_matrix
    lower: np.ndarray
    upper: np.ndarray
    n_binary: int
    links_from: np.ndarray
    offset: float = 0.0
    start: np.ndarray | None = None
    also_binary: np.ndarray | None = None

    @property
    def is_binary(self) -> np.ndarray:
        """Which columns are binary."""
        first = np.arange(len(self.cost)) < self.n_binary
        return first if self.also_binary is None else first | self.also_binary


def _trees(problem: Problem) -> list[tuple[int, int]]:
    return list(zip(problem.tree_start[:-1], problem.tree_start[1:], strict=True))


def vote_unit(problem: Problem, condition: int) -> float:
    """Return one vote as an integer; the solver's numbers are divided by it."""
    votes = problem.votes[condition]
    return float(max(1, np.abs(votes).max())) if len(votes) else 1.0


def build_model(problem: Problem, units: np.ndarray | None = None) -> Milp:
    """Build the whole model; the score rows come last, in the given units of a vote."""
    if units is None:
        units = np.array([vote_unit(problem, g) for g in range(len(problem.demand))])
    question, n_questions = first_questions(problem)
    if problem.n_leaves:
        rows, columns, values, upper, links_from = _link_rows(problem, question, n_questions)
    else:  # every tree has a single outcome
        rows = columns = np.zeros(0, dtype=np.int64)
        values, upper, links_from = np.zeros(0), np.zeros(0), np.zeros((0, 4), dtype=np.int64)
    links = sp.csr_matrix((values, (rows, columns)), shape=(len(upper), n_questions + problem.n_leaves))
    cost = np.zeros(n_questions + problem.n_leaves)
    offset = 0.0
    chains, ones = [], []
    for f in range(problem.n_features):
        prices = problem.cost[problem.start[f] : problem.start[f + 1]]
        q, size = question[f], len(prices)
        if size == 1:
            offset += prices[0]
        elif problem.ordered[f]:
            offset += prices[0]
            cost[q : q + size - 1] = np.diff(prices)
            chains += [(q + b, q + b + 1) for b in range(size - 2)]
        else:
            cost[q : q + size] = prices
            ones.append(np.arange(q, q + size))
    ones += [n_questions + np.arange(a, b) for a, b in _trees(problem)]
    chain_rows, one_rows = _chain_rows(chains, len(cost)), _one_rows(ones, len(cost))
    blocks = [links, chain_rows, one_rows, _score_rows(problem, n_questions, units)]
    unbounded = np.full(len(upper), -np.inf), np.full(len(chains), np.inf), np.full(len(units), np.inf)
    return Milp(
        cost=cost,
        matrix=sp.csr_matrix(sp.vstack(blocks, format="csr")),
        lower=np.concatenate(
            [
                unbounded[0],
                np.zeros(len(chains)),
                np.ones(len(ones)),
                problem.demand / units - SCORE_ROW_SLACK,
            ]
        ),
        upper=np.concatenate([upper, unbounded[1], np.ones(len(ones)), unbounded[2]]),
        n_binary=n_questions,
        links_from=links_from,
        offset=offset,
    )


def first_questions(problem: Problem) -> tuple[np.ndarray, int]:
    """Return the first question of each feature, and the number of questions.

    An ordered feature has one question between neighbouring options, a categorical one per category.
    """
    sizes = np.diff(problem.start)
    counts = np.where(problem.ordered | (sizes == 1), sizes - 1, sizes)
    ends = np.cumsum(counts)
    return ends - counts, int(ends[-1])


def _chain_rows(pairs: list[tuple[int, int]], n_columns: int) -> sp.csr_matrix:
    """Return the rows u[b + 1] <= u[b]: above split b + 1 means above split b."""
    rows = np.repeat(np.arange(len(pairs)), 2)
    columns = np.array(pairs, dtype=np.int64).reshape(-1)
    return sp.csr_matrix((np.tile([1.0, -1.0], len(pairs)), (rows, columns)), shape=(len(pairs), n_columns))


def _one_rows(groups: list[np.ndarray], n_columns: int) -> sp.csr_matrix:
    """Return the rows for exactly one category per feature and one leaf per tree."""
    rows = np.repeat(np.arange(len(groups)), [len(g) for g in groups])
    columns = np.concatenate(groups) if groups else np.zeros(0, dtype=np.int64)
    return sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(groups), n_columns))


def _score_rows(problem: Problem, n_questions: int, units: np.ndarray) -> sp.csr_matrix:
    scores = sp.csr_matrix(problem.votes / units[:, None])
    return sp.csr_matrix(sp.hstack([sp.csr_matrix((len(units), n_questions)), scores]))


@compiled
def _link_rows(p, question, n_questions):
    n_rows = 0
    rows, columns, values, upper = [0], [0], [0.0], [0.0]
    origin = [(0, 0, 0, 0)]  # tree, feature, question within the feature, side
    asked = np.zeros(n_questions + 1, dtype=np.bool_)
    for tree in range(len(p.tree_start) - 1):
        first, last = p.tree_start[tree], p.tree_start[tree + 1]
        asked[:] = False
        for e in range(p.entry_start[first], p.entry_start[last]):
            f = p.feature[e]
            size = p.start[f + 1] - p.start[f]
            if p.set[e] < 0:
                if p.lo[e] > 0:
                    asked[question[f] + p.lo[e] - 1] = True
                if p.hi[e] < size - 1:
                    asked[question[f] + p.hi[e]] = True
            else:
                single = p.member[p.set[e], :size].sum() == 1
                for o in range(size):
                    if p.member[p.set[e], o] == single:
                        asked[question[f] + o] = True
        for f in range(len(p.start) - 1):
            size = p.start[f + 1] - p.start[f]
            n_asked = size - 1 if p.ordered[f] or size == 1 else size
            for b in range(n_asked):
                q = question[f] + b
                if not asked[q]:
                    continue
                for side in range(2):  # wholly no, wholly yes
                    any_leaf = False
                    for leaf in range(first, last):
                        for e in range(p.entry_start[leaf], p.entry_start[leaf + 1]):
                            if p.feature[e] != f:
                                continue
                            if p.set[e] < 0:
                                wholly = p.hi[e] <= b if side == 0 else p.lo[e] > b
                            elif side == 0:
                                wholly = not p.member[p.set[e], b]
                            else:
                                wholly = p.member[p.set[e], b] and p.member[p.set[e], :size].sum() == 1
                            if wholly:
                                any_leaf = True
                                rows.append(n_rows)
                                columns.append(n_questions + leaf)
                                values.append(1.0)
                    if any_leaf:
                        rows.append(n_rows)
                        columns.append(q)
                        values.append(1.0 if side == 0 else -1.0)
                        upper.append(1.0 if side == 0 else 0.0)
                        origin.append((tree, f, b, side))
                        n_rows += 1
    return (
        np.array(rows[1:]),
        np.array(columns[1:]),
        np.array(values[1:]),
        np.array(upper[1:]),
        np.array(origin[1:]),
    )


def point_of(problem: Problem, choice: np.ndarray) -> np.ndarray:
    """Return the solver's variables at a choice."""
    question, n_questions = first_questions(problem)
    x = np.zeros(n_questions + problem.n_leaves)
    for f, option in enumerate(choice):
        size = problem.start[f + 1] - problem.start[f]
        if size > 1 and problem.ordered[f]:
            x[question[f] : question[f] + option] = 1.0
        elif size > 1:
            x[question[f] + option] = 1.0
    x[n_questions:] = _reached(problem, np.ascontiguousarray(choice))
    return x


def choice_of(problem: Problem, x: np.ndarray) -> np.ndarray:
    """Return the choice that the solver's variables stand for."""
    question, _ = first_questions(problem)
    choice = np.zeros(problem.n_features, dtype=np.int64)
    for f in range(problem.n_features):
        size = problem.start[f + 1] - problem.start[f]
        if size > 1 and problem.ordered[f]:
            choice[f] = int((x[question[f] : question[f] + size - 1] > 0.5).sum())
        elif size > 1:
            choice[f] = int(x[question[f] : question[f] + size].argmax())
    return choice


@compiled
def _reached(p, choice):
    reached = np.zeros(p.votes.shape[1])
    for leaf in range(p.votes.shape[1]):
        inside = True
        for e in range(p.entry_start[leaf], p.entry_start[leaf + 1]):
            inside &= holds(p, e, choice[p.feature[e]])
        reached[leaf] = 1.0 if inside else 0.0
    return reached


def cut_off(model: Milp, problem: Problem, choice: np.ndarray) -> None:
    """Add a cut that forbids all choices with the same leaves, and so the same votes."""
    question, _ = first_questions(problem)
    row = np.zeros(len(model.cost))
    least = 1.0
    reached = _reached(problem, np.ascontiguousarray(choice)) > 0
    entries = np.repeat(reached, np.diff(problem.entry_start))
    for f in range(problem.n_features):
        size = problem.start[f + 1] - problem.start[f]
        mine = entries & (problem.feature == f)
        if not mine.any():
            continue
        q = question[f]
        if problem.ordered[f]:
            lo, hi = problem.lo[mine].max(), problem.hi[mine].min()
            if lo > 0:  # leave downwards: u[lo] = 0
                row[q + lo - 1] -= 1.0
                least -= 1.0
            if hi < size - 1:  # leave upwards: u[hi + 1] = 1
                row[q + hi] += 1.0
        else:
            row[q : q + size] += ~problem.member[problem.set[mine], :size].all(axis=0)
    model.matrix = sp.csr_matrix(sp.vstack([sp.csr_matrix(row), model.matrix], format="csr"))
    model.lower, model.upper = np.concatenate([[least], model.lower]), np.concatenate([[np.inf], model.upper])
