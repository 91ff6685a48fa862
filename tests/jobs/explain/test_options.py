"""`robustcf explain` prints alternatives, and what blocks a customer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from robustcf_jobs.cli import app
from typer.testing import CliRunner

import robustcf as rc
from tests.helpers.jobworld import make_forest


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The options that name a forest and a rejected customer of it."""
    folder = tmp_path_factory.mktemp("options")
    forest, data = make_forest(folder / "forest"), rc.datasets.synthetic_credit(300, seed=0)
    (folder / "schema.toml").write_text(data.schema.to_toml())
    stuck = data.schema
    for name in stuck.names:
        stuck = stuck.replace(name, action="fixed")
    (folder / "stuck.toml").write_text(stuck.to_toml())
    data.X.to_csv(folder / "customers.csv", index=False)
    denied = int(np.flatnonzero(forest.predict(data.encoded) == 0)[0])
    model = ["explain", "--model", str(folder / "forest"), "--customers", str(folder / "customers.csv")]
    return [*model, "--row", str(denied), "--target", "1", "--schema", str(folder)]


def run(own: list[str], schema: str, *more: str) -> str:
    arguments = [*own[:-1], str(Path(own[-1]) / schema), *more]
    result = CliRunner(env={"COLUMNS": "120"}).invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_alternatives_are_printed_with_a_table_of_few_changes(own: list[str]) -> None:
    text = run(own, "schema.toml", "--alternatives", "3", "--naive", "--no-menu")
    for words in ("Other ways, Naive", "Alternative 1", "with at most", "1 change", "3 changes"):
        assert words in text
    assert "the decision stays, proved: " in text
    assert "proved: no other change that is truly different is smaller" in text
    record = json.loads(run(own, "schema.toml", "--alternatives", "3", "--json"))
    (options,) = record["options"]
    assert options["complete"] == (len(options["alternatives"]) < 2)
    distances = [record["answers"][0]["distance"], *(a["distance"] for a in options["alternatives"])]
    assert distances == sorted(distances)
    assert [few["at_most"] for few in options["few_changes"]] == [1, 2, 3]


def test_what_blocks_a_customer_is_printed(own: list[str]) -> None:
    text = run(own, "stuck.toml", "--no-menu")
    assert "no smaller set of limits would do (proved)" in text
    assert "may not change" in text
    record = json.loads(run(own, "stuck.toml", "--json"))
    (answer,) = record["answers"]
    assert answer["status"] == "no_recourse"
    assert answer["changes"] == []
    assert answer["blockers"]["status"] == "found"
    assert answer["blockers"]["constraints"]
