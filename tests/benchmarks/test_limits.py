"""Answers at short limits: none is refuted, and the judge does refute what is false."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from robustcf_benchmarks import limits
from robustcf_benchmarks.refute import refutations
from robustcf_benchmarks.store import read


def answer(**given: Any) -> dict[str, Any]:
    """An answer that claims nothing yet."""
    base = {
        "world": "w", "row": 1, "voting": "soft", "solver": "auto", "limit": 0.1, "method": "naive",
        "threshold": 0.5, "status": "timeout", "reason": None, "point": False, "verified": False,
        "score": None, "distance": None, "objective": None, "lower_bound": None,
        "best_score": None, "best_score_gap": None, "relaxation": None,
    }  # fmt: skip
    return base | given


def found(distance: float, score: float, **given: Any) -> dict[str, Any]:
    """An answer with a point."""
    return answer(
        **{"status": "feasible", "point": True, "verified": True, "distance": distance}
        | {"objective": distance, "score": score, "lower_bound": 0.0, **given}
    )


@pytest.mark.parametrize(
    "false_claim",
    [
        found(2.0, 0.6, status="optimal"),
        answer(status="no_recourse"),
        answer(lower_bound=1.5),
        found(2.0, 0.6, lower_bound=1.5),
        answer(status="no_recourse", threshold=0.9, best_score=0.6, best_score_gap=0.05),
        found(1.0, 0.7, verified=False, reason="the model says no"),
        answer(status="error", reason="ValueError"),
    ],
)
def test_a_point_of_another_method_refutes_a_false_claim(false_claim: dict[str, Any]) -> None:
    witness = found(1.0, 0.7, method="direct-saa 0.05", threshold=0.6)
    assert len(refutations([false_claim, witness])) == 1


@pytest.mark.parametrize(
    "claim",
    [
        found(1.0, 0.7, status="optimal"),
        found(2.0, 0.6, lower_bound=1.0),
        answer(status="no_recourse", threshold=0.8, best_score=0.7, best_score_gap=0.0),
        answer(status="no_recourse", row=2),  # another customer
        answer(status="no_recourse", voting="hard"),  # other scores
        answer(status="relaxed", method="isolation-forest 0.1", relaxation=0.1),
    ],
)
def test_true_claims_stand(claim: dict[str, Any]) -> None:
    witness = found(1.0, 0.7, method="direct-saa 0.05", threshold=0.6)
    assert refutations([claim, witness]) == []


def test_a_relaxed_answer_is_refuted_by_an_accepted_point() -> None:
    relaxed = found(1.0, 0.7, status="relaxed", method="isolation-forest 0.1", relaxation=0.2)
    nearer = relaxed | {"relaxation": 0.1}
    accepted = found(3.0, 0.7, method="isolation-forest 0.1")
    assert len(refutations([relaxed, nearer])) == 1
    assert len(refutations([relaxed, nearer, accepted])) == 2


def test_the_hard_votes_of_all_trees_refute_a_convex_no_recourse() -> None:
    stuck = answer(status="no_recourse", voting="hard", method="convex-approximation 0.05", threshold=1.0)
    assert len(refutations([stuck, found(1.0, 1.0, voting="hard", threshold=0.6)])) == 1


def test_no_answer_at_a_short_limit_is_refuted_and_a_run_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--data", "synthetic-credit", "--worlds", "synthetic-credit 15x4"]
    small += ["--answers", "22", "--customers", "1", "--long", "10", "--out", str(tmp_path)]
    assert limits.main(small) == 0
    stored = read(tmp_path / "limits.jsonl")
    assert len({a["method"] for a in stored}) == 10
    assert "0 refuted" in capsys.readouterr().out
    assert limits.main(small) == 0
    assert read(tmp_path / "limits.jsonl") == stored


@pytest.mark.slow
def test_no_answer_of_scikit_learns_own_data_is_refuted(tmp_path: Path) -> None:
    options = ["--data", "synthetic-credit", "--answers", "1000", "--long", "20", "--out", str(tmp_path)]
    assert limits.main(options) == 0
