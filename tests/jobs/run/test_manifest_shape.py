"""Manifests: those of earlier runs are read, a damaged one is one line that names the key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.run.folder import RunFolder
from robustcf_jobs.run.manifest_shape import counts_are_sound
from robustcf_jobs.run.planned import planned_shards

STORED = sorted((Path(__file__).parent / "manifests").glob("*.json"))
SHARD = "counterfactuals/shard-00000.parquet"


def stored(kind: str) -> dict[str, Any]:
    (path,) = [path for path in STORED if path.name.startswith(kind)]
    read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return read


def manifest_in(folder: Path, manifest: dict[str, Any]) -> dict[str, Any] | None:
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return RunFolder(str(folder)).manifest()


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_manifest_that_robustcf_0_2_wrote_is_read_unchanged(path: Path, tmp_path: Path) -> None:
    manifest = json.loads(path.read_text(encoding="utf-8"))
    assert manifest["versions"]["robustcf"] == "0.2.0"
    assert manifest_in(tmp_path, manifest) == manifest
    listed = {name.split("/", 1)[1] for name in manifest["shards"]}
    assert listed == set(planned_shards(manifest))


def test_keys_of_later_versions_are_kept(tmp_path: Path) -> None:
    manifest = stored("audit") | {"colour": [1, {"a": None}]}
    assert manifest_in(tmp_path, manifest) == manifest


def test_a_run_that_has_just_begun_has_no_plan_yet(tmp_path: Path) -> None:
    manifest = stored("audit") | {"state": "running", "shards": {}, "counts": {}}
    for key in ("plan", "data_hash", "report", "survival", "seeds", "detectors", "training_hash"):
        manifest.pop(key, None)
    assert manifest_in(tmp_path, manifest) == manifest


DAMAGED: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda m: m.pop("shards"), "key 'shards' is missing"),
    (lambda m: m.update(shards=[]), "shards must be a table, not []"),
    (lambda m: m.update(kind="feast"), "kind must be 'audit' or 'sweep', not 'feast'"),
    (lambda m: m.update(state="done"), "state must be 'running' or 'complete', not 'done'"),
    (lambda m: m.update(methods=True), "methods must be a whole number, not True"),
    (lambda m: m["counts"].update(optimal=-1), "counts: optimal must be at least 0, not -1"),
    (lambda m: m["shards"][SHARD].pop("sha256"), f"shards: {SHARD}: key 'sha256' is missing"),
    (lambda m: m["shards"][SHARD].update(rows=1.5), f"{SHARD}: rows must be a whole number, not 1.5"),
    (lambda m: m["shards"].update({"../x": {"sha256": ""}}), "shards: ../x: not a file in the run folder"),
    (lambda m: m["plan"].update(bits=21), "plan: bits must be at most 20, not 21"),
    (lambda m: m["plan"].update(pieces=["../x"]), "plan: pieces lists '../x', which is not a valid name"),
    (lambda m: m.update(plan=None), "plan must not be null"),
    (lambda m: m.update(versions=[]), "versions must be a table, not []"),
    (lambda m: m.update(inputs=[["a"]]), "inputs has an entry with too few values"),
    (lambda m: m["survival"][0].pop("given"), "survival: key 'given' is missing"),
    (lambda m: m.pop("schema_hash"), "key 'schema_hash' is missing"),
    (lambda m: m.update(config_hash=["x" * 500]), "config_hash must be text, not ['xxx"),
]


@pytest.mark.parametrize(("change", "words"), DAMAGED, ids=[words for _, words in DAMAGED])
def test_a_damaged_manifest_is_one_line_that_names_the_key(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], words: str
) -> None:
    manifest = stored("audit")
    change(manifest)
    with pytest.raises(BadInput, match=r"manifest\.json is damaged: ") as caught:
        manifest_in(tmp_path, manifest)
    said = caught.value.format_message()
    assert words in said
    assert "\n" not in said
    assert len(said) < 200 + len(str(tmp_path))


def test_a_sweep_needs_its_design_and_its_data_sets(tmp_path: Path) -> None:
    sweep = stored("sweep")
    for changed, words in (
        (sweep | {"config": {}}, "config: key 'sweep' is missing"),
        (
            sweep | {"config": {"sweep": {"trees": 3, "simulations": 1}}},
            "config: sweep: trees must be a list",
        ),
        (sweep | {"data_hash": "0"}, "data_hash must be a table, not '0'"),
    ):
        with pytest.raises(BadInput) as caught:
            manifest_in(tmp_path, changed)
        assert words in caught.value.format_message()


def test_a_forged_sweep_of_too_many_shards_is_refused(tmp_path: Path) -> None:
    """`verify` listed the shards one by one until the memory was full."""
    manifest = stored("sweep")
    manifest["config"]["sweep"]["simulations"] = 10**15
    with pytest.raises(BadInput, match="shards; at most 1,048,576 are allowed"):
        manifest_in(tmp_path, manifest)


def test_a_long_value_is_cut_but_shows_no_part_of_a_secret(tmp_path: Path) -> None:
    address = "s3://AKIA:" + "hUsh" * 30 + "@bucket/run"
    with pytest.raises(BadInput) as caught:
        manifest_in(tmp_path, stored("audit") | {"config_hash": [address]})
    assert "hUsh" not in caught.value.format_message()


def test_the_note_of_a_shard_has_counts() -> None:
    assert counts_are_sound({"rows": 3, "counts": {"optimal": 3}, "run": "x"})
    for note in (None, [], {"rows": -1}, {"rows": None}, {"counts": {"optimal": True}}, {"detectors": 3}):
        assert not counts_are_sound(note)
