"""The manual: its examples print what it says, its links lead somewhere, it asks the network for nothing."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import skops.io
import yaml
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from tests.helpers.byoworld import pipeline, synthetic

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CHOOSING = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGES["choosing-alpha.md"], re.DOTALL)


@pytest.mark.parametrize(("code", "expected"), CHOOSING, ids=range(len(CHOOSING)))
def test_the_examples_about_alpha_print_what_the_page_says(code: str, expected: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "choosing-alpha.md", "exec"), {})
    assert printed.getvalue() == expected


def test_a_pipeline_is_saved_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = PYTHON.findall(PAGES["your-own-model.md"])
    monkeypatch.chdir(tmp_path)
    model = pipeline(3, 3).fit(*synthetic())
    exec(compile(code, "your-own-model.md", "exec"), {"pipeline": model})
    path = tmp_path / "model.skops"
    saved = skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))
    assert rc.read_model(saved).forest == rc.read_model(model).forest


def test_the_examples_about_certificates_run() -> None:
    """They use the names of the first Python examples: forest, schema, X, y, row, model, points, target."""
    data = rc.datasets.synthetic_credit(200, seed=0)
    X, y = data.encode(data.X), data.y
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    denied = np.flatnonzero(model.predict(X) == 0)
    names = {"rc": rc, "forest": rc.Forest.from_sklearn(model), "schema": data.schema, "X": X, "y": y}
    names |= {"row": data.X.iloc[denied[0]], "model": model, "points": X[:2], "target": 1}
    examples = PYTHON.findall(PAGES["certificates.md"])
    assert len(examples) == 2
    for code in examples:
        exec(compile(code, "certificates.md", "exec"), names)
    answer = names["answer"]
    assert isinstance(answer, rc.Counterfactual)
    assert answer.certificate is not None
    assert answer.certificate.forests == 100


def test_the_example_of_alternatives_prints_what_the_page_says() -> None:
    """The examples use the forest and the data of the README."""
    data = rc.datasets.synthetic_credit(n=1000, seed=0)
    model = RandomForestClassifier(100, max_depth=4, random_state=0).fit(data.encode(data.X), data.y)
    names = {"rc": rc, "forest": rc.Forest.from_sklearn(model), "data": data, "row": data.X.iloc[35]}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for code in PYTHON.findall(PAGES["options.md"]):
            exec(compile(code, "options.md", "exec"), names)
    expected = re.findall(r"^```text\n(.*?)^```$", PAGES["options.md"], re.DOTALL | re.MULTILINE)
    assert printed.getvalue() == "".join(expected)


def test_every_page_with_python_is_run_by_a_test() -> None:
    """Here, and in test_constraints.py, test_export.py and test_tutorial.py."""
    run = {"choosing-alpha.md", "your-own-model.md", "constraints.md", "tables.md", "tutorial.md"}
    run |= {"certificates.md", "options.md"}
    assert {name for name, text in PAGES.items() if PYTHON.search(text)} == run
    for name in ("choosing-alpha.md", "constraints.md"):  # each example with its output
        assert len(PYTHON.findall(PAGES[name])) == PAGES[name].count("```\n\n```text\n"), name


def test_every_page_is_in_the_navigation() -> None:
    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        inside = entry.values() if isinstance(entry, dict) else entry
        return [page for one in inside for page in pages(one)]  # type: ignore[attr-defined]

    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(pages(settings["nav"])) == sorted(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", PAGES[name]):
        path, _, anchor = link.partition("#")
        assert not path or (DOCS / path).is_file(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", PAGES[path or name], re.MULTILINE)
            slugs = [
                re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings
            ]
            assert anchor in slugs, link


def test_every_public_name_is_in_the_reference() -> None:
    named = set(re.findall(r"^::: robustcf\.(\w+)$", PAGES["reference.md"], re.MULTILINE))
    assert set(rc.__all__) <= named


def test_the_pages_are_built_and_load_nothing_from_the_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    built = [path for path in tmp_path.rglob("*") if path.suffix in (".html", ".css")]
    assert len([path for path in built if path.suffix == ".html"]) >= len(PAGES)
    elsewhere = re.compile(
        r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>"
        r"|url\([\"']?(?:https?:)?//[^)]*\)|@import[^;]*//[^;]*"
    )
    for path in built:
        assert elsewhere.findall(path.read_text(encoding="utf-8")) == [], path.name


def test_the_tests_that_the_reliability_page_names_are_there() -> None:
    text = PAGES["reliability.md"]
    named = set(re.findall(r"::(test_\w+)", text))
    written = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 10
    assert {name for name in named if f"def {name}(" not in written} == set()
    files = set(re.findall(r"`((?:[\w/]+/)?test_\w+\.py)", text))
    assert {
        name for name in files if not (ROOT / name).is_file() and not (ROOT / "tests/jobs" / name).is_file()
    } == set()
