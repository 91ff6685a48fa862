"""The reproduction's arithmetic and pictures, on rows whose answers are known."""

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import robustcf as rc
from robustcf.datasets.registry import PAPER_SETS
from robustcf.reproduction import figures, tables, targets
from robustcf.reproduction.authors import in_their_columns, same_draw
from robustcf.reproduction.compare import (
    Share,
    chance_of_fewer,
    chance_of_more,
    clustered_share,
    difference,
    holm,
    wilson_of,
)
from robustcf.reproduction.dominance import dominance, front_at, on_identical_rows
from robustcf.reproduction.material import Material
from robustcf.reproduction.page import page
from robustcf.reproduction.paper import SHORT, paper
from robustcf.reproduction.paths import feature_values, most_telling, signed_changes
from robustcf.stats import wilson


def make_rows(dataset: str, method: str, valid: np.ndarray, distance: Any, **more: Any) -> pd.DataFrame:
    """A line per entry of `valid`, of shape (simulations, rows)."""
    simulations, rows = valid.shape
    lines: dict[str, Any] = {
        "experiment": "naive-100",
        "dataset": dataset,
        "simulation": np.repeat(np.arange(simulations), rows),
        "instance_id": [f"i{k}" for k in range(simulations * rows)],
        "method": method,
        "alpha": np.nan,
        "beta": np.nan,
        "parameter": np.nan,
        "voting": "soft",
        "n_trees": 100,
        "status": "optimal",
        "distance": distance,
        "gap": 0.0,
        "n_changed": 2,
        "seconds": 0.01,
        "predicted_validity": 0.7,
        "valid": valid.ravel().astype(float),
        "forests": 1,
    }
    return pd.DataFrame(lines | more)


def test_the_papers_numbers_are_all_there() -> None:
    found = paper()
    small, large = found.naive
    assert [(t.n_trees, t.simulations, t.rows) for t in found.naive] == [(100, 40, 5), (400, 20, 5)]
    assert list(small.validity) == list(large.validity) == list(SHORT) == list(found.datasets)
    assert [round(100 * v) for v in small.validity.values()] == [62, 92, 27, 35, 32, 80, 17, 39]
    assert [round(100 * v) for v in large.validity.values()] == [59, 92, 39, 47, 49, 89, 24, 53]
    for name, (rows, features, *kinds) in found.datasets.items():
        assert sum(kinds) == features
        assert (PAPER_SETS[name].rows, PAPER_SETS[name].features) == (rows, features)
    assert all(set(claim.missed) <= set(SHORT) for claim in found.targets)


def test_the_interval_of_a_difference_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        one, other = rng.binomial(200, 0.35), rng.binomial(200, 0.39)
        _, low, high = difference(Share(one / 200, 200), Share(other / 200, 200))
        hits += low <= -0.04 <= high
    assert 0.92 <= hits / 400 <= 0.98


def test_rows_that_hang_together_widen_the_interval() -> None:
    rng = np.random.default_rng(1)
    together = 5 * rng.integers(0, 2, 40)
    share = clustered_share(together.tolist(), [5] * 40)
    assert share.effect == pytest.approx(5, rel=0.1)  # forty coins, each counted five times
    assert wilson_of(share) == pytest.approx(wilson(int(together.sum() / 5), 40), abs=0.02)
    apart = clustered_share(rng.binomial(5, 0.5, 4000).tolist(), [5] * 4000)
    assert apart.effect == pytest.approx(1, abs=0.1)
    assert wilson_of(Share(0.35, 200)) == pytest.approx(wilson(70, 200))


def test_tails_are_the_binomial_ones() -> None:
    for k in range(21):
        share = Share(k / 20, 20)
        assert chance_of_fewer(share, 0.8) == pytest.approx(binom.cdf(k, 20, 0.8))
        assert chance_of_more(share, 0.8) == pytest.approx(binom.sf(k - 1, 20, 0.8))


def test_holm_keeps_false_alarms_below_five_per_cent() -> None:
    rng = np.random.default_rng(2)
    alarms = [min(holm(rng.random(64).tolist())) < 0.05 for _ in range(2000)]
    assert np.mean(alarms) <= 0.065
    assert holm([0.001] + [0.9] * 63)[0] == pytest.approx(0.064)


