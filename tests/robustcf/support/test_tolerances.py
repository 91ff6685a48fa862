"""One module holds all tolerances, and one function tells whether a score reaches a threshold."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.problem.build import SOFT_UNIT
from robustcf.support import tolerances
from robustcf.support.tolerances import SCORE_ROUNDING, TIE_MARGIN, reached

LIBRARY = Path(rc.__file__).parent
CHECKING = ("explain", "forest", "methods", "pipeline", "problem", "schema", "solve", "verify")
MODULES = ("assess.py", "counterfactual.py", "judge.py", "show.py")
STEERING = {
    "solve/strong_branching.py": 1,
    "solve/bounds.py": 1,
}  # numbers that only order the work of a search


def _sources() -> dict[str, str]:
    files = [f for room in CHECKING for f in (LIBRARY / room).rglob("*.py")] + [LIBRARY / m for m in MODULES]
    return {f.relative_to(LIBRARY).as_posix(): f.read_text(encoding="utf-8") for f in files}


def test_no_other_module_has_a_tolerance_of_its_own() -> None:
    found = {}
    for name, text in _sources().items():
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        numbers = [t.string for t in tokens if t.type == tokenize.NUMBER]
        found[name] = sum(bool(re.fullmatch(r"\d+e-(?:[6-9]|1[0-5])", number)) for number in numbers)
    assert {name: n for name, n in found.items() if n} == STEERING


def test_every_tolerance_is_used_and_explained() -> None:
    text = (LIBRARY / "support" / "tolerances.py").read_text(encoding="utf-8")
    used = "\n".join(_sources().values())
    jobs = LIBRARY.parent / "jobs"
    used += "\n".join(f.read_text(encoding="utf-8") for f in jobs.rglob("*.py"))
    names = [name for name in vars(tolerances) if name.isupper()]
    assert len(names) > 30
    for name in names:
        assert re.search(rf"^{name} = \S+  # .{{20}}", text, re.M), name
        assert re.search(rf"\b{name}\b", used), name


def test_an_engines_own_answer_reaches_its_threshold() -> None:
    """Fixed-point votes fall short of the threshold by at most 1.5 units; `reached` allows that."""
    for n_trees in (2, 100, 1000):
        lowest = 0.6 - 1.5 / SOFT_UNIT
        assert reached(lowest, 0.6, n_trees)
        assert not reached(0.6 - 2 * SCORE_ROUNDING * n_trees, 0.6, n_trees)


def test_a_tied_point_passes_no_method_however_many_trees() -> None:
    """With 1,000 trees, the rounding of scores is as large as the margin of a tie."""
    X = np.array([[0.0], [1.0], [0.0], [1.0]])
    y = np.array([0, 0, 1, 1])  # no split helps: every tree gives both classes one half
    model = RandomForestClassifier(1200, bootstrap=False, random_state=0).fit(X, y)
    forest = rc.Forest.from_sklearn(model)
    schema = rc.Schema((rc.Feature("x", "continuous", low=0, high=1),))
    assert SCORE_ROUNDING * len(forest) > TIE_MARGIN
    table = rc.assess_points(forest, schema, [{"x": 0.0}, {"x": 0.0}], [0, 1], methods=[rc.Naive()])
    assert table["score"].round(9).tolist() == [0.5, 0.5]
    assert table["valid_now"].tolist() == [True, False]  # scikit-learn takes the first class
    assert table["passes naive"].tolist() == [False, False]
