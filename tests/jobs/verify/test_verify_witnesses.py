"""The wall of witnesses: every claim of these runs is attacked with every answer at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from robustcf_jobs.verify.auditor import Auditor
from robustcf_jobs.verify.claims import Claims
from robustcf_jobs.verify.command import lines
from robustcf_jobs.verify.run import Verified, verify_run

from tests.helpers.jobworld import make_sweep, run_sweep

SETS = [
    "adult", "compas", "credit-card-default", "german-credit", "onlinenewspopularity", "phishing",
    "spambase", "students-performance",
]  # fmt: skip
METHODS: list[dict[str, Any]] = [
    {"name": "naive"},
    {"name": "direct-saa", "alpha": [0.2, 0.05]},
    {"name": "robust-saa", "alpha": 0.05, "beta": 0.1},
    {"name": "convex-approximation"},
    {"name": "isolation-forest", "contamination": 0.2, "n_trees": 10},
    {"name": "local-outlier-factor", "weight": 0.1},
]


def attacked(run: Path, resolve: int | None, more: Claims | None = None) -> tuple[Claims, Verified]:
    """Attack a run's claims with its own answers, and with those of another run."""
    claims = Claims(resolve, attack=True, seed=1, limit=30.0)
    if more is not None:
        claims.answers = {name: list(answers) for name, answers in more.answers.items()}
    return claims, verify_run(str(run), Auditor(), claims)


def test_no_answer_of_a_sweep_refutes_a_claim_of_it(local_ray: Any, tmp_path: Path) -> None:
    grid = {"datasets": ["synthetic-credit"], "simulations": 2, "rows": 4, "trees": [12], "depth": 3}
    assert run_sweep(make_sweep(tmp_path, method=METHODS[:4], sweep=grid)) == 0
    claims, done = attacked(tmp_path / "run", resolve=20)
    assert done.findings.total == 0, lines(done)
    assert claims.total >= 20
    assert any(line.startswith("resolve: 20 of ") and " 0 refuted" in line for line in done.challenges)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_no_witness_refutes_a_claim_on_real_data(local_ray: Any, tmp_path: Path, name: str) -> None:
    """Claims at a short limit against the answers at a long one, by HiGHS too, and the other way round."""
    grid = {"datasets": [name], "simulations": 2, "rows": 5, "trees": [30], "depth": 4}
    runs = []
    for kind, solver in (
        ("short", {"time_limit": 0.2}),
        ("long", {"time_limit": 20.0}),
        ("highs", {"time_limit": 20.0, "name": "highs"}),
    ):
        assert run_sweep(make_sweep(tmp_path / kind, method=METHODS, sweep=grid, solver=solver)) == 0
        runs.append(tmp_path / kind / "run")
    everything = Claims(None, attack=True, seed=1, limit=30.0)
    for run in runs:
        verify_run(str(run), Auditor(), everything)
    for run in runs:
        claims, done = attacked(run, 30, everything)
        assert done.findings.total == 0, lines(done)
        assert claims.total > 30
