"""RobX (Dutta et al. 2022): move naive explanations towards stable rows.

The *stability* of a point is R(x) = mean M - sqrt(mean (M - mean M)²) over K Gaussian perturbations of the
point (Dutta et al., Def. 5). The model output M is 1 where the target class is predicted (`on="class"`, as
in the paper's experiments), or the target's score. An unstable naive explanation moves in even steps
towards each of the nearest stable training rows that the forest predicts as the target. Each path yields
its first stable point, and the one nearest to the customer is returned.

Dutta et al. leave some cases open. This implementation handles them as follows:

- M always refers to the target class, whichever label that is.
- If there are fewer stable rows than requested, those are used. If there are none, the most stable of the
  `MOST_ROWS` nearest rows are used, and `reason` says so.
- If no accepted point on the way is stable, the most stable accepted one is returned, and `reason` says so.
- If there is no naive explanation, the answer is that of `Naive`, for example `no_recourse`.
- Only numbers (continuous, discrete) are perturbed and moved in steps; binaries and categories change
  half-way. Every point is *projected* before its stability is measured: values that the schema does not allow
  the customer become the nearest allowed ones. Points that break a rule across features are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.distance import cdist

from robustcf.forest.forest import Label
from robustcf.methods.family import Answer, Customer, Tools
from robustcf.methods.threshold_family import Thresholds
from robustcf.methods.thresholds import Naive
from robustcf.methods.training import Training, coordinates
from robustcf.schema.actionability import listed_numbers, may_become, on_step, reach
from robustcf.schema.check import broken_across, distance
from robustcf.schema.encode import encode
from robustcf.schema.schema import Feature, Schema
from robustcf.support.tolerances import STEP_ROUNDING, TIE_MARGIN

if TYPE_CHECKING:
    from robustcf.methods.robx.method import RobX

MOST_ROWS = 1000  # nearest training rows whose stability is measured
BATCH = 50


class Stability:
    """The RobX family: moves naive explanations to stable points."""

    def __init__(self, thresholds: Thresholds, training: Training, seed: int) -> None:
        self.thresholds, self.training, self.seed = thresholds, training, seed
        for target in training.targets:
            if not len(training.predicted(target)):
                raise ValueError(f"RobX needs a training row that the forest predicts as {target!r}")
        self._known: dict[tuple[Label, int, float, str], dict[int, float]] = {}
        self._noises: dict[tuple[int, float], np.ndarray] = {}

    def answers(self, row: Customer, methods: Sequence[RobX], tools: Tools) -> list[Answer]:
        (naive,) = self.thresholds.answers(row, [Naive()], tools)
        return [self._answer(row, method, naive) for method in methods]

    def penalty(self, row: Customer, method: RobX, point: np.ndarray) -> float:
        return 0.0

    def complaints(self, row: Customer, method: RobX, answer: Answer, encoded: np.ndarray) -> list[str]:
        return []

    def _answer(self, row: Customer, method: RobX, naive: Answer) -> Answer:
        if naive.numbers is None or naive.status not in ("optimal", "feasible"):
            return replace(naive)
        heuristic = replace(naive, status="heuristic", lower_bound=float("nan"))
        if self.stability(naive.numbers[None, :], row.target, method)[0] >= method.tau:
            return heuristic
        rows, stable = self._stable_rows(naive.numbers, row.target, method)
        steps = np.append(np.arange(1, int(1 / method.step + STEP_ROUNDING)) * method.step, 1.0)
        best: tuple[bool, float, np.ndarray] | None = None
        for target_row in rows:
            path = _between(self.thresholds.schema, naive.numbers, target_row, steps)
            path = project(self.thresholds.schema, row.numbers, path)
            best = self._better(best, path, row, method)
        if best is None:
            return replace(
                heuristic, reason="no point on the way keeps the decision; the naive point is kept"
            )
        is_stable, _, point = best
        reason = None
        if not is_stable:
            reason = f"no point on the way reaches stability {method.tau:g}; the most stable one is kept"
        elif not stable:
            reason = (
                f"no training row reaches stability {method.tau:g}; the most stable rows were used instead"
            )
        moved = distance(self.thresholds.schema, row.numbers, point)
        return replace(heuristic, numbers=point, objective=moved, reason=reason)

    def _better(
        self, best: tuple[bool, float, np.ndarray] | None, path: np.ndarray, row: Customer, method: RobX
    ) -> tuple[bool, float, np.ndarray] | None:
        """Return the better of `best` and a path's first stable (or most stable) point."""
        schema = self.thresholds.schema
        accepted = self._accepted(path, row.target)
        if schema.has_rules:  # the projection handles features one by one
            accepted &= [not broken_across(schema, row.numbers, point) for point in path]
        stability = np.where(accepted, self.stability(path, row.target, method), -np.inf)
        reached = np.flatnonzero(stability >= method.tau)
        if len(reached):
            point = path[reached[0]]
            value = -distance(schema, row.numbers, point)
            return (True, value, point) if best is None or (True, value) > best[:2] else best
        at = int(stability.argmax())
        if not accepted[at] or (best is not None and (False, float(stability[at])) <= best[:2]):
            return best
        return False, float(stability[at]), path[at]

    def _accepted(self, points: np.ndarray, target: Label) -> np.ndarray:
        """Return where the forest gives the target, with the margins of `Naive`."""
        forest, voting = self.thresholds.forest, self.thresholds.voting
        encoded = encode(self.thresholds.schema, points)
        c = forest.class_index(target)
        accepted: np.ndarray = forest.predict(encoded, voting) == c
        if voting == "hard":
            return accepted
        scores, least = forest.predict_proba(encoded), np.float64(forest.winning(target).score)
        rivals = np.delete(scores, c, axis=1).max(axis=1) if forest.by_plurality else least
        accepted &= scores[:, c] >= rivals + TIE_MARGIN
        return accepted

    def stability(self, points: np.ndarray, target: Label, method: RobX) -> np.ndarray:
        """Return R(x) of each point; all points have the same perturbations."""
        forest, schema, voting = self.thresholds.forest, self.thresholds.schema, self.thresholds.voting
        noise = self._noise(method.k, method.sigma)
        result = np.empty(len(points))
        for i, encoded in enumerate(encode(schema, points)):
            samples = encoded + noise
            if method.on == "class":
                word = (forest.predict(samples, voting) == forest.class_index(target)).astype(np.float64)
            else:
                word = forest.score(samples, target, voting)
            result[i] = word.mean() - word.std()
        return result

    def _noise(self, k: int, sigma: float) -> np.ndarray:
        """Return seeded perturbations of the encoded number columns, on the [0, 1] scale."""
        if (k, sigma) not in self._noises:
            schema = self.thresholds.schema
            draws = np.random.default_rng(self.seed).normal(0.0, sigma, (k, len(schema.columns)))
            scale = np.zeros(len(schema.columns))
            for j, f in enumerate(schema.features):
                if f.is_number and f.n_columns:
                    low, high = f.encoded(np.array(f.span))
                    scale[schema.column_start[j]] = high - low
            self._noises[k, sigma] = draws * scale
        return self._noises[k, sigma]

    def _stable_rows(self, point: np.ndarray, target: Label, method: RobX) -> tuple[np.ndarray, bool]:
        """Return the nearest stable training rows, or else the most stable ones.

        Also returns whether the rows are stable.
        """
        rows = self.training.predicted(target)
        known = self._known.setdefault((target, method.k, method.sigma, method.on), {})
        schema = self.thresholds.schema
        seen = np.where(np.isnan(point), rows.mean(axis=0), point)
        apart = cdist(coordinates(schema, seen[None, :]), coordinates(schema, rows), "cityblock")[0]
        order = np.argsort(apart, kind="stable")[:MOST_ROWS].tolist()
        stable: list[int] = []
        for begin in range(0, len(order), BATCH):
            batch = order[begin : begin + BATCH]
            new = [i for i in batch if i not in known]
            known |= dict(zip(new, self.stability(rows[new], target, method).tolist(), strict=True))
            stable += [i for i in batch if known[i] >= method.tau]
            if len(stable) >= method.neighbours:
                break
        if stable:
            return rows[stable[: method.neighbours]], True
        most = sorted(order, key=lambda i: -known[i])[: method.neighbours]
        return rows[most], False


