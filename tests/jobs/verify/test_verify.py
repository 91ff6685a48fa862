"""`robustcf verify`: an honest run passes; whatever is altered, alone or with its digest, is named."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from robustcf_jobs.cli import main
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.verify.command import lines
from robustcf_jobs.verify.run import verify_run

import robustcf as rc
from tests.helpers.jobworld import ROOT, make_forest, make_sweep, run_audit, run_sweep, write_config
from tests.helpers.verifyworld import Manifest, alter_manifest, found


def test_an_honest_audit_passes(audited: Path) -> None:
    done = verify_run(str(audited / "run"))
    assert lines(done) == ["not checked: the validation forests' decisions: these forests are not stored"]
    statuses = Counter(pd.read_parquet(audited / "run/counterfactuals")["status"])
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


def test_answers_of_the_night_before_keep_their_method_s_own_voting(audited: Path, tmp_path: Path) -> None:
    """Copied and kept rows of the convex approximation once had the scores of soft votes."""
    config = tomllib.loads((audited / "audit.toml").read_text())
    config = {k: v for k, v in config.items() if k != "training"} | {"previous": str(audited / "run")}
    config["customers"] = config["customers"] | {"data": str(audited / "customers.parquet")}
    make_forest(tmp_path / "other", seed=3, trees=21)
    for forest, keep in ((audited / "forest", False), (tmp_path / "other", True)):
        model = {"forest": str(forest), "schema": str(audited / "schema.toml"), "favourable": 1}
        name = "kept" if keep else "copied"
        path = tmp_path / f"{name}.toml"
        write_config(path, config | {"output": name, "model": model, "keep_valid": keep})
        assert run_audit(path) == 0
        assert found(tmp_path / name) == []
        convex = pd.read_parquet(tmp_path / name / "counterfactuals").query("voting == 'hard'")
        assert (convex["seconds"] == 0).sum() > 5
        everything = pd.read_parquet(tmp_path / name / "counterfactuals")
        assert everything["reason"].str.startswith("kept").any() == keep


@pytest.mark.parametrize("second", [False, True], ids=["files", "second opinion"])
def test_the_code_that_solves_is_never_loaded(audited: Path, second: bool) -> None:
    """Not even to solve again: HiGHS is asked by code of the auditor's own."""
    own = ["--config", str(audited / "audit.toml"), "--resolve", "3", "--seed", "1", "--attack"]
    program = (
        "import sys\nfrom robustcf_jobs.cli import main\n"
        "try:\n    main(['verify', *sys.argv[1:]])\n"
        "except SystemExit as end:\n    code = end.code\n"
        "print(code, *sorted(m for m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(audited / "run"), *(own if second else [])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    code, *modules = done.stdout.splitlines()[-1].split()
    assert code == "0"
    solving = ("robustcf.solve", "robustcf.problem", "robustcf.explain", "robustcf.methods.family")
    working = ("robustcf_jobs.run.rows", "robustcf_jobs.audit.shard", "ray")
    for name in (*solving, *working, "robustcf.schema.check"):
        assert name not in modules
    assert ("highspy" in modules) == second
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
        (lambda m: m["config"].pop("solver"), "config is not a valid config"),
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
