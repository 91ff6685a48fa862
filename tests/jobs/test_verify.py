"""`robustcf verify`: an honest run passes; whatever is altered, alone or with its digest, is named."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jobworld import (
    ROOT,
    customers,
    make_audit,
    make_forest,
    make_sweep,
    run_audit,
    run_sweep,
    shards,
    write_config,
)

import robustcf as rc
from jobs.badinput import BadInput
from jobs.cli import main
from jobs.verify import lines
from jobs.verify_run import verify_run

Manifest = dict[str, Any]
Rows = list[dict[str, Any]]
METHODS = [
    {"name": "naive"},
    {"name": "direct-saa", "alpha": [0.2, 0.05]},
    {"name": "robust-saa", "alpha": 0.05, "beta": 0.001},  # beyond every score: no recourse
    {"name": "convex-approximation"},
]
HOUSING = rc.datasets.synthetic_credit(1).schema.columns.index("housing=own")
RULES: dict[str, dict[str, Any]] = {
    "months_employed": {"at_most_up": 30},
    "savings": {"at_most_up_percent": 400, "step": 500.0},
    "housing": {"cost_table": [["*", "own", 0.9]], "forbidden": [["rent", "with family"]]},
}


@pytest.fixture(scope="module")
def audit(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 customers: most turned down, two of them equal, one unreadable; some whom no change helps."""
    folder = tmp_path_factory.mktemp("verify")
    forest = make_forest(folder / "forest")
    frame, data = customers(300), rc.datasets.synthetic_credit(300, seed=5)
    denied = forest.predict(data.encode(data.X)) == 0
    chosen = np.r_[np.flatnonzero(denied)[:16], np.flatnonzero(~denied)[:8]]
    frame = frame.iloc[chosen].reset_index(drop=True)
    frame.loc[15, frame.columns[1:]] = frame.loc[14, frame.columns[1:]]
    frame.loc[23, "housing"] = "castle"
    config = make_audit(folder, frame, method=METHODS, validation={"forests": 3}, shard={"rows": 12})
    schema = data.schema
    for name, changes in RULES.items():
        schema = schema.replace(name, **changes)
    link = {
        "when": {"feature": "savings", "moves": "up"},
        "then": {"feature": "loan_amount", "moves": ["same", "down"]},
    }
    (folder / "schema.toml").write_text(schema.with_rules([link], max_changes=4).to_toml())
    assert run_audit(config) == 0
    return folder


@pytest.fixture
def run(audit: Path, tmp_path: Path) -> Path:
    """A copy to do harm to; its customer table is the original one."""
    copy = tmp_path / "run"
    shutil.copytree(audit / "run", copy)
    return copy


def found(run: Path, customers: bool | None = None) -> list[str]:
    """What `verify` names; each mismatch in one line of bounded length."""
    done = verify_run(str(run), customers)
    said = [line for line in lines(done) if not line.startswith("not checked")]
    assert bool(said) == bool(done.findings.total)
    assert all("\n" not in line for line in said)
    return said


# ------------------------------------------------------------------------------- honest


def test_an_honest_audit_passes(audit: Path) -> None:
    done = verify_run(str(audit / "run"))
    assert lines(done) == ["not checked: the validation forests' own answers: those forests are not kept"]
    statuses = Counter(pd.read_parquet(audit / "run/counterfactuals")["status"])
    assert statuses.keys() >= {"optimal", "no_recourse", "already_favourable", "invalid_input"}
    assert (done.rows, done.customers) == (statuses.total(), 24)


GRID = {"datasets": ["synthetic-credit"], "simulations": 2, "rows": 2, "trees": [10], "depth": 3}


def test_an_honest_sweep_passes(local_ray: Any, tmp_path: Path) -> None:
    assert run_sweep(make_sweep(tmp_path, sweep=GRID)) == 0
    assert found(tmp_path / "run") == []
    alter_tree(tmp_path / "run/forest/synthetic-credit-n00010-s0001", "probabilities", repaired=True)
    assert any("score_after" in line and "s0001" in line for line in found(tmp_path / "run"))


