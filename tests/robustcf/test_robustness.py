"""Predicted robustness against the laws it is taken from, calibration, and points of any origin."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, chisquare, norm
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import robustcf as rc
from robustcf.thresholds import p_star
from robustcf.validate import retrain, validity


@cache
def credit() -> tuple[rc.datasets.Dataset, np.ndarray, rc.Forest]:
    data = rc.datasets.synthetic_credit(n=400, seed=0)
    X = data.encode(data.X)
    return (
        data,
        X,
        rc.Forest.from_sklearn(RandomForestClassifier(21, max_depth=3, random_state=0).fit(X, data.y)),
    )


@pytest.mark.parametrize("n", [None, 40, 41])
@pytest.mark.parametrize("target", [0, 1])
def test_hard_votes_follow_the_binomial_law(n: int | None, target: int) -> None:
    _, X, forest = credit()
    ahead = rc.predicted_validity(forest, X[:50], target, "hard", n_trees=n)
    size = n or len(forest)
    share = forest.score(X[:50], target, "hard")
    most = size / 2 if target == 1 else (size - 1) // 2  # the first class wins a tie
    assert ahead.estimate == pytest.approx(binom.sf(np.floor(most), size, share), abs=1e-12)
    assert (ahead.low <= ahead.estimate + 1e-12).all()
    assert (ahead.estimate <= ahead.high + 1e-12).all()
    assert "optimistic" in ahead.label


def test_soft_votes_follow_the_normal_law() -> None:
    _, X, forest = credit()
    ahead = rc.predicted_validity(forest, X[:50], 1, "soft", n_trees=84)
    p = np.array([tree.predict_proba(X[:50])[:, 1] for tree in forest.judge.estimators_])
    with np.errstate(divide="ignore"):
        expected = norm.sf((0.5 - p.mean(axis=0)) / (p.std(axis=0, ddof=1) / np.sqrt(84)))
    assert ahead.estimate == pytest.approx(expected, abs=1e-9)


def test_direct_saa_predicts_its_target_under_hard_votes() -> None:
    """At a vote share of p* the binomial law promises 1 - alpha (Prop. 1)."""
    for n, alpha in ((101, 0.05), (101, 0.3), (11, 0.1)):
        assert binom.sf(n // 2, n, p_star(n, alpha)) == pytest.approx(1 - alpha, abs=1e-9)


def test_calibration_is_monotone_and_lowers_what_was_optimistic() -> None:
    rng = np.random.default_rng(0)
    predicted = rng.random(300)
    measured = rng.binomial(50, predicted**2) / 50
    learnt = rc.Calibration.fit(predicted, measured)
    at = np.linspace(0, 1, 21)
    assert (np.diff(learnt(at)) >= 0).all()
    assert np.abs(learnt(at) - at**2).max() < 0.1
    assert learnt.bias == pytest.approx(1 / 6, abs=0.03)
    for bad in (([], []), ([0.5], [0.5, 0.6]), ([1.5], [0.5]), ([0.5], [np.nan])):
        with pytest.raises(ValueError, match=r"non-empty and of equal length|validities"):
            rc.Calibration.fit(np.array(bad[0]), np.array(bad[1]))


def test_points_of_any_tool_are_assessed() -> None:
    data, X, forest = credit()
    again = [retrain(forest, X, data.y, seed) for seed in range(5)]
    points = data.X.head(30).copy()
    targets = [int(t) for t in np.arange(30) % 2]
    points = points.astype(object)
    points.iloc[3, 0] = np.inf
    methods = (rc.Naive(), rc.DirectSAA(0.05))
    table = rc.assess_points(
        forest, data.schema, points, targets, methods=methods, retrained=again,
        calibration=rc.Calibration.fit(np.array([0.0, 1.0]), np.array([0.0, 0.5])),
    )  # fmt: skip
    assert len(table) == 30
    assert "too large" in table.reason[3] or "not one of" in table.reason[3]
    assert pd.isna(table.score[3])
    fine = table[table.reason.isna()].index
    score = forest.judge.predict_proba(X[fine])[np.arange(len(fine)), np.array(targets)[fine]]
    assert table.score[fine].to_numpy(dtype=float) == pytest.approx(score)
    tau = rc.DirectSAA(0.05).threshold(len(forest))
    passes = table["passes direct-saa alpha=0.05"][fine].to_numpy(dtype=bool)
    assert (passes == (score >= tau)).all()
    held = validity(again, X[fine], [targets[i] for i in fine])
    assert table.measured[fine].to_numpy(dtype=float) == pytest.approx(held.mean(axis=1))
    assert table.calibrated[fine].to_numpy(dtype=float) == pytest.approx(
        table.predicted[fine].to_numpy(dtype=float) / 2
    )
    with pytest.raises(ValueError, match="targets"):
        rc.assess_points(forest, data.schema, points, [1, 0])


# ------------------------------------------------------------------------- the theory, on stumps


def stump_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.random((120, 3))
    return X, (X @ [1.0, 0.8, 0.6] + 0.35 * rng.normal(size=120) > 1.2).astype(int)


def stump_votes(X: np.ndarray, y: np.ndarray, points: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Votes of n independent bootstrapped stumps at each point, as a random forest grows them."""
    rng = np.random.default_rng(seed)
    votes = np.empty((n, len(points)), dtype=bool)
    for i in range(n):
        rows = rng.integers(len(X), size=len(X))
        stump = DecisionTreeClassifier(
            max_depth=1, max_features="sqrt", random_state=int(rng.integers(2**31))
        )
        votes[i] = stump.fit(X[rows], y[rows]).predict(points) == 1
    return votes


