"""Compare predicted with measured validity on the paper's data sets.

    python -m robustcf_benchmarks.prediction [--rows 10] [--forests 10] [--time-limit 600] [SET ...]

prints one line of a Markdown table per data set and method. `predicted` comes from the explained forest
alone. `measured` is the share of forests retrained on the same data that agree. `calibrated` is the
prediction for one half of the rows, corrected by a `Calibration` fitted on the other half.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.datasets.registry import PAPER_SETS
from robustcf.insight import important_features, permutation_importance
from robustcf.validate import retrain, validity

METHODS = (rc.Naive(), rc.DirectSAA(0.2), rc.DirectSAA(0.05))
IMPORTANCE_ROWS = 2000  # rows used to measure importance
FIRST_SEED = 100  # the first retrained forest's seed


@dataclass(frozen=True)
class Line:
    """One data set and method.

    Validities are means over the points that reach the threshold.
    """

    dataset: str
    important: int
    method: rc.Method
    reached: int
    proved: int
    predicted: float
    calibrated: float
    measured: float

    @property
    def bias(self) -> float:
        return self.predicted - self.measured

    def __str__(self) -> str:
        shares = " | ".join(f"{100 * x:.0f}" for x in (self.predicted, self.calibrated, self.measured))
        return (
            f"| {self.dataset} | {self.important} | {self.method.title} | {self.reached} ({self.proved}) "
            f"| {shares} | {100 * self.bias:+.0f} |"
        )


def measure(
    name: str, rows: int = 10, forests: int = 10, time_limit: float = 600.0, seed: int = 7
) -> list[Line]:
    """Explain random rows of a data set, retrain forests, and compare the validities."""
    data = rc.datasets.load(name)
    X = data.encoded
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(data), rows, replace=False)
    forest = rc.Forest.from_sklearn(RandomForestClassifier(100, max_depth=4, random_state=0).fit(X, data.y))
    some = rng.choice(len(data), min(len(data), IMPORTANCE_ROWS), replace=False)
    importance = permutation_importance(forest, data.schema, X[some], data.y[some])
    explainer = rc.Explainer(forest, data.schema, METHODS, best_score=False, time_limit=time_limit)
    answers = [a for a in explainer.explain_many(data.X.iloc[chosen]) if a.point is not None]
    again = [retrain(forest, X, data.y, FIRST_SEED + i) for i in range(forests)]
    targets = [a.target for a in answers if a.target is not None]
    held = validity(again, np.array([a.encoded for a in answers]), targets).mean(axis=1)
    predicted = np.array([a.predicted_validity for a in answers])
    calibrated = _calibrated(predicted, held, np.array([a.row % 2 for a in answers]))
    lines = []
    for method in METHODS:
        mine = np.array([a.method == method for a in answers])
        proved = sum(a.method == method and a.status == "optimal" for a in answers)
        means = [float(x[mine].mean()) for x in (predicted, calibrated, held)]
        lines.append(Line(name, important_features(importance), method, int(mine.sum()), proved, *means))
    return lines


def _calibrated(predicted: np.ndarray, held: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Return each half's predictions, corrected by a calibration on the other half."""
    corrected = np.full(len(predicted), np.nan)
    for side in (0, 1):
        if (half != side).any():
            learnt = rc.Calibration.fit(predicted[half != side], held[half != side])
            corrected[half == side] = learnt(predicted[half == side])
    return corrected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help="data sets; all eight by default")
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--forests", type=int, default=10)
    parser.add_argument("--time-limit", type=float, default=600.0)
    given = parser.parse_args()
    print("| data set | important | method | points (proved) | predicted | calibrated | measured | bias |")
    print("|---|---|---|---|---|---|---|---|")
    for name in given.sets or PAPER_SETS:
        for line in measure(name, given.rows, given.forests, given.time_limit):
            print(line, flush=True)


if __name__ == "__main__":
    main()