@pytest.mark.slow
def test_an_honest_sweep_of_the_other_methods_passes(local_ray: Any, tmp_path: Path) -> None:
    direct = {"name": "direct-saa", "alpha": 0.2}
    methods = [
        {"name": "local-outlier-factor", "weight": 0.1},
        {"name": "robx", "k": 50},
        {"name": "isolation-forest", "contamination": 0.3, "method": direct},
    ]
    assert run_sweep(make_sweep(tmp_path, method=methods, sweep=GRID)) == 0
    assert found(tmp_path / "run") == []


def test_answers_of_the_night_before_keep_their_method_s_own_voting(audit: Path, tmp_path: Path) -> None:
    """Copied and kept rows of the convex approximation once had the scores of soft votes."""
    config = tomllib.loads((audit / "audit.toml").read_text())
    config = {k: v for k, v in config.items() if k != "training"} | {"previous": str(audit / "run")}
    config["customers"] = config["customers"] | {"data": str(audit / "customers.parquet")}
    make_forest(tmp_path / "other", seed=3, trees=21)
    for forest, keep in ((audit / "forest", False), (tmp_path / "other", True)):
        model = {"forest": str(forest), "schema": str(audit / "schema.toml"), "favourable": 1}
        name = "kept" if keep else "copied"
        path = tmp_path / f"{name}.toml"
        write_config(path, config | {"output": name, "model": model, "keep_valid": keep})
        assert run_audit(path) == 0
        assert found(tmp_path / name) == []
        convex = pd.read_parquet(tmp_path / name / "counterfactuals").query("voting == 'hard'")
        assert (convex["seconds"] == 0).sum() > 5
        assert convex["reason"].str.startswith("kept").any() == keep


