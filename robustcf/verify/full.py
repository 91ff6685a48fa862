"""Search with HiGHS for an allowed point that refutes a claim, in the full model.

The binaries are order-encoded: u[f, j] = "the feature has candidate j or a higher one" (for a
categorical: z[f, c]). There is one continuous y per reachable leaf, and they sum to 1 in each tree. Per
tree, feature and candidate, the leaves wholly above it have Σ y ≤ u, and the leaves wholly below it
have Σ y ≤ 1 - u. There is one row each for the score, for a certified row's score in the pool, for the
isolation forest's path lengths, for every link and for the number of changes. One more row requires less than
the claimed cost. If the model has no solution, the claim is confirmed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from robustcf.support.tolerances import CHEAPER, PATH_BLUR, SOLVER_FEASIBILITY, TIE_MARGIN, WITNESS_VOTES
from robustcf.verify.candidates import Candidates, candidates
from robustcf.verify.claims import Claim, judge, pool_of
from robustcf.verify.demands import needed_score, score_at, threshold
from robustcf.verify.milp import Model, Row, Solver
from robustcf.verify.plausible import ISOLATION, OUTLIER
from robustcf.verify.sheet import ShardQuestion
from robustcf.verify.trees import Trees

MOST_CUTS = 25  # points within rounding of a demand that are excluded one by one


@dataclass(frozen=True)
class Resolved:
    """The outcome of solving a claim again.

    It is `refuted` by the point, `confirmed` (HiGHS proved that no point refutes it) or `open`.
    """

    outcome: Literal["confirmed", "refuted", "open"]
    point: np.ndarray | None = None
    objective: float = math.nan
    score: float = math.nan
    seconds: float = 0.0


class FullModel:
    """The integer program of one customer's candidate values and the trees."""

    def __init__(self, asked: ShardQuestion, claim: Claim, own: np.ndarray) -> None:
        self.asked, self.claim, self.own = asked, claim, own
        self.demand = asked.demands[claim.method]
        self.plausible = claim.status != "no_recourse"
        self.isolation = None
        if self.plausible and self.demand.name == ISOLATION and asked.plausible is not None:
            self.isolation = asked.plausible.isolation.get((claim.method, claim.target))
        self.forest = asked.trees  # with the pool's trees behind it, if the claim has a pool
        if self.leveled:
            self.forest = pool_of(asked, claim.method, claim.pool_trees) or asked.trees
        self.model = Model()
        self.below = self._below()
        self.scale = 1.0 if math.isinf(claim.least) else 1.0 / max(claim.least, 1e-300)
        self.candidates = [p.within(self.below) for p in self._candidates()]
        self.at: list[list[int]] = [self._feature(j) for j in range(len(self.candidates))]
        self._trees(self.forest, self._demands())
        if self.isolation is not None:
            bound = self.isolation.bound + 2 * PATH_BLUR
            self._trees(self.isolation.trees, [(self.isolation.length, bound)])
        self._rules()
        if math.isfinite(self.below):
            spent = {c: v for c, v in enumerate(self.model.cost) if v}
            self.model.row(spent, high=(self.below - self._home()) * self.scale)

    def _below(self) -> float:
        """Return the cost limit of a refuting point without its 1-LOF penalty.

        The penalty is at least λ.
        """
        least = self.claim.least
        if math.isfinite(least) and self.demand.name == OUTLIER:
            least -= float(self.demand.parameter or 0.0)
        return least * (1 - CHEAPER) if math.isfinite(least) else math.inf

    def _home(self) -> float:
        return float(sum(p.costs[0] for j, p in enumerate(self.candidates) if self._ordered(j)))

    @property
    def leveled(self) -> bool:
        """Whether the claim is about points with a certified row's level."""
        return self.plausible and self.claim.level is not None

    def _demands(self) -> list[tuple[np.ndarray, float]]:
        """Return the conditions: each leaf's votes, and how many are needed."""
        asked, claim, votes = self.asked, self.claim, self._votes()
        # Hard votes are integers, so half a vote separates them; soft votes need a margin.
        margin = -0.5 if self.demand.voting == "hard" else WITNESS_VOTES
        n, bar = len(asked.trees), asked.trees.bar(claim.target)
        explained = np.arange(len(votes)) < len(asked.trees.leaf)
        needed = needed_score(self.demand, n, bar)
        if asked.trees.boosting is not None:
            base = asked.trees.boosting.base if claim.target == 1 else -asked.trees.boosting.base
            return [(votes, bar.margin(threshold(self.demand, n, bar)) - base + margin)]
        found = [(np.where(explained, votes, 0.0), n * needed + margin)]
        if bar.plurality and threshold(self.demand, n, bar) < bar.score:  # the lead over each other class
            for k in range(len(asked.trees.classes)):
                if k != claim.target:
                    lead = np.where(explained, votes - self._votes(k), 0.0)
                    least = float(claim.target > k) if self.demand.voting == "hard" else n * TIE_MARGIN
                    found.append((lead, least + margin))
        if self.leveled and claim.level is not None:
            n = len(self.forest)
            needed = n * score_at(claim.level, n, self.demand.voting, bar)
            found.append((votes, needed + margin))
        return found

    def _votes(self, label: int | None = None) -> np.ndarray:
        """Return each leaf's votes for the claim's target, or for another class."""
        leaf, c = self.forest.leaf, self.claim.target if label is None else label
        if self.demand.voting == "hard":
            return np.asarray(leaf.argmax(axis=1) == c, dtype=np.float64)
        return np.asarray(leaf[:, c])

    def _ordered(self, j: int) -> bool:
        return self.asked.schema.features[j].ordered

    def _candidates(self) -> Iterator[Candidates]:
        schema, ruled = self.asked.schema, bool(self.asked.schema.links)
        trees = [self.forest] if self.isolation is None else [self.forest, self.isolation.trees]
        for j, feature in enumerate(schema.features):
            thresholds = []
            for column in range(schema.column_start[j], schema.column_start[j + 1]):
                mine = [t.threshold[(t.left >= 0) & (t.feature == column)] for t in trees]
                thresholds.append(np.unique(np.concatenate(mine)))
            floats = tuple(dict.fromkeys(t.floats for t in trees))
            yield candidates(feature, float(self.own[j]), thresholds, ruled, floats)

    def _feature(self, j: int) -> list[int]:
        """Add a feature's binaries: u for an ordered feature, z for a categorical."""
        price = self.candidates[j].costs * self.scale
        price = np.where(np.isfinite(price), price, 0.0)
        if self._ordered(j):
            found = [self.model.column(price[k] - price[k - 1], whole=True) for k in range(1, len(price))]
            for first, second in pairwise(found):
                self.model.row({first: 1.0, second: -1.0}, low=0.0)
            return found
        found = [self.model.column(c, whole=True) for c in price]
        self.model.row(dict.fromkeys(found, 1.0), 1.0, 1.0)
        return found

    def _trees(self, trees: Trees, demands: list[tuple[np.ndarray, float]]) -> None:
        """Add leaves, their links to the candidates, and a row for the votes of each demand."""
        score: list[Row] = [{} for _ in demands]
        left = [demand for _, demand in demands]
        tests = self._tests(trees)
        for root in trees.roots:
            leaves = list(_leaves(trees, int(root), tests, [len(p) for p in self.candidates]))
            if len(leaves) == 1:
                left = [n - float(votes[leaves[0][0]]) for n, (votes, _) in zip(left, demands, strict=True)]
                continue
            y = [self.model.column() for _ in leaves]
            self.model.row(dict.fromkeys(y, 1.0), 1.0, 1.0)
            for row, (votes, _) in zip(score, demands, strict=True):
                row.update({c: float(votes[node]) for c, (node, _) in zip(y, leaves, strict=True)})
            for j in {j for _, masks in leaves for j in masks}:
                self._link(j, [(c, masks[j]) for c, (_, masks) in zip(y, leaves, strict=True) if j in masks])
        for row, low in zip(score, left, strict=True):
            self.model.row(row, low=low)

    def _tests(self, trees: Trees) -> dict[int, tuple[int, np.ndarray]]:
        """Return for each inner node its feature and which of its candidates go left."""
        schema, found = self.asked.schema, {}
        feature_of = np.repeat(np.arange(len(schema)), np.diff(schema.column_start))
        for node in np.flatnonzero(trees.left >= 0):
            j = int(feature_of[trees.feature[node]])
            column = trees.feature[node] - schema.column_start[j]
            value = self.candidates[j].columns[:, column].astype(trees.floats)
            goes = np.where(np.isnan(value), trees.missing_left[node], value <= trees.threshold[node])
            found[int(node)] = j, goes.astype(bool)
        return found

    def _link(self, j: int, leaves: list[tuple[int, np.ndarray]]) -> None:
        """Allow a tree's leaves only for candidates that reach them."""
        if not self._ordered(j):
            for c, z in enumerate(self.at[j]):
                shut = [y for y, mask in leaves if not mask[c]]
                if shut:
                    self.model.row({**dict.fromkeys(shut, 1.0), z: 1.0}, high=1.0)
            return
        ends = [(y, int(np.flatnonzero(mask)[0]), int(np.flatnonzero(mask)[-1])) for y, mask in leaves]
        for first in {lo for _, lo, _ in ends if lo > 0}:
            above = dict.fromkeys([y for y, lo, _ in ends if lo >= first], 1.0)
            self.model.row({**above, self.at[j][first - 1]: -1.0}, high=0.0)
        for last in {hi for _, _, hi in ends if hi < len(self.candidates[j]) - 1}:
            under = dict.fromkeys([y for y, _, hi in ends if hi <= last], 1.0)
            self.model.row({**under, self.at[j][last]: 1.0}, high=1.0)

    def _moves(self, j: int) -> dict[str, tuple[Row, float]]:
        """Return "down", "same" and "up" as sums of binaries plus a constant."""
        own, at = self.candidates[j].own, self.at[j]
        if not self._ordered(j):
            return {"same": ({at[own]: 1.0}, 0.0), "up": ({at[own]: -1.0}, 1.0), "down": ({}, 0.0)}
        here: tuple[Row, float] = ({at[own - 1]: 1.0}, 0.0) if own > 0 else ({}, 1.0)
        above: Row = {at[own]: 1.0} if own < len(at) else {}
        return {
            "down": ({c: -v for c, v in here[0].items()}, 1.0 - here[1]),
            "same": ({**here[0], **{c: -v for c, v in above.items()}}, here[1]),
            "up": (above, 0.0),
        }

    def _rules(self) -> None:
        schema = self.asked.schema
        for link in schema.links:
            terms: Row = {}
            constant = 0.0
            for clause, sign in ((link.then, 1.0), (link.when, -1.0)):
                moves = self._moves(schema.names.index(clause.feature))
                for move in clause.moves:
                    for c, v in moves[move][0].items():
                        terms[c] = terms.get(c, 0.0) + sign * v
                    constant += sign * moves[move][1]
            self.model.row(terms, low=-constant)
        if schema.max_changes is not None:
            stays = [self._moves(j)["same"] for j in range(len(schema))]
            same: Row = {}
            for part, _ in stays:
                same.update(part)
            self.model.row(same, low=len(schema) - schema.max_changes - sum(c for _, c in stays))

    def solve(self, seconds: float) -> Resolved:
        """Run HiGHS until it finds a witness, proves there is none, or times out."""
        begin = time.monotonic()
        if self.plausible and self.demand.name == ISOLATION and self.isolation is None:
            return Resolved("open")
        if self.leveled and len(self.forest) != self.claim.pool_trees:
            return Resolved("open")  # the pool is not available
        if self.below <= 0:  # no point has a negative cost
            return Resolved("confirmed")
        if any(
            not row and low > SOLVER_FEASIBILITY
            for row, low in zip(self.model.rows, self.model.low, strict=True)
        ):
            return Resolved("confirmed")  # a requirement that no variable can satisfy
        solver = Solver(self.model)
        for _ in range(MOST_CUTS):
            status, x = solver.run(seconds - (time.monotonic() - begin))
            if status != "found":
                outcome: Literal["confirmed", "open"] = "confirmed" if status == "none" else "open"
                return Resolved(outcome, seconds=time.monotonic() - begin)
            assert x is not None
            point = self._point(x)
            found = judge(self.asked, self.claim, self.own[None], point[None])
            if found.refutes(self.claim.least)[0]:
                took = time.monotonic() - begin
                return Resolved("refuted", point, float(found.objective[0]), float(found.score[0]), took)
            solver.cut(x)
        return Resolved("open", seconds=time.monotonic() - begin)

    def _point(self, x: np.ndarray) -> np.ndarray:
        chosen = []
        for j, p in enumerate(self.candidates):
            values = x[self.at[j]] > 0.5
            chosen.append(p.numbers[int(values.sum()) if self._ordered(j) else int(values.argmax())])
        return np.array(chosen)


def _leaves(
    trees: Trees, root: int, tests: dict[int, tuple[int, np.ndarray]], sizes: list[int]
) -> Iterator[tuple[int, dict[int, np.ndarray]]]:
    """Yield the reachable leaves with the candidates that reach them, by feature."""
    open_: list[tuple[int, dict[int, np.ndarray]]] = [(root, {})]
    while open_:
        node, masks = open_.pop()
        if trees.left[node] < 0:
            yield node, {j: mask for j, mask in masks.items() if not mask.all()}
            continue
        j, goes = tests[node]
        mask = masks.get(j, np.ones(sizes[j], dtype=bool))
        for child, side in ((trees.left[node], goes), (trees.right[node], ~goes)):
            both = mask & side
            if both.any():
                open_.append((int(child), {**masks, j: both}))


def resolve(asked: ShardQuestion, claim: Claim, own: np.ndarray, seconds: float) -> Resolved:
    """Check a claim about the customer with row `own` by solving the full model."""
    return FullModel(asked, claim, own).solve(seconds)
