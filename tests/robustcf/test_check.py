"""The independent word on a point, from the schema's documentation alone."""

from __future__ import annotations

import numpy as np
import pytest

from robustcf.cells import on_step
from robustcf.check import broken_rules, distance
from robustcf.schema import Feature, Schema


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
