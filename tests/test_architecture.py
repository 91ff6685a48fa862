"""The import graph is the one that docs/architecture.md draws."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import robustcf

ROOT = Path(__file__).parents[1]
FOLDERS = {"robustcf": "robustcf", "robustcf_jobs": "jobs", "robustcf_benchmarks": "benchmarks"}
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


@cache
def modules() -> dict[str, Path]:
    """Every module of the three packages, by its installed name."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = (package, *path.relative_to(ROOT / folder).with_suffix("").parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below, lazy imports included, what only a type checker reads left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _statements(child)


def _public(name: str) -> str:
    """The module that `rc.NAME` is imported from."""
    home = robustcf._HOME.get(name, name)
    return f"robustcf.{home}" if f"robustcf.{home}" in modules() else "robustcf"


def _imports(name: str, path: Path) -> Iterator[str]:
    """The full names that a module imports, of other packages too."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    library = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
            library |= {alias.asname or alias.name for alias in node.names if alias.name == "robustcf"}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield _public(alias.name) if base == "robustcf" else f"{base}.{alias.name}"
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in library:
            yield _public(node.attr)


@cache
def graph() -> dict[str, set[str]]:
    """Which of our modules each module imports, lazily or not."""
    known, found = modules(), {}
    for name, path in known.items():
        targets = set()
        for target in _imports(name, path):
            inner = target if target in known else target.rpartition(".")[0]
            targets |= {inner} & known.keys()
        found[name] = targets - {name}
    return found


def room(module: str) -> str:
    """The folder or the top module that a module belongs to: `robustcf.schema`."""
    return ".".join(module.split(".")[:2])


def layers(heading: str) -> list[list[set[str]]]:
    """The page's table of layers, from the bottom up: in each layer, groups of rooms joined by `+`."""
    section = PAGE[PAGE.index(f"## {heading}\n") :].split("\n## ")[0]
    cells = re.findall(r"^\| \d+ \| ([^|]+) \|", section, re.MULTILINE)
    found = [[set(re.findall(r"`(\w+)`", group)) for group in cell.split(",")] for cell in cells]
    return found[::-1]


LAYERS = {"robustcf": layers("The library, `robustcf`"), "robustcf_jobs": layers("The jobs, `robustcf_jobs`")}


@pytest.mark.parametrize("package", LAYERS)
def test_the_page_names_every_room_once(package: str) -> None:
    named = [name for layer in LAYERS[package] for group in layer for name in group]
    rooms = {room(module) for module in modules() if module.startswith(f"{package}.")}
    assert sorted(named) == sorted(name.removeprefix(f"{package}.") for name in rooms)


@pytest.mark.parametrize("package", LAYERS)
def test_rooms_import_only_what_lies_below(package: str) -> None:
    level = {
        f"{package}.{name}": (number, frozenset(group))
        for number, layer in enumerate(LAYERS[package])
        for group in layer
        for name in group
    }
    wrong = []
    for module, targets in graph().items():
        for target in targets:
            here, there = level.get(room(module)), level.get(room(target))
            if here is None or there is None or room(module) == room(target):
                continue
            if not (there[0] < here[0] or here == there):
                wrong.append(f"{module} imports {target}")
    assert sorted(wrong) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """`graphlib` names the circle if there is one."""
    assert len(list(TopologicalSorter(graph()).static_order())) == len(modules())


def test_the_library_knows_neither_ray_nor_the_jobs_and_only_the_cluster_room_imports_ray() -> None:
    users = defaultdict(set)
    for name, path in modules().items():
        for target in _imports(name, path):
            users[target.split(".")[0]].add(room(name))
    assert users["ray"] == {"robustcf_jobs.cluster"}
    ours = {name for package in ("robustcf_jobs", "robustcf_benchmarks") for name in users[package]}
    assert not [name for name in ours if name.split(".")[0] == "robustcf"]


@pytest.mark.parametrize("module", ["report.report", "verify.run", "verify.command", "export.export"])
def test_report_and_verify_load_no_solver(module: str) -> None:
    code = (
        f"import sys, robustcf_jobs.{module}\n"
        "print([m for m in sys.modules if m.startswith(('robustcf.solve', 'robustcf.problem', 'ray'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=300)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_files_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`((?:robustcf|jobs|benchmarks|tests)/[\w./]+)`", PAGE))
    assert len(named) > 20
    assert {name for name in named if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("folder", ["robustcf", "jobs"])
def test_the_test_folders_mirror_the_rooms(folder: str) -> None:
    """A folder with tests has the name of the package that they test."""
    code, tests = ROOT / folder, ROOT / "tests" / folder
    packages = {path.parent.relative_to(code) for path in code.rglob("__init__.py")}
    tested = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    assert len(tested) > 10
    assert tested - packages == set()


def test_tests_share_code_through_the_helpers_alone() -> None:
    """`from tests.helpers.worlds import World`: one way to import, and no test imports another."""
    helpers = {path.stem for path in (ROOT / "tests/helpers").glob("*.py")}
    wrong = []
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if module in helpers or re.match(r"tests\..*\btest_\w+$", module):
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert len(helpers) > 10
    assert wrong == []
