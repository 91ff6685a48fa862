"""`Explainer`: every row one status, what does not change stays as it was, work is shared."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.problem.problem import Problem
from robustcf.schema.encode import read_rows
from robustcf.solve import BestScore, Engine, Limits, Solution, SolverError, get_engine
from tests.helpers.explainworld import SCHEMA, rows, trained
from tests.helpers.worlds import Score


@pytest.fixture(scope="module")
def forest() -> rc.Forest:
    return trained()


class Counting:
    """An engine that counts how often it is asked."""

    name = "counting"

    def __init__(self, engine: Engine) -> None:
        self.engine, self.nearest_calls, self.best_calls = engine, 0, 0

    def nearest(
        self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None, lower_bound: float = 0.0
    ) -> Solution:
        self.nearest_calls += 1
        return self.engine.nearest(problem, limits, incumbent, lower_bound)

    def best_score(self, problem: Problem, limits: Limits, incumbent: np.ndarray | None = None) -> BestScore:
        self.best_calls += 1
        return self.engine.best_score(problem, limits, incumbent)


# -------------------------------------------------------------------------------- statuses


def test_every_row_gets_one_status_per_method(forest: rc.Forest) -> None:
    methods = [rc.Naive(), rc.DirectSAA(0.1), Score(1.5)]
    frame = rows(12, seed=1).astype(object)
    frame.loc[3, "job"] = "king"
    answers = rc.Explainer(forest, SCHEMA, methods, target="good", solver="highs").explain_many(frame)
    assert [(a.row, a.method) for a in answers] == [(i, m) for i in range(12) for m in methods]
    by_row = {i: [a.status for a in answers if a.row == i] for i in range(12)}
    assert by_row[3] == ["invalid_input"] * 3
    assert all(s[2] in ("no_recourse", "already_favourable", "invalid_input") for s in by_row.values())
    assert {s for statuses in by_row.values() for s in statuses} == {
        "optimal", "no_recourse", "already_favourable", "invalid_input"
    }  # fmt: skip
    for a in answers:
        assert a.verified == (a.point is not None)
        if a.status == "optimal":
            assert a.score >= a.threshold - 1e-12
            assert a.score > a.score_before
            assert a.gap == 0.0
            assert a.n_changed == len(a.changes) > 0


def test_already_favourable_is_what_predict_says_whatever_the_threshold(forest: rc.Forest) -> None:
    frame = rows(40, seed=2)
    X = rc.datasets.Dataset("rows", frame, np.zeros(40, dtype=int), SCHEMA).encode(frame)
    predicted = forest.judge.predict(X)
    answers = rc.Explainer(forest, SCHEMA, Score(0.99), target="good", solver="highs").explain_many(frame)
    for label, answer in zip(predicted, answers, strict=True):
        assert (answer.status == "already_favourable") == (label == "good")
        if label == "good":
            assert answer.point is None
            assert math.isnan(answer.distance)
            assert answer.score_before >= 0.5


def test_without_a_target_the_other_class_is_asked_for(forest: rc.Forest) -> None:
    answers = rc.Explainer(forest, SCHEMA, solver="highs").explain_many(rows(20, seed=3))
    assert {a.target for a in answers} == {"good", "bad"}
    assert "already_favourable" not in {a.status for a in answers}


def test_three_classes_need_a_target_and_reach_it() -> None:
    def three(frame: pd.DataFrame) -> np.ndarray:
        return np.digitize(frame["income"] + 20 * frame["age"], [2500, 4000])

    forest = trained(three, 9)
    with pytest.raises(ValueError, match="choose one of them as target"):
        rc.Explainer(forest, SCHEMA)
    for target in (0, 1, 2):
        for answer in rc.Explainer(forest, SCHEMA, target=target, solver="highs").explain_many(
            rows(6, seed=4)
        ):
            assert answer.status in ("optimal", "already_favourable", "no_recourse")
            if answer.status == "optimal":
                assert forest.judge.predict(answer.encoded[None, :])[0] == target
                assert answer.score > 1 / 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "great"}, "no class 'great'"),
        ({"voting": "loud"}, "voting is 'loud'"),
        ({"time_limit": 0.0}, "time_limit"),
        ({"time_limit": math.nan}, "time_limit"),
        ({"solver": "cplex"}, "no solver 'cplex'"),
        ({"method": []}, "no method"),
    ],
)
def test_bad_arguments_are_refused_at_construction(forest: rc.Forest, arguments: Any, message: str) -> None:
    with pytest.raises((ValueError, SolverError), match=message):
        rc.Explainer(forest, SCHEMA, **arguments)


def test_a_schema_of_other_columns_is_refused_at_construction(forest: rc.Forest) -> None:
    with pytest.raises(rc.SchemaError, match="6 columns but the forest was trained on 7"):
        rc.Explainer(forest, SCHEMA.replace("job", values=("clerk", "cook")))


def test_an_engine_that_fails_is_that_rows_error(forest: rc.Forest) -> None:
    class Failing(Counting):
        def nearest(self, *args: Any, **kwargs: Any) -> Solution:
            if self.nearest_calls == 0:
                self.nearest_calls += 1
                raise SolverError("broken")
            return super().nearest(*args, **kwargs)

    explainer = rc.Explainer(forest, SCHEMA, rc.DirectSAA(0.05), target="good", solver="highs")
    explainer.engine = Failing(get_engine("highs"))
    bad = rows(60, seed=5)
    answers = [a for a in explainer.explain_many(bad) if a.status != "already_favourable"]
    assert [a.status for a in answers].count("error") == 1
    (failed,) = [a for a in answers if a.status == "error"]
    assert failed.reason == "SolverError: broken"


# ------------------------------------------------------------------------ what stays, what moves


def test_unchanged_features_keep_their_raw_value(forest: rc.Forest) -> None:
    odd = {
        "age": np.int64(33), "income": 1000, "rate": 0.1 + 0.2, "job": "cook", "citizen": "no",
    }  # fmt: skip
    still = SCHEMA.replace("rate", action="fixed")
    answer = rc.Explainer(forest, still, target="good", solver="highs").explain(odd)
    assert answer.status == "optimal"
    assert answer.point is not None
    moved = {c.feature for c in answer.changes}
    assert moved
    assert "citizen" not in moved
    assert "rate" not in moved
    assert answer.point["rate"] == 0.30000000000000004
    for name in set(odd) - moved:
        assert answer.point[name] == odd[name]
        assert isinstance(answer.point[name], type(odd[name]) if name != "age" else int)
    assert list(answer.point) == list(odd)


@pytest.mark.parametrize("seed", range(5))
def test_moves_obey_the_schema_in_original_units(forest: rc.Forest, seed: int) -> None:
    frame = rows(15, seed=seed + 10)
    frame["rate"] = frame["rate"].astype(np.float64)
    for answer in rc.Explainer(forest, SCHEMA, rc.DirectSAA(0.1), solver="highs").explain_many(frame):
        assert answer.point is not None
        raw = frame.iloc[answer.row]
        assert answer.point["citizen"] == raw["citizen"]
        assert answer.point["age"] >= raw["age"]
        assert answer.point["income"] == round(answer.point["income"])
        for change in answer.changes:
            assert change.before == raw[change.feature]
            assert change.after == answer.point[change.feature]
            assert change.after != change.before
            if change.delta is not None:
                assert change.delta == pytest.approx(change.after - change.before)
        same = set(SCHEMA.names) - {c.feature for c in answer.changes}
        assert all(answer.point[name] == raw[name] for name in same)
        again = rc.datasets.Dataset("p", frame[:1], np.zeros(1, dtype=int), SCHEMA).encode(answer.point)
        assert np.array_equal(again[0], answer.encoded)


def test_integers_of_a_frame_stay_integers(forest: rc.Forest) -> None:
    frame = rows(10, seed=6)[["age", "income", "rate", "job", "citizen"]]
    for answer in rc.Explainer(forest, SCHEMA, solver="highs").explain_many(frame):
        assert answer.point is not None
        assert isinstance(answer.point["age"], int)
        if "income" not in {c.feature for c in answer.changes}:
            assert isinstance(answer.point["income"], int)


def test_all_numeric_frames_do_not_turn_whole_numbers_into_floats() -> None:
    schema = rc.Schema(
        (rc.Feature("n", "discrete", "fixed", values=(1, 2, 3)), rc.Feature("x", "continuous"))
    )
    X = np.random.default_rng(0).random((50, 2))
    forest = rc.Forest.from_sklearn(
        RandomForestClassifier(5, max_depth=2, random_state=0).fit(X, X[:, 1] > 0.5)
    )
    frame = pd.DataFrame({"n": [2, 3], "x": [0.1, 0.9]})
    for answer in rc.Explainer(forest, schema, solver="highs").explain_many(frame):
        assert answer.point is not None
        assert type(answer.point["n"]) is int
    odd = rc.Explainer(forest, schema, solver="highs").explain({"n": Fraction(2), "x": 0.1})
    assert odd.point is not None
    assert odd.point["n"] == 2


# ------------------------------------------------------------------------------ shared work


def test_equal_rows_are_solved_once(forest: rc.Forest) -> None:
    one = rows(200, seed=7)
    explainer = rc.Explainer(forest, SCHEMA, rc.DirectSAA(0.05), target="good", solver="highs")
    plain = [a for a in explainer.explain_many(one) if a.status == "optimal" and a.nodes >= 0]
    explainer.engine = engine = Counting(get_engine("highs"))
    row = one.iloc[[plain[0].row, plain[1].row]]
    explainer.explain_many(row)
    calls = engine.nearest_calls
    answers = explainer.explain_many(pd.concat([row] * 20, ignore_index=True))
    assert engine.nearest_calls == 2 * calls
    assert [a.row for a in answers] == list(range(40))
    assert len({a.distance for a in answers[::2]}) == 1
    assert len({a.distance for a in answers[1::2]}) == 1


def test_the_best_score_is_solved_once_for_customers_with_the_same_reach(forest: rc.Forest) -> None:
    free = SCHEMA.replace("age", action="free")
    explainer = rc.Explainer(forest, free, Score(1.1), target="good", solver="highs")
    explainer.engine = engine = Counting(get_engine("highs"))
    frame = rows(40, seed=8)
    frame["citizen"] = "no"
    answers = [a for a in explainer.explain_many(frame) if a.status == "no_recourse"]
    assert len(answers) > 5
    assert engine.best_calls == 1
    assert len({a.best_score for a in answers}) == 1
    assert all(a.verified for a in answers)
    without = rc.Explainer(forest, free, Score(1.1), target="good", solver="highs", best_score=False)
    plain = [a for a in without.explain_many(frame) if a.status == "no_recourse"]
    assert len(plain) == len(answers)
    assert all(a.point is None and math.isnan(a.best_score) for a in plain)


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_a_grid_rises_and_equals_its_single_solves(forest: rc.Forest, voting: Any) -> None:
    methods = [rc.DirectSAA(0.05), rc.Naive(), rc.RobustSAA(0.05, 0.1), rc.DirectSAA(0.2), Score(0.2)]
    grid = rc.Explainer(forest, SCHEMA, methods, voting=voting, target="good", solver="highs")
    for row in rows(8, seed=9).to_dict("records"):
        together = grid.explain_grid(row)
        if together[0].status == "already_favourable":
            continue
        for method, answer in zip(methods, together, strict=True):
            alone = rc.Explainer(
                forest, SCHEMA, method, voting=voting, target="good", solver="highs"
            ).explain(row)
            assert alone.status == answer.status
            assert alone.distance == pytest.approx(answer.distance, abs=1e-9)
        reached = [a for a in sorted(together, key=lambda a: a.threshold) if a.status == "optimal"]
        assert all(np.diff([a.distance for a in reached]) >= -1e-12)
        assert together[1].distance == pytest.approx(together[4].distance)  # never less than naive


def test_explain_wants_one_method(forest: rc.Forest) -> None:
    with pytest.raises(ValueError, match="explain_grid"):
        rc.Explainer(forest, SCHEMA, [rc.Naive(), rc.Naive()]).explain(rows(1).iloc[0])


def test_answers_do_not_depend_on_neighbours(forest: rc.Forest) -> None:
    frame = rows(30, seed=11)
    together = rc.Explainer(forest, SCHEMA, rc.DirectSAA(0.1), solver="highs").explain_many(frame)
    for i in (0, 7, 29):
        (alone,) = rc.Explainer(forest, SCHEMA, rc.DirectSAA(0.1), solver="highs").explain_many(
            frame.iloc[[i]]
        )
        assert alone.point == together[i].point
        assert alone.distance == together[i].distance


def test_progress_counts_rows(forest: rc.Forest) -> None:
    seen: list[int] = []
    rc.Explainer(forest, SCHEMA, solver="highs").explain_many(rows(5), progress=seen.append)
    assert seen == [1, 2, 3, 4, 5]


def test_rows_that_are_read_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rc.datasets.synthetic_credit(n=200, seed=0)
    model = RandomForestClassifier(10, max_depth=3, random_state=0).fit(data.encoded, data.y)
    explainer = rc.Explainer(rc.Forest.from_sklearn(model), data.schema, [rc.Naive(), rc.DirectSAA(0.2)])
    some = data.X.iloc[[3, 5, 3]].astype(object)
    some.iloc[1, 0] = "unknown"
    read = read_rows(data.schema, some)
    wanted = explainer.explain_many(some)
    assert [cf.status for cf in wanted[2:4]] == ["invalid_input"] * 2
    monkeypatch.setattr("robustcf.explain.explainer.read_rows", None)
    found = explainer.explain_many(some, read=read)
    part = explainer.explain_many(some.iloc[[2]], read=read.take([2]))
    for ours, theirs in ((found, wanted), (part, wanted[4:])):
        for a, b in zip(ours, theirs, strict=True):
            assert (a.status, a.reason, a.point, a.changes) == (b.status, b.reason, b.point, b.changes)
            assert (a.score, a.predicted_validity, a.distance) == pytest.approx(
                (b.score, b.predicted_validity, b.distance), abs=0, nan_ok=True
            )
    with pytest.raises(ValueError, match="3 rows but 1 rows of numbers"):
        explainer.explain_many(some, read=read.take([0]))


def test_equal_customers_share_a_point_but_keep_their_own_values() -> None:
    """Their points are scored once; "2" and 2 are the same number and stay what they are."""
    data = rc.datasets.synthetic_credit(n=200, seed=0)
    model = RandomForestClassifier(10, max_depth=3, random_state=0).fit(data.encoded, data.y)
    explainer = rc.Explainer(rc.Forest.from_sklearn(model), data.schema, target=1)
    denied = int(np.flatnonzero(model.predict(data.encoded) == 0)[0])
    both = [data.X.iloc[denied].to_dict(), {k: str(v) for k, v in data.X.iloc[denied].to_dict().items()}]
    one, other = explainer.explain_many(both)
    assert one.status == other.status == "optimal"
    assert one.verified
    assert other.verified
    assert (one.score, one.distance) == (other.score, other.distance)
    kept = [name for name in data.schema.names if name not in {c.feature for c in one.changes}]
    assert one.point is not None
    assert other.point is not None
    assert all(other.point[name] == both[1][name] and one.point[name] == both[0][name] for name in kept)


def test_a_data_set_is_encoded_once_and_travels_encoded() -> None:
    data = rc.datasets.synthetic_credit(n=50, seed=0)
    assert data.encoded is data.encoded
    assert (data.encoded == data.encode(data.X)).all()
    assert "encoded" in vars(pickle.loads(pickle.dumps(data)))
    with pytest.raises(ValueError, match="read-only"):
        data.encoded[0, 0] = 1.0
