"""`robustcf verify`: whatever is altered in a row is named, though its shard's digest fits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.verifyworld import HOUSING, Rows, alter_rows, found


def first(rows: Rows, method: str = "naive", status: str = "optimal") -> dict[str, Any]:
    return next(row for row in rows if row["status"] == status and row["method"] == method)


def setting(of: str = "naive", /, **values: Any) -> Callable[[Rows], dict[str, Any]]:
    def change(rows: Rows) -> dict[str, Any]:
        row = first(rows, of)
        for key, value in values.items():
            row[key] = value(row[key]) if callable(value) else value
        return row

    return change


def moved_point(rows: Rows) -> dict[str, Any]:
    row = first(rows)
    row["point"] = [x + 0.4 if 0 < x < 0.5 else x for x in row["point"]]
    return row


def other_value(rows: Rows) -> dict[str, Any]:
    row = first(rows)
    row["changes"][0]["after"] = row["changes"][0]["before"]
    return row


def unknown_feature(rows: Rows) -> dict[str, Any]:
    row = first(rows)
    row["changes"][0]["feature"] = "luck\n"
    return row


def dropped_change(rows: Rows) -> dict[str, Any]:
    row = first(rows)
    row["changes"], row["n_changed"] = row["changes"][1:], row["n_changed"] - 1
    return row


def two_rows(rows: Rows) -> dict[str, Any]:
    rows.append(dict(first(rows)))
    return rows[-1]


def one_row_less(rows: Rows) -> dict[str, Any]:
    row = first(rows)
    rows.remove(row)
    return row


def other_id(rows: Rows) -> dict[str, Any]:
    row = first(rows)
    for other in rows:
        if other["instance_id"] == row["instance_id"] and other is not row:
            other["instance_id"] = "nobody"
    row["instance_id"] = "nobody"
    return row


def no_way_out(rows: Rows) -> dict[str, Any]:
    row = first(rows)
    row.update(status="no_recourse", best_score=row["score_after"], best_score_gap=0.0)
    return row


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (moved_point, "score_after"),
        (setting(point=lambda p: p[:-1]), "point"),
        (setting(point=lambda p: [*p[:HOUSING], 0.5, *p[HOUSING + 1 :]]), "point"),
        (setting(point=None), "status"),
        (setting(score_after=lambda s: s + 1e-6), "score_after"),
        (setting(score_before=lambda s: s - 1e-6), "score_before"),
        (setting(score_before=0.9), "decision"),
        (setting(threshold=0.4), "threshold"),
        (setting("direct-saa", threshold=0.5), "threshold"),
        (setting(threshold=None), "columns"),
        (setting(distance=lambda d: d * 0.5), "distance"),
        (
            setting(distance=lambda d: d * 0.5, objective=lambda d: d * 0.5, lower_bound=0.0, gap=1.0),
            "distance",
        ),
        (setting(objective=lambda d: d * 2), "objective"),
        (setting(lower_bound=lambda d: d * 2), "lower_bound"),
        (setting(lower_bound=lambda d: d / 2), "gap"),
        (setting(lower_bound=lambda d: d / 2, gap=0.5), "gap"),
        (setting(gap=0.1), "gap"),
        (setting(n_changed=9), "n_changed"),
        (setting(predicted_validity=0.123), "predicted_validity"),
        (setting(best_score=0.4), "columns"),
        (setting(verified=False), "verified"),
        (setting(verified=None), "verified"),
        (setting(status="perfect"), "status"),
        (setting(status="heuristic"), "status"),
        (setting(status="relaxed"), "status"),
        (setting(status="already_favourable"), "status"),
        (setting(status="timeout"), "status"),
        (setting(status="invalid_input"), "status"),
        (setting(status="error"), "status"),
        (no_way_out, "status"),
        (setting(method="direct"), "method"),
        (setting("direct-saa", alpha=0.1), "method"),
        (setting(voting="hard"), "voting"),
        (setting(target="0"), "target"),
        (setting(target="7"), "target"),
        (setting(dataset="others"), "keys"),
        (setting(n_trees=16), "keys"),
        (setting(simulation=1), "keys"),
        (other_value, "changes"),
        (unknown_feature, "changes"),
        (dropped_change, "score_before"),
        (setting(changes=lambda c: [{**c[0], "delta": 123.0}, *c[1:]]), "changes"),
        (setting(changes=lambda c: [*c, c[0]]), "changes"),
        (setting(changes=None), "columns"),
        (two_rows, "counts"),
        (one_row_less, "counts"),
        (other_id, "customers"),
    ],
)
def test_one_row(run: Path, change: Callable[[Rows], Any], kind: str) -> None:
    row = alter_rows(run, change)
    said = found(run, customers=kind == "customers")
    named = [line for line in said if line.startswith(f"{kind}: ")]
    assert named, said
    assert any(row["instance_id"] in line or "customers" in line for line in named)
    assert not any(line.startswith("digest") for line in said)


def test_methods_that_start_from_different_rows(run: Path) -> None:
    """One method's answer moved to another customer's row: consistent in itself, not with the others."""

    def change(rows: Rows) -> dict[str, Any]:
        one = first(rows)
        other = next(r for r in rows if r["method"] == "naive" and r["point"] and r["point"] != one["point"])
        keep = {k: one[k] for k in ("instance_id", "cohort")}
        one.update({**other, **keep})
        return one

    row = alter_rows(run, change)
    said = found(run, customers=False)
    assert any(line.startswith("origin: ") and row["instance_id"] in line for line in said), said
