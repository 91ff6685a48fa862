"""The README's examples run as printed, and print what the README says."""

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_examples_print_what_the_readme_says() -> None:
    """The second example goes on with the names of the first one."""
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert len(examples) == README.count("```python") == 2
    names = {"__name__": "readme"}
    for code, expected in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), names)
        assert printed.getvalue() == expected


def test_the_example_is_on_the_first_screen() -> None:
    assert README[: README.index("```text")].count("\n") < 40


def test_every_dependency_is_explained() -> None:
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    table = README[README.index("## What each dependency is for") : README.index("## Licence")]
    for name in re.findall(r'^    "([a-z0-9-]+)>=', project, re.MULTILINE):
        assert name in table, name
