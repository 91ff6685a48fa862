"""What the terminal and the report say of forests with more than two classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.report.model import decision_of
from robustcf_jobs.run.folder import RunFolder
from robustcf_jobs.terminal.printing import print_counterfactual

import robustcf as rc
from robustcf.forest.files import save_forest
from tests.helpers.wines import three_wines


def test_the_terminal_says_that_the_highest_of_three_scores_decides(
    capsys: pytest.CaptureFixture[str],
) -> None:
    forest, schema, frame = three_wines()
    explainer = rc.Explainer(forest, schema, rc.Naive(), target=1)
    answer = explainer.explain(frame.iloc[0])
    print_counterfactual(Console(width=200), explainer, frame.iloc[0], answer)
    said = capsys.readouterr().out
    assert "flips the decision" in said
    assert "above every other class's" in said


def test_a_report_says_which_of_two_decisions_its_forest_takes(tmp_path: Path) -> None:
    run = RunFolder(str(tmp_path))
    assert decision_of(run) is None  # a sweep keeps no forest
    forest = three_wines()[0]
    save_forest(forest, tmp_path / "forest")
    assert (
        decision_of(run) == "The model decides for the one of 3 classes with the highest score (plurality)."
    )
    save_forest(forest.deciding(1, rule="one-against-rest"), tmp_path / "forest")
    assert decision_of(run) == "The model decides for 1 at a score of more than 0.5 (one against rest)."
    (tmp_path / "forest" / "forest.json").write_text("[]")
    with pytest.raises(BadInput, match=r"forest\.json: does not describe a forest"):
        decision_of(run)
