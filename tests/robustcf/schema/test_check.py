"""The independent word on a point, from the schema's documentation alone."""

from __future__ import annotations

import numpy as np
import pytest

from robustcf.schema.actionability import on_step
from robustcf.schema.check import broken_rules, distance
from robustcf.schema.links import Clause, Link
from robustcf.schema.schema import Feature, Schema


def rules(feature: Feature, old: float, new: float) -> list[str]:
    return broken_rules(Schema((feature,)), np.array([old]), np.array([new]))


NUMBER = {"kind": "continuous", "low": 0.0, "high": 10.0}


@pytest.mark.parametrize(
    ("settings", "old", "new", "word"),
    [
        ({**NUMBER, "action": "fixed"}, 1.0, 2.0, "fixed"),
        ({**NUMBER, "action": "increase"}, 1.0, 0.5, "increase"),
        ({**NUMBER, "action": "decrease"}, 1.0, 1.5, "decrease"),
        ({**NUMBER, "allowed": (2.0, 3.0)}, 1.0, 2.5, "may not become"),
        ({**NUMBER, "lower": 1.0}, 2.0, 0.5, "below"),
        ({**NUMBER, "upper": 3.0}, 2.0, 3.5, "above"),
        (NUMBER, 2.0, 10.5, "observed range"),
        ({**NUMBER, "step": 0.5}, 2.1, 3.2, "multiple"),
        (NUMBER, np.nan, 1.0, "missing"),
        (NUMBER, 1.0, np.nan, "missing"),
        ({"kind": "discrete", "values": (1, 2, 4)}, 1.0, 3.0, "not one of its values"),
        ({**NUMBER, "at_most_up": 1.0}, 2.0, 3.1, "rises from 2.0 to 3.1, more than allowed"),
        ({**NUMBER, "at_most_down": 1.0}, 2.0, 0.9, "falls"),
        ({**NUMBER, "at_most_up_percent": 50}, 2.0, 3.1, "rises"),
        ({**NUMBER, "low": -10.0, "at_most_down_percent": 50}, -2.0, -3.1, "falls"),
        (
            {"kind": "discrete", "values": (1, 2, 4), "forbidden": [[1, 4]]},
            1.0,
            4.0,
            "may not go from 1 to 4",
        ),
        ({"kind": "binary", "values": ("a", "b"), "forbidden": [["*", "a"]]}, 1.0, 0.0, "from b to a"),
        ({"kind": "categorical", "values": ("a", "b", "c"), "allowed": ("a",)}, 0.0, 2.0, "may not become c"),
    ],
)
def test_each_rule_is_seen(settings: dict, old: float, new: float, word: str) -> None:
    (broken,) = rules(Feature("f", **settings), old, new)
    assert word in broken


@pytest.mark.parametrize(
    ("settings", "old", "new"),
    [
        ({**NUMBER, "action": "fixed", "step": 0.5}, 0.7, 0.7),
        ({**NUMBER, "allowed": (2.0,), "upper": 3.0}, 1.0, 2.0),
        (NUMBER, 12.0, 11.0),  # inferred bounds stretch to the customer's own value
        (NUMBER, -1.0, -0.5),
        ({**NUMBER, "step": 0.1}, 0.0, 0.3),
        (NUMBER, np.nan, np.nan),
        ({**NUMBER, "at_most_up": 0.1, "at_most_down": 0.0}, 0.7, 0.8),  # in decimals
        ({"kind": "discrete", "values": (1, 2, 4), "forbidden": [[1, 4], [2, 1]]}, 2.0, 4.0),
    ],
)
def test_allowed_moves_break_nothing(settings: dict, old: float, new: float) -> None:
    assert rules(Feature("f", **settings), old, new) == []


@pytest.mark.parametrize("step", [0.01, 0.1, 1e-4, 0.25, 3.0])
def test_large_multiples_of_a_small_step_are_multiples(step: float) -> None:
    """Regression: division alone was off by more than the tolerance from 10^8 steps on."""
    feature = Feature("f", "continuous", low=0, high=1e9, step=step)
    for number in on_step(step, np.random.default_rng(0).uniform(0, 1e9 / step, 500)):
        assert rules(feature, 0.0, float(number)) == []
        assert rules(feature, 0.0, float(number) + step / 2)


def test_rules_across_features_are_seen() -> None:
    features = (Feature("a", "discrete", values=(0, 1, 2)), Feature("b", "categorical", values="xyz"))
    link = Link(Clause("a", ("up",)), Clause("b", ("changed",)))
    schema = Schema(features).with_rules([link], max_changes=1)
    own = np.array([1.0, 1.0])
    for after, broken in (
        ([1, 1], []),
        ([0, 1], []),
        ([2, 1], ["link a up => b changed does not hold"]),
        ([2, 0], ["2 features change, but max_changes is 1"]),
        ([0, 2], ["2 features change, but max_changes is 1"]),
    ):
        assert broken_rules(schema, own, np.array(after, dtype=float)) == broken
    assert broken_rules(schema, np.array([np.nan, 1.0]), np.array([np.nan, 2.0])) == []  # missing is "same"


def test_a_cost_table_is_the_distance() -> None:
    table = [["x", "y", 0.7], ["*", "y", 0.2], ["z", "*", 0.1]]
    schema = Schema((Feature("c", "categorical", values="xyz", cost_table=table),))
    costs = {(a, b): distance(schema, np.array([a]), np.array([b])) for a in range(3) for b in range(3)}
    assert costs == {
        (0, 0): 0.0, (0, 1): 0.7, (0, 2): 0.5,
        (1, 0): 0.5, (1, 1): 0.0, (1, 2): 0.5,
        (2, 0): 0.1, (2, 1): 0.2, (2, 2): 0.0,
    }  # fmt: skip


def test_distance_is_the_papers() -> None:
    schema = Schema(
        (
            Feature("n", "continuous", low=10, high=20),
            Feature("d", "discrete", values=(0, 1, 4)),
            Feature("b", "binary", values=("no", "yes")),
            Feature("c", "categorical", values=("x", "y", "z")),
            Feature("w", "discrete", values=("low", "mid", "top"), weight=2.0),
        )
    )
    before, after = np.array([12.0, 0, 0, 0, 0]), np.array([17.0, 1, 1, 2, 1])
    assert distance(schema, before, after) == pytest.approx(0.5 + 0.25 / 4 + 0.25 + 2 * 0.25 + 1.0)
    assert distance(schema, before, before) == 0.0