def test_the_code_that_solves_is_never_loaded(audit: Path) -> None:
    program = (
        "import sys\nfrom jobs.cli import main\n"
        "try:\n    main(['verify', sys.argv[1]])\n"
        "except SystemExit as end:\n    code = end.code\n"
        "print(code, *sorted(m for m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(audit / "run")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    code, *modules = done.stdout.splitlines()[-1].split()
    assert code == "0"
    solving = ("solve", "problem", "explain", "cells", "ask", "isolation", "outlier", "robx", "check")
    for name in (*(f"robustcf.{name}" for name in solving), "jobs.rows", "jobs.shard", "ray", "highspy"):
        assert name not in modules
    assert "✓" in done.stdout
    assert '"stage": "verifying"' in done.stderr


@pytest.mark.parametrize("content", [None, "[1", "{}"])
def test_what_is_no_run_folder_is_exit_code_2(
    tmp_path: Path, content: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(BadInput, match="manifest"):
        verify_run(str(tmp_path))
    with pytest.raises(SystemExit) as end:
        main(["verify", str(tmp_path)])
    assert (end.value.code, len(capfd.readouterr().err.splitlines())) == (2, 1)


def test_a_mismatch_is_exit_code_1(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    alter_manifest(run, lambda m: m["counts"].update(optimal=1))
    with pytest.raises(SystemExit) as end:
        main(["verify", str(run)])
    assert end.value.code == 1
    assert "counts: manifest.json: counts: stored" in capfd.readouterr().out


# ------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("folder", "where"), [("counterfactuals", 0.1), ("counterfactuals", 0.9), ("validation", 0.5)]
)
def test_one_byte_of_a_shard(run: Path, folder: str, where: float) -> None:
    shard = run / folder / "shard-00001.parquet"
    content = bytearray(shard.read_bytes())
    content[int(where * len(content))] ^= 1
    shard.write_bytes(content)
    assert any(f"digest: {folder}/shard-00001.parquet: sha256" in line for line in found(run))


def test_a_missing_shard_and_a_stray_one(run: Path) -> None:
    (run / "counterfactuals/shard-00001.parquet").rename(run / "counterfactuals/shard-00009.parquet")
    said = found(run)
    assert "files: counterfactuals/shard-00001.parquet is missing" in said
    assert "files: counterfactuals/shard-00009.parquet does not belong to the run" in said


def alter_tree(folder: Path, array: str, repaired: bool) -> None:
    """Alter one array of a forest; `repaired` also makes forest.json agree with it."""
    with np.load(folder / "trees.npz", allow_pickle=False) as stored:
        arrays = dict(stored)
    if array == "threshold":
        arrays["threshold"][arrays["left"] >= 0] += 0.01
    else:
        arrays["probabilities"] = arrays["probabilities"][:, ::-1].copy()
    head = json.loads((folder / "forest.json").read_text())
    if not repaired:
        np.savez_compressed(folder / "trees.npz", **arrays)
        return
    forest = rc.Forest(
        **arrays,
        classes=tuple(label for _, label in head["classes"]),
        n_features=head["n_features"],
        accepts_missing=head["accepts_missing"],
        estimator=head["estimator"],
    )
    rc.save_forest(forest, folder)


@pytest.mark.parametrize("array", ["threshold", "probabilities"])
def test_one_tree(run: Path, array: str) -> None:
    alter_tree(run / "forest", array, repaired=False)
    assert any(line.startswith("forest: forest:") and "fingerprint" in line for line in found(run))


@pytest.mark.parametrize("array", ["threshold", "probabilities"])
def test_a_forest_with_a_fingerprint_of_its_own(run: Path, array: str) -> None:
    alter_tree(run / "forest", array, repaired=True)
    assert any("forest_hash" in line for line in found(run))
    head = json.loads((run / "forest/forest.json").read_text())
    alter_manifest(run, lambda m: m.update(forest_hash=head["fingerprint"]))
    assert any(line.startswith("score_after: ") for line in found(run, customers=False))


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ({"action": "fixed"}, "is fixed"),
        ({"weight": 7.5}, "distance: stored"),
        ({"upper": 0.0, "lower": -1.0}, "is above the declared bound"),
        ({"at_most_up": 0.001, "at_most_down": 0.001}, "goes farther than at_most_"),
        ({"step": 1e7}, "is not a multiple"),
        ({"max_changes": 1}, "max_changes is 1"),
    ],
    ids=str,
)
def test_the_schema(run: Path, rule: dict[str, Any], named: str) -> None:
    """A schema with another rule for a number that somebody changes."""
    path = run / "schema.toml"
    schema = rc.Schema.from_toml(path)
    rows = pd.read_parquet(run / "counterfactuals")
    changed = next(c["feature"] for cs in rows["changes"].dropna() for c in cs if c["delta"] == c["delta"])
    schema = schema.with_rules([], **rule) if "max_changes" in rule else schema.replace(changed, **rule)
    path.write_text(schema.to_toml())
    assert any("schema_hash" in line for line in found(run))
    alter_manifest(run, lambda m: m.update(schema_hash=schema.fingerprint))
    assert any(named in line for line in found(run, customers=False))


def test_no_schema(run: Path) -> None:
    (run / "schema.toml").write_text("feature = 3")
    assert any(line.startswith("schema: schema.toml: ") for line in found(run))


# ------------------------------------------------------------------------------ manifest


