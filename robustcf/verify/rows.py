"""Check rows of `counterfactuals` against forest, schema and status."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from robustcf.support.tolerances import CHECKED_COLUMN, CHECKED_PREDICTION
from robustcf.verify.certificates import check_certificates
from robustcf.verify.demands import PENALISED, predicted
from robustcf.verify.evidence import check_evidence
from robustcf.verify.findings import Findings, short
from robustcf.verify.moves import check_moves, check_points
from robustcf.verify.plausible import check_plausible
from robustcf.verify.sheet import Block, ShardQuestion, Sheet
from robustcf.verify.statuses import CLAIMS, check_demands, check_keys, check_statuses
from robustcf.verify.trees import Verdict


@dataclass
class Checked:
    """Results for later checks: each row's method, and known customers' rows."""

    method: np.ndarray
    instance: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    origin: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))


def check_block(block: Block, asked: ShardQuestion, findings: Findings) -> Checked:
    """Check everything about these rows that needs only the run folder."""
    sheet = _Points(block, asked, findings)
    check_keys(sheet)
    check_statuses(sheet)
    check_evidence(sheet)
    need = check_demands(sheet)
    checked = Checked(sheet.method)
    if len(block.at):
        sheet.check_points(need, checked)
    check_certificates(sheet)
    return checked


class _Points(Sheet):
    """The rows that have a point."""

    def check_points(self, need: np.ndarray, checked: Checked) -> None:
        block, asked, at = self.block, self.asked, self.block.at
        columns = asked.trees.n_features
        if block.points.shape[1] != columns or len(asked.schema.columns) != columns:
            self.note("point", self.has, f"point does not have the forest's {columns} columns")
            return
        fine = check_points(asked.schema, block.points, self._missing, self._named, self.findings)
        moves = check_moves(asked.schema, block.points, block.changes, self._named, self.findings)
        fine &= (self.target[at] >= 0) & (self.method[at] >= 0)
        self.check_costs(self._full(moves.distance), self._full(moves.whole, False))
        self.compare("n_changed", self.has, self._full(np.bincount(block.changes.row, minlength=len(at))), 0)
        verdicts = {v: self.judge(block.points, at, fine, v) for v in self.votings}
        self.check_scores(verdicts, self._full(fine, False), need)
        self.check_origins(moves.origin, fine & moves.whole, checked)
        check_plausible(self, block.points, moves.origin, fine & moves.whole)

    @property
    def _missing(self) -> bool:
        return self.asked.trees.accepts_missing

    def _named(self, k: int) -> str:
        return self.name(int(self.block.at[k]))

    def _full(self, values: np.ndarray, otherwise: float = np.nan) -> np.ndarray:
        """Return values of the rows with a point as a column of all rows."""
        full = np.full(self.n, otherwise, dtype=bool if values.dtype == bool else np.float64)
        full[self.block.at] = values
        return full

    @property
    def votings(self) -> list[str]:
        return sorted({d.voting for d in self.asked.demands} | {self.asked.voting})

    def judge(self, X: np.ndarray, rows: np.ndarray, fine: np.ndarray, voting: str) -> Verdict:
        """Return the forest's decisions on encoded rows.

        The result is NaN for rows that are not `fine`.
        """
        some = self.asked.trees.judge(X[fine], self.target[rows[fine]], voting)
        parts = []
        for values in (some.score, some.lead, some.spread, some.edge):
            full = np.full(len(X), np.nan)
            full[fine] = values
            parts.append(full)
        return Verdict(*parts)

    def check_costs(self, distance: np.ndarray, whole: np.ndarray) -> None:
        """Check distance, objective, bound and gap."""
        sound = whole & (self.status != "error")
        self.compare("distance", sound, distance, CHECKED_COLUMN)
        objective, bound = self.number("objective"), self.number("lower_bound")
        penalised = np.array([d.name in PENALISED for d in self.asked.demands] + [False])[self.method]
        free = penalised & (self.status != "no_recourse")
        self.compare("objective", sound & ~free, distance, CHECKED_COLUMN)
        slack = CHECKED_COLUMN * np.maximum(1.0, np.abs(objective))
        with np.errstate(invalid="ignore", divide="ignore"):
            self.note("objective", sound & free & (objective < distance - slack), "objective below distance")
            self.note("lower_bound", self.has & (bound > objective + slack), "lower_bound above objective")
            gap = np.where(objective <= bound, 0.0, (objective - bound) / np.abs(objective))
            self.compare("gap", self.has & ~np.isnan(bound), gap, CHECKED_COLUMN)
            proved = self.status == "optimal"
            self.note("gap", proved & (objective - bound > slack), "optimal, but the gap is not 0")

    def check_scores(self, verdicts: dict[str, Verdict], fine: np.ndarray, need: np.ndarray) -> None:
        """Check the score and decision at the points by walking the trees."""
        own = self.frame["voting"].to_numpy(dtype=object)
        score, decided = np.full(self.n, np.nan), np.zeros(self.n, dtype=bool)
        accepted = np.zeros(self.n, dtype=bool)
        for voting, verdict in verdicts.items():
            mine = own == voting
            score[mine] = self._full(verdict.score)[mine]
            decided[mine] = self._full(verdict.decided(voting), False)[mine]
            accepted[mine] = self._full(~verdict.denied(voting), False)[mine]
        sound = fine & (self.status != "error")
        self.compare("score_after", sound, score, self.rounding)
        claim = sound & np.isin(self.status, CLAIMS)
        self.note("decision", claim & ~decided, "the forest does not decide for the target at the point")
        short_of = claim & (score < need - self.rounding)
        self.findings.where(
            "score_after",
            short_of,
            lambda i: f"{self.name(i)}: score {short(score[i])} does not reach {short(need[i])}",
        )
        best, stuck = self.number("best_score"), sound & (self.status == "no_recourse")
        with np.errstate(invalid="ignore"):
            above = stuck & (score < best - self.rounding)
            self.note("best_score", above, "best_score is above the point's score")
            reached = stuck & (np.fmax(best, score) >= need + 2 * self.rounding)
            tau = self.number("threshold")
            reached &= accepted | (tau >= 0.5) | (len(self.asked.trees.classes) == 2)  # by plurality
            self.note("status", reached, "no_recourse, but the threshold is reached")
        run = verdicts[self.asked.voting]
        guess = predicted(
            run,
            [self.asked.trees.bar(int(t)) for t in self.target[self.block.at]],
            len(self.asked.trees),
            self.asked.voting,
        )
        blurred = self._full(run.spread < CHECKED_COLUMN, False)
        self.compare("predicted_validity", sound & ~blurred, self._full(guess), CHECKED_PREDICTION)

    def check_origins(self, origin: np.ndarray, fine: np.ndarray, checked: Checked) -> None:
        """Check the customers' own rows (points with changes undone).

        All methods must start from the same row. The forest must turn it down, with `score_before`.
        """
        codes, _ = pd.factorize(self.frame["instance_id"].to_numpy(dtype=object))
        mine = codes[self.block.at]
        usable = np.flatnonzero(fine)
        instances, first = np.unique(mine[usable], return_index=True)
        first = usable[first]
        if not len(first):
            return
        own = np.full(codes.max() + 1, -1)
        own[instances] = np.arange(len(instances))
        rows = origin[first]
        same = (origin == rows[own[mine]]) | (np.isnan(origin) & np.isnan(rows[own[mine]]))
        self.findings.where(
            "origin",
            fine & ~same.all(axis=1),
            lambda k: f"{self._named(k)}: does not start from the same row as the customer's other methods",
        )
        checked.instance, checked.origin = self.block.at[first], rows
        there = own[codes] >= 0
        for voting in self.votings:
            verdict = self.judge(rows, self.block.at[first], np.ones(len(rows), dtype=bool), voting)
            score = np.where(there, verdict.score[own[codes]], np.nan)
            with_voting = there & (self.frame["voting"].to_numpy(dtype=object) == voting)
            self.compare("score_before", with_voting, score, self.rounding)
            if voting == self.asked.voting:
                denied = verdict.denied(voting)
                self.findings.where(
                    "decision",
                    ~denied,
                    lambda k: (
                        f"{self.name(int(checked.instance[k]))}: the forest does not turn the customer down"
                    ),
                )