def test_ours_beside_the_papers() -> None:
    good = np.zeros((40, 5))
    good[:, :2] = 1  # 40 % in every simulation: no design effect
    table = tables.beside_the_paper(make_rows("students-performance", "naive", good, 0.1), paper())
    line = table.iloc[0]
    assert (line["ours"], line["paper"]) == (0.4, 0.39)
    assert line["agrees"]
    expected = difference(Share(0.4, 200), Share(0.39, 200))
    assert tuple(line[["difference", "low", "high"]]) == pytest.approx(expected)
    far = tables.beside_the_paper(make_rows("spambase", "naive", good, 0.1), paper()).iloc[0]
    assert not far["agrees"]
    assert far["low"] > 0.1


def test_targets_are_missed_open_or_surpassed() -> None:
    rng = np.random.default_rng(3)
    rows = pd.concat(
        make_rows(name, "direct-saa", rng.random((40, 5)) < p, 0.1, alpha=0.2, experiment="saa-100")
        for name, p in (("spambase", 0.4), ("adult", 0.8), ("compas", 1.0))
    )
    tested = targets.targets(rows)
    assert tested["verdict"].tolist() == ["missed", "open", "surpassed"]
    found = targets.claims(tested, paper()).set_index("dataset")
    assert found.loc["spambase", "Direct-SAA"] == [0.8]
    assert found.loc["compas", "Direct-SAA"] == []
    assert found["paper"].tolist() == ["misses", "reaches", "reaches"]


def at_eight_levels(rng: np.random.Generator, dataset: str, short: float) -> pd.DataFrame:
    """Ten simulations whose rows and levels hang together, so much below their targets."""
    moods = rng.normal(0, 0.05, size=(10, 1))
    return pd.concat(
        make_rows(dataset, "direct-saa", rng.random((10, 5)) < 1 - a - short + moods, 0.1, alpha=a)
        for a in np.linspace(0.15, 0.5, 8)
    )


def test_a_small_shortfall_at_every_level_shows_over_all_levels_together() -> None:
    rng = np.random.default_rng(2)
    rows = pd.concat([at_eight_levels(rng, "adult", 0.1), at_eight_levels(rng, "compas", 0.0)])
    assert set(targets.targets(rows)["verdict"]) == {"open"}
    table = targets.together(rows)
    assert table["missed"].tolist() == [True, False]
    assert table["over"].iloc[0] == pytest.approx(-0.1, abs=0.06)
    assert (table["low"] < table["over"]).all()
    assert not targets.together(rows[rows["simulation"] < 5])["missed"].any()


@pytest.mark.parametrize("times", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_false_alarms_over_all_levels_are_as_rare_as_they_should_be(times: int) -> None:
    rng = np.random.default_rng(5)
    alarms = [targets.together(at_eight_levels(rng, "adult", 0.0))["missed"].iloc[0] for _ in range(times)]
    assert np.mean(alarms) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / times)  # three standard errors


def on_the_plane() -> pd.DataFrame:
    """Naive (0.1, 50 %) and Direct-SAA (0.2, 75 %), with RobX around them, 40 rows each."""
    half, most = np.tile([1, 1, 0, 0], (10, 1)), np.tile([1, 1, 1, 0], (10, 1))
    return pd.concat(
        [
            make_rows("spambase", "naive", half, 0.1),
            make_rows("spambase", "direct-saa", most, 0.2, alpha=0.2),
            make_rows("spambase", "robx", half, 0.3, parameter=0.5),
            make_rows("spambase", "robx", np.ones((10, 4)), 0.3, parameter=0.7),
            make_rows("spambase", "robx", half, 0.16, parameter=0.9),
        ]
    )