def alter_manifest(run: Path, change: Callable[[Manifest], Any]) -> None:
    path = run / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def shard_facts(manifest: Manifest) -> Manifest:
    return manifest["shards"]["counterfactuals/shard-00000.parquet"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda m: m["counts"].update(optimal=0), "counts: manifest.json: counts"),
        (lambda m: m["counts"].pop("optimal"), "counts: manifest.json: counts"),
        (lambda m: shard_facts(m).update(rows=1), "shard-00000.parquet: rows: stored 1"),
        (lambda m: shard_facts(m).update(customers=1), "shard-00000.parquet: customers: stored 1"),
        (lambda m: shard_facts(m)["counts"].update(error=3), "shard-00000.parquet: counts"),
        (lambda m: shard_facts(m).update(sha256="0" * 64), "digest: counterfactuals/shard-00000.parquet"),
        (lambda m: m["plan"].update(rows=25), "rows of all shards"),
        (lambda m: m["plan"].update(denied=1), "plan.denied"),
        (lambda m: m["plan"].update(invalid=7), "plan.invalid"),
        (lambda m: m["plan"].update(bits=9), "is missing"),
        (lambda m: m.update(data_hash="0" * 16), "data_hash"),
        (lambda m: m.update(config_hash="0" * 64), "config_hash"),
        (lambda m: m["config"]["method"].pop(), "config_hash"),
        (lambda m: m["config"]["solver"].update(time_limit=1.0), "config_hash"),
        (lambda m: m.update(state="running"), "state"),
        (lambda m: m.update(seed=5), "seed"),
        (lambda m: m["seeds"].update({"same-data": [1, 2, 3]}), "seeds"),
        (lambda m: m["shards"].pop("validation/shard-00000.parquet"), "is not listed"),
        (lambda m: m.update(methods=1), "methods"),
        (lambda m: m.update(config={}), "manifest: manifest.json: "),
        (lambda m: m["config"].update(method=[{"name": "oracle"}]), "config.method"),
        (lambda m: m["config"].pop("solver"), "config is not a config"),
        (lambda m: m["config"]["model"].update(favourable=7), "favourable"),
    ],
)
def test_the_manifest(run: Path, change: Callable[[Manifest], Any], named: str) -> None:
    alter_manifest(run, change)
    said = found(run)
    assert any(named in line for line in said), said


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["shards"].update({"../../secret": {"sha256": ""}}),
        lambda m: m["shards"].update({"counterfactuals/../../x.parquet": {"sha256": ""}}),
        lambda m: m["plan"].update(pieces=["../../secret"]),
        lambda m: m["plan"].update(bits=10**9),
        lambda m: m.update(kind="feast"),
        lambda m: m.update(shards=[]),
    ],
)
def test_a_manifest_that_is_none_is_exit_code_2(run: Path, change: Callable[[Manifest], Any]) -> None:
    alter_manifest(run, change)
    with pytest.raises(BadInput, match=r"manifest\.json"):
        verify_run(str(run))


# ------------------------------------------------------------------------------ rows


def alter_rows(run: Path, change: Callable[[Rows], Any], folder: str = "counterfactuals") -> dict[str, Any]:
    """Alter rows and make the manifest agree: digest, size, rows, counts. The row that was altered."""
    counts: Counter[str] = Counter()
    altered: dict[str, Any] | None = None
    for shard in shards(run):
        path = run / folder / shard.name
        table = pq.read_table(path)
        rows = table.to_pylist()
        if altered is None and any(row.get("status", "optimal") == "optimal" for row in rows):
            altered = change(rows)
        pq.write_table(pa.Table.from_pylist(rows, table.schema), path, compression="zstd")
        content = path.read_bytes()
        facts = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "rows": len(rows)}
        if folder == "counterfactuals":
            own = Counter(row["status"] for row in rows)
            counts.update(own)
            facts["counts"] = dict(own)
            facts["customers"] = len({row["instance_id"] for row in rows})
        alter_manifest(run, lambda m, n=f"{folder}/{shard.name}", f=facts: m["shards"][n].update(f))
    if folder == "counterfactuals":
        alter_manifest(run, lambda m: m.update(counts=dict(counts)))
    assert altered is not None
    return altered


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


# ------------------------------------------------------------------------------ validation, keys, summary


def flipped(rows: Rows) -> dict[str, Any]:
    rows[0]["valid"] = [not v for v in rows[0]["valid"]]
    return rows[0]


def dropped(rows: Rows) -> dict[str, Any]:
    return rows.pop(0)


def twice(rows: Rows) -> dict[str, Any]:
    rows.append(rows[0])
    return rows[0]


def shorter(rows: Rows) -> dict[str, Any]:
    rows[0]["valid"] = rows[0]["valid"][:-1]
    return rows[0]


def other_seeds(rows: Rows) -> dict[str, Any]:
    rows[0]["seeds"] = [1, 2, 3]
    return rows[0]


def other_scenario(rows: Rows) -> dict[str, Any]:
    rows[0]["scenario"] = "bootstrap"
    return rows[0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (flipped, "validity: stored"),
        (dropped, "is missing"),
        (twice, "too often"),
        (shorter, "does not have 3 entries"),
        (other_seeds, "seeds are not those"),
        (other_scenario, "is not one of the run's"),
    ],
)
def test_the_validation(run: Path, change: Callable[[Rows], Any], named: str) -> None:
    alter_rows(run, change, "validation")
    said = found(run)
    assert any(named in line for line in said), said


