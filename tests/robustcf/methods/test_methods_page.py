"""Every name that docs/methods.md gives for an equation is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs/methods.md").read_text(encoding="utf-8")


def resolve(name: str) -> object:
    """The object of a dotted name: the longest importable module, then its attributes."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[n:]:
            found = getattr(found, attribute)
        return found
    raise AssertionError(f"nothing called {name}")


def test_every_function_of_the_page_exists() -> None:
    names = re.findall(r"`(robustcf(?:\.\w+)+)`", PAGE)
    assert len(names) >= 30
    for name in names:
        assert callable(resolve(name)), name


def test_every_numbered_equation_and_proposition_has_its_line() -> None:
    table = PAGE[PAGE.index("## Equation → function") : PAGE.index("robustcf corrects these misprints")]
    for what in [f"eq. {n}" for n in range(1, 11)] + [f"Prop. {n}" for n in range(1, 6)]:
        assert re.search(rf"{what}(?!\d)", table), what
