"""The README's example runs as printed, and prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_readme_says() -> None:
    match = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert match is not None
    code, expected = match.groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert printed.getvalue() == expected


def test_the_example_is_on_the_first_screen() -> None:
    assert README[: README.index("```text")].count("\n") < 40


def test_every_dependency_is_explained() -> None:
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    table = README[README.index("## What each dependency is for") : README.index("## Licence")]
    for name in re.findall(r'^    "([a-z0-9-]+)>=', project, re.MULTILINE):
        assert name in table, name