def test_dominance_is_judged_on_identical_rows() -> None:
    rows = on_the_plane()
    table = dominance(rows).set_index("parameter")
    assert table["dominated"].to_dict() == {0.5: True, 0.7: False, 0.9: False}
    assert table["margin"].to_dict() == pytest.approx({0.5: 0.25, 0.7: -0.25, 0.9: 0.15})
    # at 0.9 the front lies between naive and Direct-SAA
    alone = dominance(rows[rows["method"] != "naive"]).set_index("parameter")
    assert np.isnan(alone.loc[0.9, "margin"])  # nothing lies as near
    lacking = rows.copy()
    lacking.loc[(lacking["method"] == "naive") & (lacking["simulation"] == 0), "valid"] = np.nan
    kept = on_identical_rows(lacking)
    assert (kept["simulation"] > 0).all()
    assert len(kept) == 5 * 36


def test_the_front_is_the_concave_hull_of_the_settings() -> None:
    """Against the linear programme that mixes all of them, not two."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        far, good = rng.random((2, 1, rng.integers(1, 6)))
        at = rng.random()
        best = linprog(-good[0], far, [at], np.ones_like(far), [1.0], bounds=(0, 1))
        expected = -best.fun if best.status == 0 else -np.inf
        assert front_at(np.array([at]), far, good) == pytest.approx(expected)


def test_solves_without_a_proof_are_listed_by_name() -> None:
    rows = make_rows("adult", "naive", np.ones((2, 2)), 0.1)
    rows.loc[3, ["status", "gap"]] = ["feasible", 0.2]
    left = tables.unproved(rows)
    assert left[["dataset", "simulation", "instance_id", "method"]].to_numpy().tolist() == [
        ["adult", 1, "i3", "naive"]
    ]


def test_changes_of_encoded_points() -> None:
    data = rc.datasets.synthetic_credit(50, seed=0)
    X = data.encode(data.X)
    moved = signed_changes(data.schema, X[:10], X[10:20])
    for name in data.schema.names:
        feature = data.schema[name]
        before, after = data.X[name].iloc[:10].to_numpy(), data.X[name].iloc[10:20].to_numpy()
        assert ((moved[name] != 0).to_numpy() == (before != after)).all()
        if feature.kind == "categorical":
            assert set(moved[name]) <= {0.0, 1.0}
    values = feature_values(data.schema, X)
    assert values.to_numpy().min() >= 0
    assert values.to_numpy().max() <= 1


def test_the_authors_draw_is_their_scripts() -> None:
    data = in_their_columns(rc.datasets.synthetic_credit(200, seed=0))
    assert [f.kind == "categorical" for f in data.schema.features] == sorted(
        f.kind == "categorical" for f in data.schema.features
    )
    found = same_draw(data, 3, 7, 40)
    X = data.encode(data.X)
    rest, five = train_test_split(np.arange(200), test_size=5, random_state=3)
    assert [line["instance_id"] for line in found] == [str(i) for i in five]
    first, second = (
        RandomForestClassifier(7, max_depth=4, random_state=seed).fit(X[rest], data.y[rest])
        for seed in (3, 43)
    )
    explainer = rc.Explainer(rc.Forest.from_sklearn(first), data.schema)
    for line, i in zip(found, five, strict=True):
        cf = explainer.explain(data.X.iloc[i])
        assert line["distance"] == cf.distance
        assert cf.encoded is not None
        assert cf.target == 1 - first.predict(X[[i]])[0]
        assert line["valid"] == float(second.predict(cf.encoded[None])[0] == cf.target)
    assert same_draw(data, 3, 7, 40, rows=2)[1]["distance"] == found[1]["distance"]


def test_equally_near_points_of_the_authors_draw_are_found_and_judged() -> None:
    """Seven features that say the same: which ones to move is often all the same to the first forest."""
    names = list("abcdefg")
    X = pd.DataFrame({name: np.arange(200) % 2 for name in names})
    schema = rc.Schema(tuple(rc.Feature(name, "binary", values=(0, 1)) for name in names))
    data = rc.datasets.Dataset("alike", X, X["a"].to_numpy(), schema)
    found = pd.concat([pd.DataFrame(same_draw(data, s, 7, 40)) for s in range(8)])
    assert (found["ties"] > 1).any()
    assert (found["valid_least"] <= found["valid"]).all()
    assert (found["valid"] <= found["valid_most"]).all()
    assert (found["valid_least"] < found["valid_most"]).any()


def test_their_draw_is_compared_without_an_interval() -> None:
    good = np.zeros((40, 5))
    good[:, :3] = 1
    good[0, :] = good[1, 0] = 1
    good[2, 0] = 0  # 121 of 200
    own = make_rows("adult", "naive", good, 0.1, experiment="authors-100")
    own = own.assign(valid_least=own["valid"], valid_most=own["valid"], ties=1)
    line = tables.on_their_draw(own, paper()).iloc[0]
    assert line["ours"] == pytest.approx(0.605)
    assert not line["equal"]
    assert not line["within"]
    own.loc[own["valid"] == 0, "valid_most"] = [1.0] * 2 + [0.0] * 77  # 123 of 200
    assert tables.on_their_draw(own, paper()).iloc[0]["within"]
    own.loc[own["valid"] == 0, "valid"] = [1.0] * 4 + [0.0] * 75
    assert tables.on_their_draw(own, paper()).iloc[0]["equal"]
    assert not tables.on_their_draw(own[own["simulation"] > 0], paper()).iloc[0]["whole"]


def saa_rows(rng: np.random.Generator) -> pd.DataFrame:
    lines = []
    for dataset in ("spambase", "compas"):
        lines.append(make_rows(dataset, "naive", rng.random((4, 5)) < 0.4, 0.05))
        lines.append(
            make_rows(
                dataset,
                "isolation-forest",
                rng.random((4, 5)) < 0.5,
                0.4,
                parameter=0.1,
                experiment="isolation",
            )
        )
        for beta in (np.nan, 0.1, 0.05):
            name = "direct-saa" if np.isnan(beta) else "robust-saa"
            for alpha in (0.5, 0.2, 0.05):
                valid = rng.random((4, 5)) < 1 - alpha
                more = {"alpha": alpha, "beta": beta, "experiment": "saa-100"}
                lines.append(make_rows(dataset, name, valid, 0.3 - 0.4 * alpha, **more))
    return pd.concat(lines, ignore_index=True)


def test_the_page_and_every_figure_are_made_and_small() -> None:
    rows = saa_rows(np.random.default_rng(4))
    summary = tables.validity_table(rows)
    sources = {name: (name, "somewhere") for name in ("naive-100", "saa-100", "isolation")}
    made = Material(
        rows,
        summary,
        pd.DataFrame(columns=["dataset"]),
        sources,
        dict.fromkeys(sources, 40),
        {("saa-100", "compas"): 60.0},
        paper(),
    )
    saa = summary[summary["experiment"] == "saa-100"]
    changes = pd.DataFrame(np.eye(3, 4), index=[0.5, 0.8, 0.95], columns=list("abcd"))
    beside = pd.DataFrame({"importance": [0.8, 0.2], "change": [0.5, 0.5]}, index=["a", "b"])
    drawn = {
        "thresholds": figures.thresholds(),
        "naive": figures.beside(made.beside),
        "validity-saa-100": figures.validity(saa, summary[summary["method"] == "naive"]),
        "pareto": figures.pareto(made.identical),
        "features-changed": figures.changed(saa),
        "times": figures.times(rows),
        "trajectory-x": figures.trajectory(pd.Series([0.1, 0.5, 1, 0], index=list("abcd")), changes, "x"),
        "importance": figures.importance({"compas": beside, "mine": beside}),
        "hard-and-soft": figures.two_votings(saa, saa),
        "predicted": figures.predicted(tables.predicted_and_measured(rows)),
    }
    for figure in drawn.values():
        file = io.BytesIO()
        figure.savefig(file, dpi=90)
        assert 5_000 < len(file.getvalue()) < 150_000
    text = page(made, list(drawn))
    assert "![validity over the target](figures/validity-saa-100.png)" in text
    assert "| spambase | Isolation forest | 20 |" in text
    assert "All of them are settled." in text


def test_the_path_shown_is_the_one_with_the_most_steps() -> None:
    rows = pd.concat(
        make_rows("adult", "direct-saa", np.ones((1, 2)), [0.1, 0.1 + k], alpha=alpha)
        for k, alpha in enumerate((0.5, 0.2))
    )
    assert most_telling(rows) == (0, "i1")
    rows.loc[rows["instance_id"] == "i1", "status"] = "feasible"
    assert most_telling(rows) == (0, "i0")