@pytest.mark.parametrize(
    "column", ["n", "n_optimal", "n_no_recourse", "n_reached", "validity", "distance", "changed"]
)
def test_the_summary(run: Path, column: str) -> None:
    path = run / "summary/summary.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    row = next(r for r in rows if r[column])
    row[column] += 1
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    said = found(run)
    assert any(
        f"summary/summary.parquet: customers {row['method']}" in s and f" {column}: stored" in s for s in said
    )
    assert any("summary/summary.csv: line" in line for line in said)


def test_a_summary_line_too_few_or_too_many(run: Path) -> None:
    path = run / "summary/summary.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(1), table.slice(1, 1)]), path)
    said = found(run)
    assert any("the line is missing" in line for line in said), said
    assert any("a line too many" in line for line in said)


def test_the_csv_beside_the_summary(run: Path) -> None:
    path = run / "summary/status.csv"
    path.write_text(path.read_text().replace("optimal", "perfect", 1))
    assert any(line.startswith("csv: summary/status.csv: line") for line in found(run))


def test_the_keys(run: Path) -> None:
    path = run / "keys/shard-00000.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[0]["row"] = bytes(16)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    assert f"customers: {rows[0]['instance_id']}: keys/ holds the digest of another row" in found(run)
    pq.write_table(table.slice(1), path)
    assert "counts: keys/shard-00000.parquet: its customers are not the shard's" in found(run)


# ------------------------------------------------------------------------------ the customers' own rows


def with_other_customers(
    audit: Path, run: Path, tmp_path: Path, change: Callable[[pd.DataFrame], Any]
) -> None:
    """The run beside another customer table, its size in the manifest made to fit."""
    frame = pd.read_parquet(audit / "customers.parquet")
    change(frame)
    path = tmp_path / "customers.parquet"
    frame.to_parquet(path, row_group_size=40)

    def point_there(manifest: Manifest) -> None:
        manifest["config"]["customers"]["data"] = str(path)
        manifest["inputs"] = [[str(path), path.stat().st_size, "0"]]

    alter_manifest(run, point_there)


def test_customers_who_are_not_those_of_the_run(audit: Path, run: Path, tmp_path: Path) -> None:
    rows = pd.read_parquet(run / "counterfactuals").set_index("instance_id")
    denied = rows.index[rows["status"] == "optimal"][0]
    favoured = rows.index[rows["status"] == "already_favourable"][0]

    def change(frame: pd.DataFrame) -> None:
        place = frame.set_index("customer").index
        a, b = place.get_loc(denied), place.get_loc(favoured)
        columns = frame.columns[1:]
        frame.loc[a, columns], frame.loc[b, columns] = frame.loc[b, columns], frame.loc[a, columns]
        frame.loc[0 if 0 not in (a, b) else 2, "customer"] = "stranger"

    with_other_customers(audit, run, tmp_path, change)
    said = found(run)
    assert f"customers: {denied}: should be already_favourable, by the customer's own row" in said
    assert f"customers: {favoured}: should be turned down, by the customer's own row" in said
    assert f"customers: {denied}: starts from another row than the customer's own" in said
    assert "customers: stranger: a customer of the table is not in the run" in said
    assert any("data_hash" in line for line in said)


def test_a_customer_table_that_is_gone_or_grown_is_said(audit: Path, run: Path, tmp_path: Path) -> None:
    alter_manifest(run, lambda m: m["inputs"][0].__setitem__(1, 5))
    assert "the table is not as large as it was" in verify_run(str(run)).notes[0]
    alter_manifest(run, lambda m: m["config"]["customers"].update(data=str(tmp_path / "gone.parquet")))
    assert "is there" in verify_run(str(run)).notes[0]
    alter_manifest(run, lambda m: m["config"]["customers"].update(data="s3://elsewhere/x.parquet"))
    assert "remote" in verify_run(str(run)).notes[0]
