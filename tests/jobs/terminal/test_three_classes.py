"""What the terminal and the report say of forests with more than two classes."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.report.report import _decision
from robustcf_jobs.run.folder import RunFolder
from robustcf_jobs.terminal.printing import print_counterfactual

import robustcf as rc
from robustcf.forest.files import save_forest
from robustcf.show import demand
from tests.helpers.wines import three_wines


def test_the_terminal_says_the_score_that_is_asked_where_there_are_three_classes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    forest, schema, frame = three_wines()
    explainer = rc.Explainer(forest, schema, rc.Naive(), target=1)
    answer = explainer.explain(frame.iloc[0])
    print_counterfactual(Console(width=200), explainer, frame.iloc[0], answer)
    said = capsys.readouterr().out
    assert "score of at least 0.500" in said
    assert "flips the decision" not in said
    assert demand(answer, 2) == "flips the decision"


def test_a_report_counts_the_classes_of_the_forest_in_its_run(tmp_path: Path) -> None:
    run = RunFolder(str(tmp_path))
    assert _decision(run) == (2, None)  # a sweep keeps no forest
    save_forest(three_wines()[0], tmp_path / "forest")
    assert _decision(run) == (3, None)
    (tmp_path / "forest" / "forest.json").write_text("[]")
    with pytest.raises(BadInput, match=r"forest\.json: does not describe a forest"):
        _decision(run)
