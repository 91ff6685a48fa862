"""The run folder: whole files or none, on a disk and on an S3-compatible server."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from robustcf_jobs.audit.audit import audit
from robustcf_jobs.inputs.config import AuditConfig, read_config
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.reduce.reduce import write_summary_table
from robustcf_jobs.run.folder import RunFolder, require_run
from robustcf_jobs.run.manifest import Journal

from tests.helpers.jobworld import customers, make_audit, run_audit, same_rows


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(str(tmp_path / "run"))
    run.publish("a/b.txt", b"one")
    assert run.publish("a/b.txt", b"two!").size == 4
    assert run.read("a/b.txt") == b"two!"

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        run.publish("a/b.txt", b"three")
    assert run.read("a/b.txt") == b"two!"
    assert [path.name for path in (tmp_path / "run/a").iterdir()] == ["b.txt"]


def test_what_a_killed_writer_left_is_neither_seen_nor_kept(tmp_path: Path) -> None:
    run = RunFolder(str(tmp_path))
    run.publish("counterfactuals/a.parquet", b"x")
    (tmp_path / "counterfactuals/.b.parquet.0123.part").write_bytes(b"half")
    assert run.names("counterfactuals") == {"counterfactuals/a.parquet": 1}
    run.sweep_up()
    assert not list(tmp_path.glob("**/*.part"))
    assert run.names("nowhere") == {}


def test_a_worker_killed_while_it_wrote_leaves_nothing_in_a_complete_run(tmp_path: Path) -> None:
    """Found by a killed worker with seed 2: its shard was made again elsewhere, its half file stayed."""
    run = RunFolder(str(tmp_path))
    journal = Journal(run, {"shards": {}, "state": "running"})
    run.publish("counterfactuals/a.parquet", b"x")
    (tmp_path / "counterfactuals/.a.parquet.0123.part").write_bytes(b"half")
    journal.finish()
    assert sorted(path.name for path in tmp_path.glob("**/*") if path.is_file()) == [
        "a.parquet",
        "manifest.json",
    ]


def test_only_run_folders_are_run_folders(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no manifest\.json"):
        require_run(str(tmp_path))
    (tmp_path / "manifest.json").write_text("[1")
    with pytest.raises(BadInput, match="not a manifest"):
        require_run(str(tmp_path))
    with pytest.raises(BadInput, match="cannot be opened"):
        require_run("gopher://somewhere/run")


def test_a_spreadsheet_runs_no_formula(tmp_path: Path) -> None:
    table = pa.table({"cohort_value": ["=cmd()", "north", None], "n": [-1, 2, 3]})
    write_summary_table(RunFolder(str(tmp_path)), "x", table)
    assert pd.read_csv(tmp_path / "summary/x.csv")["cohort_value"].tolist()[:2] == ["'=cmd()", "north"]
    assert pd.read_parquet(tmp_path / "summary/x.parquet")["cohort_value"][0] == "=cmd()"


@pytest.fixture
def s3() -> Iterator[str]:
    """A bucket on a real S3-compatible server; its address opens it from any process."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        where = f"?scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1"
        from pyarrow import fs

        system, _ = fs.FileSystem.from_uri(f"s3://test:hush@bucket/{where}&allow_bucket_creation=true")
        system.create_dir("bucket")
        yield where
    finally:
        server.stop()


def test_an_audit_from_s3_to_s3(local_ray: Any, s3: str, tmp_path: Path) -> None:
    frame = customers(60)
    config = make_audit(tmp_path, frame, validation={"forests": 2})
    inputs = RunFolder(f"s3://test:hush@bucket/store/in{s3}")
    inputs.publish("customers/a.parquet", (tmp_path / "customers.parquet").read_bytes())
    for name in ("forest.json", "trees.npz"):
        inputs.publish(f"forest/{name}", (tmp_path / "forest" / name).read_bytes())
    remote: dict[str, Any] = {
        "output": f"s3://test:hush@bucket/store/run{s3}",
        "customers": {
            "data": f"s3://test:hush@bucket/store/in/customers/*.parquet{s3}",
            "id": "customer",
            "cohort": ["sex"],
        },
    }
    away = make_audit(tmp_path / "away", frame, validation={"forests": 2}, **remote)
    assert run_audit(config) == 0
    assert audit(read_config(AuditConfig, away)) == 0
    run = RunFolder(remote["output"])
    for folder in ("counterfactuals", "validation", "keys", "summary"):
        for name in run.names(folder):
            target = tmp_path / "copy" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(run.read(name))
    manifest = run.manifest()
    assert manifest is not None
    assert manifest["state"] == "complete"
    assert "hush" not in str(manifest)
    assert run.names("_work") == {}
    same_rows(tmp_path / "run", tmp_path / "copy")
    assert audit(read_config(AuditConfig, away)) == 0  # again: nothing to do
    assert run.names("counterfactuals").keys() == {
        f"counterfactuals/{path.name}" for path in (tmp_path / "run/counterfactuals").iterdir()
    }
