"""Differences between groups: the numbers of the table, their correction, and what `verify` finds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from robustcf_jobs.report.groups import differences
from robustcf_jobs.run.folder import RunFolder
from robustcf_jobs.run.groups import FIGURES, GroupCounts, crossed_name, crossed_value, group_lines

from robustcf.stats import bin_of
from tests.helpers.jobworld import customers, make_audit, run_audit
from tests.helpers.verifyworld import found

KEY = ("direct-saa", 0.2, None, None)


@pytest.fixture(scope="module")
def run(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("groups")
    frame = customers(700)
    frame["savings"], frame["income"] = 0.0, frame["income"] - 700
    frame["region"] = np.where(np.arange(700) % 3 == 0, "south", "north")
    frame["region"] = frame["region"].astype(object).where(np.arange(700) % 50 != 7, None)
    method = [{"name": "direct-saa", "alpha": 0.2}, {"name": "robust-saa", "alpha": 0.05, "beta": 0.001}]
    cohorts = {"data": "customers.parquet", "id": "customer", "cohort": ["sex", "region"]}
    assert run_audit(make_audit(folder, frame, customers=cohorts, method=method, shard={"rows": 350})) == 0
    return folder / "run"


def test_every_share_and_difference_is_that_of_the_rows(run: Path) -> None:
    table = pq.read_table(run / "summary/groups.parquet").to_pylist()
    rows = pd.read_parquet(run / "counterfactuals")
    rows["cohort"] = rows["cohort"].map(dict)
    valid = pd.read_parquet(run / "validation").set_index(["instance_id", "method"])["valid"]
    rows["denied"] = ~rows["status"].isin(["already_favourable", "invalid_input"])
    rows["reached"] = rows["status"] == "optimal"
    checked = 0
    for method, own in rows.groupby("method"):
        typical = own[own["reached"]]["distance"]
        far = bin_of(own["distance"].fillna(0).to_numpy()) > (
            bin_of(np.sort(typical)[[max(0, -(-len(typical) // 2) - 1)]])[0] if len(typical) else -np.inf
        )
        own = own.assign(far=~own["reached"] | far)
        for line in (line for line in table if line["method"] == method):
            inside = own["cohort"].map(
                lambda c, line=line: all(
                    c[line[f"cohort{k}"]] == line[f"cohort{k}_value"]
                    for k in ("", "_2")
                    if line[f"cohort{k}"] is not None
                )
            )
            for end, part in (("", own[inside]), ("_others", own[~inside])):
                denied, reached = part[part["denied"]], part[part["reached"]]
                wanted = {
                    "denial_rate": part["denied"].sum() / (part["status"] != "invalid_input").sum(),
                    "without_recourse": 1 - denied["reached"].mean() if len(denied) else None,
                    "far_or_none": denied["far"].mean() if len(denied) else None,
                    "validity": np.mean([np.mean(valid[i, method]) for i in reached["instance_id"]])
                    if len(reached)
                    else None,
                }
                for name, value in wanted.items():
                    assert line[name + end] == pytest.approx(value, nan_ok=True), (line, name + end)
                    checked += 1
            sizes = [int((own["denied"] & mask).sum()) for mask in (inside, ~inside)]
            assert (line["denied"], line["small"]) == (sizes[0], min(sizes) < 30)
    assert checked > 100
    assert {line["cohort_2"] for line in table} == {None, "region"}
    assert None in {line["cohort_value"] for line in table}, "customers without a region are a group"
    assert any(not line["small"] for line in table)


def test_verify_recomputes_the_groups(run: Path, tmp_path: Path) -> None:
    import shutil

    assert not found(run)
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run/summary/groups.parquet"
    table = pq.read_table(path)
    lines = table.to_pylist()
    lines[0]["without_recourse"] = 0.5
    pq.write_table(pa.Table.from_pylist(lines[:-1], schema=table.schema), path)
    said = "\n".join(found(tmp_path / "run"))
    assert "without_recourse: stored 0.5" in said
    assert "the line is missing" in said


def test_the_report_says_what_differs_and_claims_no_discrimination(run: Path) -> None:
    html = (run / "report.html").read_text()
    groups = html.split('id="groups-h"')[1].split("</section>")[0]
    assert "not a finding of discrimination" in groups
    assert "intersections of two columns were compared" in groups
    assert "By sex, differences from all others" in groups
    assert "difference from all others, in percentage points" in groups
    shown = differences(RunFolder(str(run)), ("robust-saa", 0.05, 0.001, None))
    assert shown is not None
    assert all(group.gaps["without_recourse"].share == 1.0 for group in shown.groups if group.denied)
    assert all(group.median is None for group in shown.groups), "most of the denied have no recourse"


def counts(
    cohort: str, value: str, denied: int, reached: int, far: int = 0, valid: float = 1.0
) -> GroupCounts:
    near, middle = (int(b) for b in bin_of(np.array([0.1, 0.5])))
    distances = Counter({near: reached - far, middle: far})
    pairs = 20 * reached
    return GroupCounts(
        KEY, cohort, value, 2 * denied, denied, reached, distances, "same-data", round(valid * pairs), pairs
    )


def test_a_group_whose_denied_customers_have_nothing_is_not_hidden_by_those_who_have() -> None:
    """A mean distance over customers with recourse is the same in both groups."""
    whole = [counts("", "", 200, 130), counts("g", "a", 100, 90), counts("g", "b", 100, 40)]
    a, b = group_lines(whole)
    assert a["without_recourse"] == pytest.approx(0.1)
    assert b["without_recourse_difference"] == pytest.approx(0.5)
    assert b["far_or_none_low_all"] > 0.2
    assert (a["median_distance"], b["median_distance"]) == (pytest.approx(0.1, rel=0.01), None)
    assert b["without_recourse_low_all"] < b["without_recourse_low"] < b["without_recourse_high"]
    assert a["comparisons"] == 2 * len(FIGURES)


def test_intersections_are_a_family_of_their_own_and_names_cannot_collide() -> None:
    pair = counts(crossed_name("a b", "c"), crossed_value("x", None), 40, 20)
    lines = group_lines([counts("", "", 200, 100), counts("a b", "x", 80, 40), pair])
    assert [(line["cohort"], line["cohort_2"], line["cohort_2_value"]) for line in lines] == [
        ("a b", None, None),
        ("a b", "c", None),
    ]
    assert [line["comparisons"] for line in lines] == [4, 4]


def test_chance_alone_rarely_shows_a_difference_among_many_groups() -> None:
    rng = np.random.default_rng(0)
    false, runs = Counter[str](), 150
    for _ in range(runs):
        own = []
        for k in range(12):
            reached = int(rng.binomial(60, 0.7))
            own.append(counts("g", str(k), 60, reached, int(rng.binomial(reached, 0.5)), 0.9))
        whole = counts("", "", 720, sum(g.reached for g in own))
        whole.distances = sum((g.distances for g in own), Counter())
        whole.valid = sum(g.valid for g in own)
        lines = group_lines([whole, *own])
        for end in ("", "_all"):
            ends = [
                (line[f"{name}_low{end}"], line[f"{name}_high{end}"]) for line in lines for name in FIGURES
            ]
            false[end] += any(low > 0 or high < 0 for low, high in ends)
    assert false["_all"] / runs <= 0.1, "5 % and the error of 150 draws"
    assert false[""] / runs > 0.5, "without the correction, most tables would show something"
