"""The wheel, its extras, and commands beside other packages named `jobs` and `benchmarks`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest
import typer
from robustcf_jobs.__main__ import NEEDED
from robustcf_jobs.cli import app

import robustcf as rc

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = PROJECT["tool"]["setuptools"]["package-dir"]
OPTIONAL = ("gurobipy", *NEEDED)
COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]

BLOCKED = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
"""
EXPLAIN = """
import robustcf as rc
from sklearn.ensemble import RandomForestClassifier
data = rc.datasets.synthetic_credit(n=200, seed=0)
model = RandomForestClassifier(5, max_depth=2, random_state=0).fit(data.encode(data.X), data.y)
explainer = rc.Explainer(rc.Forest.from_sklearn(model), data.schema, method=rc.Naive(), target=1)
row = data.X[model.predict(data.encode(data.X)) == 0].iloc[0]
assert explainer.explain(row).status == "optimal"
"""


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "PYTHONPATH"))}
    return subprocess.run(
        command, cwd=cwd, env=clean | environment, capture_output=True, encoding="utf-8", timeout=580
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources so that no build folder stays behind."""
    sources = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    for folder in FOLDERS.values():
        shutil.copytree(ROOT / folder, sources / folder, ignore=shutil.ignore_patterns("__pycache__"))
    code = "from setuptools import build_meta; build_meta.build_wheel('dist')"
    done = run(sys.executable, "-c", code, cwd=sources)
    assert done.returncode == 0, done.stderr
    (built,) = (sources / "dist").glob("*.whl")
    return built


def test_the_wheel_installs_three_names_and_every_package(wheel: Path) -> None:
    files = set(ZipFile(wheel).namelist())
    names = {file.split("/")[0] for file in files}
    assert {name for name in names if not name.endswith(".dist-info")} == set(FOLDERS)
    assert set(FOLDERS) == {"robustcf", "robustcf_jobs", "robustcf_benchmarks"}
    packages = set()
    for name, folder in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            inside = path.relative_to(ROOT / folder)
            if path.name == "__init__.py":
                packages.add(".".join((name, *inside.parts[:-1])))
            if path.is_file() and path.parent.name != "__pycache__":
                assert f"{name}/{inside.as_posix()}" in files, path
    assert sorted(packages) == sorted(PROJECT["tool"]["setuptools"]["packages"])
    for name in ("py.typed", "report/templates/page.html.j2", "reproduction/paper.toml"):
        assert f"robustcf/{name}" in files


def test_the_version_is_the_projects_and_has_a_dated_entry_in_the_changelog() -> None:
    assert rc.__version__ == version("robustcf") == PROJECT["project"]["version"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(rc.__version__)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE)


def _names(requirements: Sequence[str]) -> set[str]:
    return {re.split(r"[\[<>=]", requirement)[0] for requirement in requirements}


def test_constraints_pin_every_dependency_at_a_version_that_the_project_allows() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *(one for extra in extras.values() for one in extra)]
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    pins = {name.lower().replace("_", "-"): pin for name, pin in pins.items()}
    assert _names(wanted) - {"robustcf"} <= set(pins)
    for name, low in (re.split(r"(?:\[.*\])?>=", one) for one in wanted if ">=" in one):
        assert [int(part) for part in pins[name].split(".")[:2]] >= [int(part) for part in low.split(".")]


def test_the_commands_ask_for_the_packages_of_their_extra() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert set(NEEDED) == _names([*extras["jobs"], *extras["plots"]]) - {"robustcf"}


def test_the_library_explains_without_the_optional_packages(tmp_path: Path) -> None:
    done = run(sys.executable, "-c", BLOCKED + EXPLAIN, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_commands_name_the_extra_to_install(tmp_path: Path) -> None:
    """`None` in `sys.modules` hides a package."""
    hidden = f"import sys; sys.modules.update(dict.fromkeys({NEEDED!r}))\n"
    code = hidden + "from robustcf_jobs.__main__ import main; main()"
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"robustcf: the commands need {', '.join(NEEDED)}; install with: pip install 'robustcf[jobs]'\n"
    )


@pytest.mark.slow
def test_the_wheel_explains_in_an_environment_with_the_core_alone(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=True)
    bin = tmp_path / "bare/bin"
    pip = (str(bin / "python"), "-m", "pip", "--disable-pip-version-check")
    done = run(*pip, "install", "-qq", "-c", str(ROOT / "constraints.txt"), str(wheel), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    frozen = run(*pip, "freeze", cwd=tmp_path).stdout
    installed = {line.split("==")[0].lower() for line in frozen.splitlines()}
    assert installed.isdisjoint(OPTIONAL)
    done = run(str(bin / "python"), "-c", EXPLAIN, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run(str(bin / "robustcf"), "--help", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "pip install 'robustcf[jobs]'" in done.stderr


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A user's folder that has packages `jobs` and `benchmarks` of its own; to import them is an error."""
    for name in ("jobs", "benchmarks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise RuntimeError('foreign {name}')\n")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_starts_beside_foreign_packages(foreign: Path, command: str) -> None:
    script = str(Path(sys.executable).with_name("robustcf"))
    done = run(script, command, "--help", cwd=foreign, PYTHONPATH=str(foreign))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"robustcf {command}" in done.stdout


def test_every_module_is_imported_beside_foreign_packages(foreign: Path) -> None:
    """Commands import their modules when they run: here all of them are imported, and one runs."""
    code = """
import pkgutil, sys, robustcf, robustcf_jobs, robustcf_benchmarks
for package in (robustcf, robustcf_jobs, robustcf_benchmarks):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name != "robustcf_benchmarks.peer_worker" and not module.name.endswith("__main__"):
            __import__(module.name)
assert "jobs" not in sys.modules and "benchmarks" not in sys.modules
sys.argv = ["robustcf", "datasets", "list"]
__import__("robustcf_jobs.__main__").__main__.main()
"""
    done = run(sys.executable, "-c", code, cwd=foreign, PYTHONPATH=str(foreign))
    assert done.returncode == 0, done.stderr
    assert "Adult" in done.stdout
