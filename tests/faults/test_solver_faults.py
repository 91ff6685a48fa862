"""A solver that crashes, hangs or eats memory: the row is marked, all others have their answers."""

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from robustcf_jobs.inputs.config import AuditConfig, read_config
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.inputs.method_tables import methods_of

import robustcf as rc
from tests.helpers.faultworld import CUSTOMERS, assert_whole_but, mostly_denied, small_audit
from tests.helpers.jobworld import ROOT, Command, make_sweep, rows

POISONED = str(ROOT / "tests/helpers/poisoned")
LIMIT = 1.0
SOLVER = {"name": "poisoned", "time_limit": LIMIT, "memory_limit": 0.5}


@pytest.fixture
def marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the poison does to whom."""
    monkeypatch.syspath_prepend(POISONED)
    monkeypatch.setenv("POISON", "mark")
    data, frame = rc.datasets.synthetic_credit(1), mostly_denied().copy()
    config = read_config(AuditConfig, small_audit(tmp_path / "marked", solver=SOLVER))
    forest = rc.load_forest(tmp_path / "marked/forest")
    explainer = rc.Explainer(forest, data.schema, methods_of(config), target=1, solver="poisoned")
    ids = frame.pop("customer")
    found = {ids[cf.row]: cf.reason for cf in explainer.explain_many(frame) if cf.status == "error"}
    sys.modules.pop("poisoned_solver")
    return {customer: str(reason).removeprefix("Marked: ") for customer, reason in found.items()}


def poisoned(kind: str, config: Path, poison: str, **more: str) -> tuple[int, str]:
    path = f"{ROOT}:{POISONED}"
    return Command(kind, str(config), "--cpus", "2", PYTHONPATH=path, POISON=poison, **more).finish()


def test_rows_that_crash_or_hang_are_marked_and_the_others_answered(
    undisturbed: Path, marked: dict[str, str], tmp_path: Path
) -> None:
    assert set(marked.values()) == {"crash", "hang"}
    assert len(marked) < CUSTOMERS / 2
    code, output = poisoned("audit", small_audit(tmp_path, solver=SOLVER), "any")
    assert code == 1, output
    assert "Traceback" not in output
    stopped = assert_whole_but(undisturbed, tmp_path / "run", set(marked))
    expected = {
        "crash": ("error", "the solver's process died twice: SIGABRT"),
        "hang": ("timeout", "did not stop at its time limit"),
    }
    for customer, status, reason, distance, score in zip(
        *(stopped[c] for c in ("instance_id", "status", "reason", "distance", "score_before")), strict=True
    ):
        assert status == expected[marked[customer]][0]
        assert expected[marked[customer]][1] in reason
        assert distance != distance
        assert 0 <= score <= 0.5
    seconds = pd.read_parquet(tmp_path / "run/counterfactuals").query("status == 'timeout'")
    hung = seconds.groupby("instance_id")["seconds"].sum()
    assert set(hung.index) == {customer for customer, deed in marked.items() if deed == "hang"}
    row_limit = 3 * LIMIT  # three methods
    assert hung.max() <= 1.1 * row_limit + 1 + 1, "a tenth and a second, and one for a busy machine"


def test_rows_that_eat_memory_are_marked_and_the_others_answered(
    undisturbed: Path, marked: dict[str, str], tmp_path: Path
) -> None:
    patient = SOLVER | {"time_limit": 60.0}
    code, output = poisoned("audit", small_audit(tmp_path, solver=patient), "memory")
    assert code == 1, output
    stopped = assert_whole_but(undisturbed, tmp_path / "run", set(marked))
    assert set(stopped["status"]) == {"error"}
    assert stopped["reason"].str.startswith("memory limit: ").all()


@pytest.mark.slow
def test_a_run_that_only_times_out_is_no_error(
    undisturbed: Path, marked: dict[str, str], tmp_path: Path
) -> None:
    code, output = poisoned("audit", small_audit(tmp_path, solver=SOLVER), "hang")
    assert code == 0, output
    assert set(assert_whole_but(undisturbed, tmp_path / "run", set(marked))["status"]) == {"timeout"}


@pytest.mark.slow
def test_a_sweep_goes_on_too(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "solver": SOLVER | {"time_limit": 4.0},
        "sweep": {"datasets": ["synthetic-credit"], "simulations": 8},
    }
    code, output = poisoned("sweep", make_sweep(tmp_path / "a", **changes), "any", POISON_SHARE="8")
    assert code == 1, output
    code, output = poisoned("sweep", make_sweep(tmp_path / "b", **changes), "mark", POISON_SHARE="8")
    assert code == 1, output
    found, expected = rows(tmp_path / "a/run"), rows(tmp_path / "b/run")
    bad = expected["status"] == "error"
    assert bad.any()
    assert set(found[bad]["status"]) <= {"error", "timeout"}
    assert found[~bad].equals(expected[~bad])


def test_a_solver_that_nobody_installed_is_refused(tmp_path: Path) -> None:
    config = small_audit(tmp_path, solver=SOLVER)
    with pytest.raises(BadInput, match="name is 'poisoned'; choose among"):
        read_config(AuditConfig, config)
