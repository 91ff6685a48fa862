"""A row's time limit is for all of its solves together."""

import time
from typing import Any

import pytest
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.problem.problem import Problem
from robustcf.solve import BestScore, Finished, Limits, Solution

LIMIT = 0.3


class Dawdler:
    """Takes all the time that it is given, then says that nothing can be reached."""

    name = "dawdler"

    def __init__(self) -> None:
        self.given: list[float] = []

    def _dawdle(self, limits: Limits) -> None:
        self.given.append(limits.seconds)
        time.sleep(limits.seconds)

    def nearest(self, problem: Problem, limits: Limits, *others: Any) -> Solution:
        self._dawdle(limits)
        return Solution(Finished())

    def best_score(self, problem: Problem, limits: Limits, *others: Any) -> BestScore:
        self._dawdle(limits)
        return BestScore(None, 0, 10**9)


@pytest.mark.parametrize("methods", [[rc.Naive()], [rc.Naive(), rc.DirectSAA(0.2), rc.DirectSAA(0.05)]])
def test_the_best_reachable_score_gets_what_is_left(
    methods: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = rc.datasets.synthetic_credit(300, seed=0)
    model = RandomForestClassifier(15, max_depth=3, random_state=0).fit(data.encode(data.X), data.y)
    forest = rc.Forest.from_sklearn(model)
    denied = [i for i, label in enumerate(forest.predict(data.encode(data.X), "soft")) if label == 0][:2]
    monkeypatch.setattr("robustcf.solve.grid.find_incumbent", lambda *_: None)
    explainer = rc.Explainer(forest, data.schema, methods, target=1, time_limit=LIMIT)
    explainer.engine = dawdler = Dawdler()
    for i in denied:
        dawdler.given.clear()
        assert {cf.status for cf in explainer.explain_grid(data.X.iloc[i])} == {"no_recourse"}
        assert len(dawdler.given) >= 2, "the proof, and the best score"
        assert max(dawdler.given) <= LIMIT
        assert sum(dawdler.given) <= LIMIT * len(methods) + 0.05
