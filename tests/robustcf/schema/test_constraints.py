"""Constraints that depend on the customer's own values, and rules across features, one by one.

That they are exact in every engine is shown on random worlds (`test_engines_against_oracle`,
`test_plausible_against_oracle`); here each is seen to do what its documentation says.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import robustcf as rc
from robustcf.forest.forest import Forest
from robustcf.schema.encode import encode, read_rows
from robustcf.schema.links import Clause, Link
from robustcf.schema.schema import Feature, Schema, SchemaError
from tests.helpers.worlds import remade

DOCS = Path(__file__).parents[3] / "docs" / "constraints.md"
SOLVERS = ("engine", "highs", "gurobi", "oracle")


def tree(schema: Schema, rows: pd.DataFrame, good: Callable[[Any], bool]) -> Forest:
    """A tree that says 1 exactly where `good` does, on rows and between them."""
    X = encode(schema, read_rows(schema, rows).numbers)
    y = [int(good(row)) for row in rows.itertuples()]
    return Forest.from_sklearn(DecisionTreeClassifier(random_state=0).fit(X, y))


def grid(**columns: Any) -> pd.DataFrame:
    return pd.MultiIndex.from_product(list(columns.values()), names=list(columns)).to_frame(index=False)


def solved(forest: Forest, schema: Schema, **row: Any) -> rc.Counterfactual:
    """The answer, which is the same for every solver."""
    answers = [rc.Explainer(forest, schema, solver=s, target=1).explain(row) for s in SOLVERS]
    for answer in answers:
        assert answer.verified == (answer.point is not None), answer.reason
        assert answer.status in ("optimal", "no_recourse"), answer.reason
        assert answer.status == answers[0].status
        assert answer.distance == pytest.approx(answers[0].distance, abs=1e-9, nan_ok=True)
    return answers[0]


def moved(answer: rc.Counterfactual) -> dict[str, Any]:
    assert answer.status == "optimal"
    return {c.feature: c.after for c in answer.changes}


# ------------------------------------------------------------------ bounds relative to the customer

RATE = Feature("rate", "continuous", low=0.0, high=1.0, step=0.1)


@pytest.mark.parametrize(
    ("bounds", "own", "reached"),
    [
        ({"at_most_up": 0.1}, 0.7, 0.8),  # 0.7 + 0.1 is 0.7999999999999999 in binary
        ({"at_most_up": 0.09}, 0.7, None),
        ({"at_most_up": 0.4, "at_most_up_percent": 14}, 0.7, None),  # all that are given hold
        ({"at_most_up_percent": 14.3}, 0.7, 0.8),
        ({"at_most_up_percent": 1000}, 0.0, None),  # of nothing
        ({"at_most_down": 0.0, "at_most_down_percent": 0.0}, 0.7, 0.8),  # the other way is free
    ],
)
def test_relative_bounds(bounds: dict[str, float], own: float, reached: float | None) -> None:
    schema = Schema((RATE,)).replace("rate", **bounds)
    forest = tree(schema, grid(rate=np.arange(0, 1.01, 0.1)), lambda r: r.rate > 0.75)
    answer = solved(forest, schema, rate=own)
    if reached is None:
        assert answer.status == "no_recourse"
    else:
        assert moved(answer) == {"rate": reached}


def test_a_percentage_of_a_negative_number_is_of_its_size() -> None:
    schema = Schema((Feature("balance", "continuous", low=-100, high=100, at_most_up_percent=50),))
    forest = tree(schema, grid(balance=range(-100, 101, 10)), lambda r: r.balance >= -50)
    after = moved(solved(forest, schema, balance=-100.0))["balance"]
    assert -60 < after <= -50
    assert solved(forest, schema, balance=-120.0).status == "no_recourse"


def test_a_bound_that_rounds_to_the_split_is_reached() -> None:
    """The usual value of a cell is a float32; the bound lies below it and yet in the cell."""
    schema = Schema((Feature("x", "continuous", low=0, high=1, scaling="none"),))
    forest = tree(schema, grid(x=[0.0, 1.0]), lambda r: r.x > 0.5)
    split = float(np.float32(0.3))
    forest = remade(forest, threshold=np.where(forest.left >= 0, np.nextafter(split, 0), forest.threshold))
    bound = split - 1e-9
    assert bound < split
    assert np.float32(bound) == np.float32(split)
    assert moved(solved(forest, schema.replace("x", at_most_up=bound), x=0.0)) == {"x": bound}
    assert solved(forest, schema.replace("x", at_most_up=0.299), x=0.0).status == "no_recourse"


def test_ordered_words_move_by_places() -> None:
    schema = Schema((Feature("degree", "discrete", values=("none", "BSc", "MSc", "PhD"), at_most_up=1),))
    forest = tree(schema, grid(degree=["none", "BSc", "MSc", "PhD"]), lambda r: r.degree in ("MSc", "PhD"))
    assert moved(solved(forest, schema, degree="BSc")) == {"degree": "MSc"}
    assert solved(forest, schema, degree="none").status == "no_recourse"


# ---------------------------------------------------------------------- forbidden and priced moves

STATUS = Feature("status", "categorical", values=("divorced", "married", "never married"))
YEARS = Feature("years", "discrete", values=(0, 1, 2, 3, 4, 5))


def test_forbidden_categories() -> None:
    schema = Schema((STATUS,)).replace("status", forbidden=[["*", "never married"]])
    forest = tree(schema, grid(status=STATUS.values), lambda r: r.status != "divorced")
    assert moved(solved(forest, schema, status="divorced")) == {"status": "married"}
    schema = schema.replace("status", forbidden=[["*", "never married"], ["divorced", "married"]])
    assert solved(forest, schema, status="divorced").status == "no_recourse"


def test_the_next_value_of_the_cell_where_the_nearest_is_forbidden() -> None:
    schema = Schema((YEARS,)).replace("years", forbidden=[[0, 3], ["*", 4], [1, 5]])
    forest = tree(schema, grid(years=YEARS.values), lambda r: r.years >= 3)
    assert moved(solved(forest, schema, years=0)) == {"years": 5}
    assert moved(solved(forest, schema, years=1)) == {"years": 3}
    assert moved(solved(forest, schema, years=2.5)) == {"years": 3}  # off the list: only "*" is meant


def test_a_table_makes_another_value_the_cheapest() -> None:
    table = [[0, 3, 0.9], ["*", 4, 0.01], ["*", 3, 0.02], ["*", "*", 0.5]]
    schema = Schema((YEARS,)).replace("years", cost_table=table)
    forest = tree(schema, grid(years=YEARS.values), lambda r: r.years >= 3)
    answer = solved(forest, schema, years=0)
    assert (moved(answer), answer.distance) == ({"years": 4}, 0.01)
    answer = solved(forest, schema.replace("years", forbidden=[["*", 4]]), years=0)
    assert (moved(answer), answer.distance) == ({"years": 5}, 0.5)
    answer = solved(forest, schema.replace("years", forbidden=[["*", 4]]), years=1)
    assert (moved(answer), answer.distance) == ({"years": 3}, 0.02)


def test_moves_that_no_line_names_cost_by_weight() -> None:
    table = [["divorced", "married", 5.0]]
    schema = Schema((STATUS,)).replace("status", cost_table=table)
    forest = tree(schema, grid(status=STATUS.values), lambda r: r.status != "divorced")
    answer = solved(forest, schema, status="divorced")
    assert (moved(answer), answer.distance) == ({"status": "never married"}, 0.5)


# ------------------------------------------------------------------------- rules across features

DEGREE = Feature("degree", "discrete", values=("none", "BSc", "MSc"))
AGE = Feature("age", "discrete", values=tuple(range(18, 41)))
PEOPLE = Schema((DEGREE, AGE))


def link(when: str, moves: Any, then: str, other: Any) -> Link:
    return Link(Clause(when, moves), Clause(then, other))


def test_a_link_forbids_the_other_way() -> None:
    forest = tree(
        PEOPLE,
        grid(degree=DEGREE.values, age=AGE.values),
        lambda r: (r.degree != "none" and r.age < 25) or r.age > 38,
    )
    assert moved(solved(forest, PEOPLE, degree="none", age=25)) == {"degree": "BSc", "age": 24}
    older = PEOPLE.with_rules([link("degree", "up", "age", ["same", "up"])])
    assert moved(solved(forest, older, degree="none", age=25)) == {"age": 39}
    assert moved(solved(forest, older, degree="BSc", age=26)) == {"age": 24}  # nothing triggers it
    assert moved(solved(forest, older, degree="none", age=20)) == {"degree": "BSc"}


def test_a_link_can_force_the_least_move_within_a_cell() -> None:
    forest = tree(PEOPLE, grid(degree=DEGREE.values, age=AGE.values), lambda r: r.degree == "MSc")
    older = PEOPLE.with_rules([link("degree", "up", "age", "up")])
    assert moved(solved(forest, older, degree="BSc", age=26)) == {"degree": "MSc", "age": 27}
    assert solved(forest, older, degree="BSc", age=40).status == "no_recourse"
    cheap = older.replace("age", cost_table=[["*", 33, 0.001]], forbidden=[[26, 27]])
    assert moved(solved(forest, cheap, degree="BSc", age=26)) == {"degree": "MSc", "age": 33}
    stepped = older.replace("age", kind="continuous", values=(), low=18.0, high=40.0, step=0.5)
    assert moved(solved(forest, stepped, degree="BSc", age=26.2)) == {"degree": "MSc", "age": 26.5}


def test_links_of_categories() -> None:
    job = Feature("job", "categorical", values=("cook", "clerk", "pilot"))
    schema = Schema((job, Feature("tenure", "discrete", values=(0, 1, 2, 3))))
    forest = tree(schema, grid(job=job.values, tenure=[0, 1, 2, 3]), lambda r: r.job == "pilot")
    falls = schema.with_rules([link("job", "changed", "tenure", "down")])
    assert moved(solved(forest, falls, job="cook", tenure=2)) == {"job": "pilot", "tenure": 1}
    assert solved(forest, falls, job="cook", tenure=0).status == "no_recourse"


def test_at_most_so_many_changes() -> None:
    names = ("a", "b", "c")
    schema = Schema(tuple(Feature(n, "discrete", values=(0, 1, 2, 3)) for n in names))
    forest = tree(
        schema, grid(a=range(4), b=range(4), c=range(4)), lambda r: r.a + r.b + r.c >= 4 or r.b == 3
    )
    free = moved(solved(forest, schema.replace("b", weight=1.0), a=1, b=0, c=1))
    assert len(free) in (1, 2)
    spread = schema.replace("a", forbidden=[["*", 3]]).replace("c", forbidden=[["*", 3]])
    spread = spread.replace("b", weight=3.0)
    assert moved(solved(forest, spread, a=1, b=0, c=1)) == {"a": 2, "c": 2}
    assert moved(solved(forest, spread.with_rules(max_changes=1), a=1, b=0, c=1)) == {"b": 2}
    fixed = spread.replace("b", action="fixed").with_rules(max_changes=1)
    answer = solved(forest, fixed, a=1, b=0, c=1)
    assert (answer.status, answer.n_changed) == ("no_recourse", 0)


def test_rules_that_nothing_keeps_leave_no_point() -> None:
    forest = tree(PEOPLE, grid(degree=DEGREE.values, age=AGE.values), lambda r: r.degree == "MSc")
    always = PEOPLE.with_rules(
        [link("degree", ["same", "changed"], "age", "up"), link("age", "changed", "degree", "down")]
    )
    answer = solved(forest, always, degree="none", age=26)
    assert (answer.status, answer.point) == ("no_recourse", None)
    assert str(answer.reason).startswith("the best reachable score is not known")


def test_best_scores_are_not_shared_between_customers_whom_rules_tell_apart() -> None:
    """Both can reach the same cells one by one, but with one change they end at different scores."""
    schema = Schema(tuple(Feature(n, "discrete", values=(0, 1)) for n in "abc")).with_rules(max_changes=1)
    forest = tree(schema, grid(a=[0, 1], b=[0, 1], c=[0, 1]), lambda r: r.a + r.b + r.c == 3)
    p = forest.probabilities.copy()
    leaf = np.flatnonzero(forest.left < 0)
    p[leaf] = np.column_stack([np.linspace(0.9, 0.6, len(leaf)), np.linspace(0.1, 0.4, len(leaf))])
    forest = remade(forest, probabilities=p)
    rows = grid(a=[0, 1], b=[0, 1], c=[0, 1])
    together = rc.Explainer(forest, schema, target=1).explain_many(rows)
    alone = [rc.Explainer(forest, schema, target=1).explain(row) for _, row in rows.iterrows()]
    assert [a.best_score for a in together] == [a.best_score for a in alone]
    assert len({a.best_score for a in together}) > 1
    assert all(a.verified and a.status == "no_recourse" for a in together)


def test_robx_keeps_rules_or_falls_back() -> None:
    data = rc.datasets.synthetic_credit(n=300, seed=0)
    X = data.encode(data.X)
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, data.y)
    schema = data.schema.with_rules([link("income", "changed", "savings", "same")], max_changes=3)
    schema = schema.replace("income", at_most_up_percent=30)
    explainer = rc.Explainer(
        Forest.from_sklearn(model), schema, rc.RobX(tau=0.5, k=50), target=1, training=(X, data.y)
    )
    answers = [a for a in explainer.explain_many(data.X.iloc[:60]) if a.status == "heuristic"]
    assert len(answers) > 5
    assert all(a.verified and a.n_changed <= 3 for a in answers)


# ----------------------------------------------------------------------------- files and errors

FULL = (
    PEOPLE.replace("degree", forbidden=[["MSc", "none"]], cost_table=[["none", "BSc", 1], ["*", "MSc", 2.5]])
    .replace("age", at_most_up=3, at_most_down_percent=10.0)
    .with_rules([link("degree", "up", "age", ["same", "up"])], max_changes=2)
)


def test_a_schema_file_keeps_constraints_and_hash(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(FULL.to_toml(), encoding="utf-8")
    again = Schema.from_toml(path)
    assert again == FULL
    assert again.fingerprint == FULL.fingerprint
    assert "max_changes = 2" in FULL.to_toml()


def test_every_constraint_is_in_the_hash() -> None:
    others = [
        FULL.replace("age", at_most_up=4),
        FULL.replace("age", at_most_down_percent=None),
        FULL.replace("degree", forbidden=None),
        FULL.replace("degree", cost_table=[["none", "BSc", 1], ["*", "MSc", 2.6]]),
        FULL.with_rules(FULL.links),
        FULL.with_rules(max_changes=2),
        FULL.with_rules([link("degree", "up", "age", "up")], max_changes=2),
    ]
    assert len({s.fingerprint for s in [FULL, *others]}) == len(others) + 1


def test_schemas_without_constraints_keep_the_hash_they_had() -> None:
    """As computed before there were any: else the first night after an update would copy nothing."""
    known = "9ae167c5f9fcaa7924bccd1b233a944ea4b05580d027c674f927c733930f357e"
    assert rc.datasets.synthetic_credit(n=1, seed=0).schema.fingerprint == known


def test_replacing_a_feature_keeps_the_rules() -> None:
    assert FULL.replace("age", action="increase").links == FULL.links
    assert FULL.replace("age", action="increase").max_changes == 2


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ({"kind": "continuous", "at_most_up": -1}, "at_most_up -1 is not a finite number of at least 0"),
        ({"kind": "continuous", "at_most_up": "far"}, "at_most_up must be a number, not 'far'"),
        ({"kind": "continuous", "forbidden": [[1, 2]]}, "is continuous; it cannot have forbidden"),
        ({"kind": "categorical", "at_most_up": 1}, "has no order; it cannot have at_most_up"),
        (
            {"kind": "binary", "at_most_up_percent": 1},
            "does not hold numbers; it cannot have at_most_up_percent",
        ),
        ({"kind": "binary", "forbidden": "ab"}, "forbidden must be a list, not 'ab'"),
        (
            {"kind": "binary", "forbidden": ["ab"]},
            "forbidden holds 'ab'; a line must have the form [from, to]",
        ),
        ({"kind": "binary", "forbidden": [["a"]]}, "forbidden holds ['a']; a line must have the form"),
        (
            {"kind": "binary", "forbidden": [["a", "z"]]},
            "forbidden names 'z', which is not one of its values",
        ),
        ({"kind": "binary", "forbidden": [["a", "a"]]}, "names a move from 'a' to itself"),
        ({"kind": "binary", "cost_table": [["a", "b"]]}, "a line must have the form [from, to, cost]"),
        (
            {"kind": "binary", "cost_table": [["a", "b", -1]]},
            "holds the cost -1; a cost must be a finite number",
        ),
        ({"kind": "binary", "forbidden": [["a", "b"], ["a", "b"]]}, "names the move ['a', 'b'] twice"),
        ({"kind": "binary", "values": ["*", "a"], "forbidden": [["a", "*"]]}, 'has a value "*"'),
    ],
)
def test_bad_features_are_one_clear_line(feature: dict[str, Any], message: str) -> None:
    words = {} if feature["kind"] == "continuous" else {"values": ["a", "b"]}
    frame = pd.DataFrame({"x": ["a", "b"] if words else [0.5, 1.5]})
    with pytest.raises(SchemaError, match=re.escape(message)) as caught:
        Schema.from_frame(frame, {"x": words | feature})
    assert str(caught.value).startswith("feature 'x'")
    assert "\n" not in str(caught.value)


def _table(when: str, moves: Any, then: str, other: Any) -> dict[str, Any]:
    return {"when": {"feature": when, "moves": moves}, "then": {"feature": then, "moves": other}}


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"links": [_table("degree", "up", "wealth", "up")]}, "names 'wealth', which is not a feature"),
        ({"links": [_table("degree", "sideways", "age", "up")]}, "unknown move 'sideways'"),
        ({"links": [_table("degree", [], "age", "up")]}, "a link has no moves for 'degree'"),
        ({"links": [_table("degree", 3, "age", "up")]}, "must be words, not 3"),
        ({"links": [_table("degree", "up", "degree", "up")]}, "ties 'degree' to itself"),
        ({"links": [_table("degree", "up", "age", ["same", "changed"])]}, "has no effect"),
        ({"links": [_table("degree", "up", "job", "up")]}, "'job' is categorical and has no order"),
        ({"links": [_table("degree", "up", "income", "up")]}, "may force 'income' to move"),
        ({"links": [_table("income", "same", "degree", "same")]}, "may force 'income' to move"),
        ({"links": [{"if": 1}]}, "a link must have the keys when and then, not if"),
        ({"links": [{"when": 1, "then": 2}]}, "a link's when must have the keys feature and moves, not 1"),
        ({"links": ["degree up"]}, "a link must have the keys when and then, not 'degree up'"),
        ({"max_changes": 0}, "max_changes is 0; it must be a whole number of at least 1"),
        ({"max_changes": 1.5}, "max_changes is 1.5"),
        ({"max_changes": True}, "max_changes is True"),
    ],
)
def test_bad_rules_are_one_clear_line(rules: dict[str, Any], message: str, tmp_path: Path) -> None:
    job = Feature("job", "categorical", values=("cook", "clerk"))
    schema = Schema((DEGREE, AGE, job, Feature("income", "continuous", low=0, high=1)))
    with pytest.raises(SchemaError, match=re.escape(message)) as caught:
        schema.with_rules(**rules)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("link = 3\n", "link must be [[link]] tables"),
        ("max_changes = 'two'\n", "max_changes is 'two'"),
        ("links = []\n", "unknown key 'links'"),
    ],
)
def test_bad_files_name_the_file(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(text + PEOPLE.to_toml(), encoding="utf-8")
    with pytest.raises(SchemaError, match=re.escape(message)) as caught:
        Schema.from_toml(path)
    assert str(caught.value).startswith(str(path))


# -------------------------------------------------------------------------------- documentation

PAGE = DOCS.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("code", "expected"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_of_the_page_print_what_it_says(code: str, expected: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(DOCS), "exec"), {})
    assert printed.getvalue() == expected


def test_the_schema_file_of_the_page_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "schema.toml"
    path.write_text(text, encoding="utf-8")
    schema = Schema.from_toml(path)
    assert schema.max_changes == 3
    assert str(schema.links[0]) == "education up => age same or up"