@pytest.mark.slow
def test_votes_of_retrained_stump_ensembles_are_binomial() -> None:
    """p from 20,000 independent stumps; then 1,000 retrained ensembles' counts pass a test at 1 %."""
    X, y = stump_data()
    points = np.array([[0.5, 0.5, 0.5], [0.55, 0.6, 0.5], [0.4, 0.7, 0.6], [0.6, 0.35, 0.6]])
    p = stump_votes(X, y, points, 20_000, seed=0).mean(axis=0)
    n, tested = 25, 0
    counts = np.array(
        [
            (
                rc.Forest.from_sklearn(
                    RandomForestClassifier(n, max_depth=1, random_state=seed).fit(X, y)
                ).score(points, 1, "hard")
                * n
            ).round()
            for seed in range(1000, 2000)
        ]
    )
    for i in range(len(points)):
        if not 0.05 < p[i] < 0.95:
            continue
        expected = 1000 * binom.pmf(np.arange(n + 1), n, p[i])
        seen = np.bincount(counts[:, i].astype(int), minlength=n + 1).astype(float)
        groups = np.cumsum(expected) // 10  # at least ten expected in each
        pooled = [(seen[groups == g].sum(), expected[groups == g].sum()) for g in np.unique(groups)]
        observed, wanted = np.array(pooled).T
        assert chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > 0.01, (points[i], p[i])
        tested += 1
    assert tested >= 2


def direct_saa_distances(sizes: tuple[int, ...], repeats: int) -> dict[int, np.ndarray]:
    X, y = stump_data()
    schema = rc.Schema(tuple(rc.Feature(n, "continuous", low=0.0, high=1.0) for n in "abc"))
    row = {"a": 0.2, "b": 0.3, "c": 0.4}
    found = {}
    for n in sizes:
        distances = []
        for seed in range(repeats):
            forest = rc.Forest.from_sklearn(
                RandomForestClassifier(n, max_depth=1, random_state=seed).fit(X, y)
            )
            answer = rc.Explainer(forest, schema, rc.DirectSAA(0.1), target=1, voting="hard").explain(row)
            assert answer.status == "optimal", answer
            distances.append(answer.distance)
        found[n] = np.array(distances)
    return found


@pytest.mark.slow
def test_direct_saa_converges_on_stumps() -> None:
    """Proposition 4: as N grows, the distance settles on the minimum-cost robust one."""
    found = direct_saa_distances((25, 201, 1601), 8)
    spread = [found[n].std() for n in found]
    assert spread[0] > spread[1] > spread[2]
    limit = np.median(found[1601])
    error = [np.abs(found[n] - limit).mean() for n in found]
    assert error[0] > 2 * error[1] > 2 * error[2]