def _between(schema: Schema, start: np.ndarray, end: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return points at the given shares of the way; categories change half-way."""
    t = shares[:, None]
    number = np.array([f.is_number for f in schema.features])
    way = np.where(number, (1 - t) * start + t * end, np.where(t >= 0.5, end, start))
    return np.where(np.isnan(start), start, way)


def project(schema: Schema, customer: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the nearest values that the schema allows the customer.

    >>> schema = Schema((Feature("age", "discrete", "increase", values=(20, 30, 40)),))
    >>> project(schema, np.array([30.0]), np.array([[21.0], [38.0]])).ravel()
    array([30., 40.])
    """
    projected = np.repeat(customer[None, :], len(points), axis=0)
    for j, feature in enumerate(schema.features):
        if not np.isnan(customer[j]) and feature.action != "fixed":
            projected[:, j] = _nearest_allowed(feature, float(customer[j]), points[:, j])
    return projected


def _nearest_allowed(feature: Feature, own: float, wishes: np.ndarray) -> np.ndarray:
    if feature.is_listed:
        listed = listed_numbers(feature)
        allowed = np.union1d(listed[may_become(feature, own, listed)], [own])
        if not feature.ordered:
            return np.where(np.isin(wishes, allowed), wishes, own)
        snapped: np.ndarray = allowed[np.abs(wishes[:, None] - allowed).argmin(axis=1)]
        return snapped
    low, high = reach(feature, own)
    clipped: np.ndarray = np.clip(wishes, low, high)
    if feature.step is None:
        return clipped
    near = on_step(feature.step, np.floor(clipped / feature.step)[:, None] + np.arange(-1.0, 3.0))
    near = np.where((near >= low) & (near <= high), near, own)
    choice = np.abs(near - wishes[:, None]).argmin(axis=1)
    best = near[np.arange(len(near)), choice]
    return np.where(np.abs(own - wishes) < np.abs(best - wishes), own, best)
