"""Files and addresses of anyone's: nothing leaves the run folder, no secret is told, nothing is unpickled."""

from __future__ import annotations

import ast
import io
import json
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobworld import ROOT, customers, make_audit, make_forest, write_config
from robustcf_jobs.cli import main
from robustcf_jobs.inputs.config import AuditConfig, config_as_json, read_config
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.inputs.secrets import scrubbed, without_secrets
from robustcf_jobs.inputs.uri import open_filesystem, parent_of
from robustcf_jobs.run.folder import RunFolder, require_run
from robustcf_jobs.run.reader import read_shard

import robustcf as rc
from robustcf.datasets import DatasetError, fetch, load

SECRET = "hUsh/hUsh+99"


# ------------------------------------------------------------------------------ paths


OUTSIDE = ["../out", "a/../../out", "/etc/passwd", "a//../../out", "..", "a/..", "./../x", "a\x00b", "..\\x"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leaves_the_run_folder_is_refused(tmp_path: Path, name: str) -> None:
    run = RunFolder(str(tmp_path / "run"))
    for act in (run.path, run.exists, run.read, run.names, run.remove, lambda n: run.publish(n, b"x")):
        with pytest.raises(BadInput, match="points outside the run folder"):
            act(name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_the_run_that_is_a_link_to_elsewhere_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/precious.part").write_text("mine")
    (tmp_path / "run").mkdir()
    for name in ("counterfactuals", "_work"):
        (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere")
    run = RunFolder(str(tmp_path / "run"))
    with pytest.raises(BadInput, match="a link out of the run folder"):
        run.publish("counterfactuals/a.parquet", b"x")
    with pytest.raises(BadInput, match="a link out of the run folder"):
        run.remove("_work")
    run.sweep_up()
    assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == ["precious.part"]


def test_a_file_that_is_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/manifest.json").symlink_to(tmp_path / "precious")
    RunFolder(str(tmp_path / "run")).publish("manifest.json", b"{}")
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "run/manifest.json").is_symlink()


def test_a_run_folder_behind_a_link_is_as_good_as_any(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    RunFolder(str(tmp_path / "link")).publish("a/b", b"x")
    assert (tmp_path / "real/a/b").read_bytes() == b"x"


@pytest.mark.parametrize("entry", ["../../evil.npy", "/tmp/evil.npy", "sub/left.npy", "left.npy/../../evil"])
def test_a_forest_archive_with_a_path_in_it_is_refused_and_not_unpacked(tmp_path: Path, entry: str) -> None:
    make_forest(tmp_path / "forest")
    packed = io.BytesIO()
    with zipfile.ZipFile(tmp_path / "forest/trees.npz") as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():
            new.writestr(entry if name == "left.npy" else name, old.read(name))
    (tmp_path / "forest/trees.npz").write_bytes(packed.getvalue())
    with pytest.raises(rc.ForestError, match="does not hold the arrays"):
        rc.load_forest(tmp_path / "forest")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["forest", "forest.json", "trees.npz"]


@pytest.mark.parametrize("name", [*OUTSIDE, "german-credit/../../x", "~/x"])
def test_a_data_set_is_a_known_name_and_never_a_path(tmp_path: Path, name: str) -> None:
    for act in (lambda: load(name), lambda: load(name, tmp_path), lambda: fetch(name, cache=tmp_path)):
        with pytest.raises(DatasetError):
            act()
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------ secrets


ADDRESSES = [
    f"s3://AKIA:{SECRET}@bucket/run",
    f"s3://AKIA:a?{SECRET}@bucket/run",
    f"s3://AKIA:a#{SECRET}@bucket/run",
    f"s3://bucket/run?region=eu&secret_key={SECRET}",
    f"s3://bucket/run?endpoint_override=no host&secret_key={SECRET}",
    f"gopher://me:{SECRET}@host/run",
    f"gopher://host/run?x-amz-security-token={SECRET}",
    f"abfs://container:{SECRET}@account.dfs.core.windows.net/run?sig={SECRET}",
    f"gs://me:{SECRET}@bucket/run?password={SECRET}",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_secret_in_what_is_shown_stored_or_complained_about(address: str) -> None:
    shown = [without_secrets(address), scrubbed(f"cannot open {address!r} today"), RunFolder(address).shown]
    try:
        open_filesystem(address)
    except BadInput as error:
        shown += [error.format_message(), str(error), error.message]
    for text in shown:
        assert "hUsh" not in text


@given(user=st.text("abc:/?#&=", max_size=6), secret=st.text("xyz:/?#&=+%", min_size=1, max_size=8))
def test_no_part_of_any_password_survives(user: str, secret: str) -> None:
    marked = f"Q{secret}Q"
    for address in (f"s3://{user}:{marked}@bucket/run?region=eu", f"abfs://c:{marked}@account/run"):
        assert "Q" not in without_secrets(address)
        assert without_secrets(address).endswith(("bucket/run?region=eu", "account/run"))


def test_what_is_no_secret_stays() -> None:
    for address in ("s3://bucket/a@b/run?region=eu", "/a:b@c", "abfs://container@account/run", "gs://b/x"):
        assert without_secrets(address) == address
        assert scrubbed(f"see {address} there") == f"see {address} there"
    assert parent_of(f"s3://k:{SECRET}@b/in/f?region=eu") == (f"s3://k:{SECRET}@b/in?region=eu", "f")


def test_the_manifest_s_config_has_no_secret(tmp_path: Path) -> None:
    config = read_config(AuditConfig, secret_config(tmp_path))
    assert "hUsh" in repr(config)
    assert "hUsh" not in json.dumps(config_as_json(config))


def secret_config(folder: Path) -> Path:
    path = make_audit(folder, customers(3))
    address = f"gopher://me:{SECRET}@host"
    document = {
        "output": f"{address}/run",
        "previous": f"{address}/old",
        "model": {"forest": f"{address}/forest", "schema": f"{address}/schema.toml", "favourable": 1},
        "customers": {"data": f"{address}/customers.parquet"},
        "training": {"data": f"{address}/t.parquet", "label": "repaid", "later": f"{address}/l.parquet"},
        "method": [{"name": "naive"}],
    }
    return write_config(path, document)


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit", "{config}"),
        ("verify", "{uri}"),
        ("export", "{uri}", "--output", "{uri}.csv"),
        ("export", "{uri}", "--output", "{uri}.txt"),
        ("reduce", "{uri}"),
        ("report", "{uri}"),
        ("validate", "{uri}", "--forest", "{uri}", "--schema", "{uri}", "--target", "1", "--output", "{uri}"),
    ],
    ids=lambda a: a[0],
)
def test_no_command_prints_a_secret(
    tmp_path: Path, arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    words = {"config": str(secret_config(tmp_path)), "uri": f"gopher://me:{SECRET}@host/run"}
    with pytest.raises(SystemExit) as end:
        main([a.format(**words) for a in arguments])
    out, err = capfd.readouterr()
    assert end.value.code == 2
    assert "gopher://host/run" in err
    assert "hUsh" not in out + err


@pytest.mark.parametrize(
    "base", [f"https://me:{SECRET}@mirror.invalid/x", f"ftp://me:{SECRET}@mirror.invalid/x?token={SECRET}"]
)
def test_a_mirror_s_password_is_not_told(tmp_path: Path, base: str) -> None:
    with pytest.raises(DatasetError) as caught:
        fetch("german-credit", base, tmp_path)
    assert "mirror.invalid" in str(caught.value)
    assert "hUsh" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def s3() -> Iterator[str]:
    """A bucket on a real S3-compatible server, opened with credentials in the address."""
    from moto.server import ThreadedMotoServer
    from pyarrow import fs

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        place = {"scheme": "http", "endpoint_override": f"127.0.0.1:{port}", "region": "us-east-1"}
        who = {"access_key": "AKIA", "secret_key": "hUshhUsh"}
        fs.S3FileSystem(allow_bucket_creation=True, **who, **place).create_dir("nightly")
        query = "&".join(f"{k}={v}" for k, v in place.items())
        yield f"s3://AKIA:hUshhUsh@nightly/run?{query}"
    finally:
        server.stop()


def test_a_run_on_object_storage_is_verified_exported_and_holds_no_secret(
    local_ray: Any, tmp_path: Path, s3: str
) -> None:
    from robustcf_jobs.audit.audit import audit
    from robustcf_jobs.export.export import ExportOptions, export_run
    from robustcf_jobs.verify.run import verify_run

    frame = customers(12)
    path = make_audit(
        tmp_path, frame, output=s3, method=[{"name": "naive"}], training=None, shard={"rows": 12}
    )
    assert audit(read_config(AuditConfig, path)) == 0
    done = verify_run(s3)
    assert done.findings.total == 0
    assert (done.rows, done.customers) == (12, 12)
    folder, _ = parent_of(s3)
    wide = folder.replace("nightly", "nightly/wide.csv")
    assert export_run(s3, ExportOptions(wide)) == 12
    filesystem, root = open_filesystem(s3)
    from pyarrow import fs

    files = [i for i in filesystem.get_file_info(fs.FileSelector("nightly", recursive=True)) if i.is_file]
    assert {i.base_name for i in files} >= {"manifest.json", "wide.csv", "summary.csv"}
    for info in files:
        with filesystem.open_input_stream(info.path) as stream:
            assert b"hUsh" not in stream.read()
    assert root == "nightly/run"


# ------------------------------------------------------------------------------ pickles


class Trap:
    """Would make a file, if anyone unpickled it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_a_run_folder_springs_no_trap(tmp_path: Path) -> None:
    """Pickles where readers might look: an array, a Parquet file's own type, an archive, a manifest."""
    sprung = tmp_path / "sprung"
    trap = pickle.dumps(Trap(sprung))
    run = tmp_path / "run"
    make_forest(run / "forest")
    arrays = io.BytesIO()
    np.savez(arrays, left=np.array([Trap(sprung)], dtype=object), allow_pickle=True)
    extension = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": trap}
    typed = pa.schema([pa.field("instance_id", pa.string(), metadata=extension)])
    table = io.BytesIO()
    pq.write_table(pa.table({"instance_id": ["a"]}, schema=typed), table)
    files = {
        "manifest.json": trap,
        "schema.toml": trap,
        "forest/trees.npz": arrays.getvalue(),
        "counterfactuals/shard-00000.parquet": table.getvalue(),
        "validation/shard-00000.parquet": trap,
        "keys/shard-00000.parquet": table.getvalue(),
    }
    for name, content in files.items():
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(content)
    with pytest.raises(BadInput):
        require_run(str(run))
    with pytest.raises(rc.ForestError):
        rc.load_forest(run / "forest")
    with pytest.raises(rc.SchemaError):
        rc.Schema.from_toml(run / "schema.toml")
    pd.read_parquet(run / "counterfactuals")
    read_shard(RunFolder(str(run)), "keys", "shard-00000.parquet").to_pandas()
    assert not sprung.exists()
    pickle.loads(trap)
    assert sprung.exists()  # the trap does work


UNPICKLING = {
    ("pickle", "load"), ("pickle", "loads"), ("joblib", "load"), ("pd", "read_pickle"), ("dill", "load"),
    ("cloudpickle", "load"), ("cloudpickle", "loads"), ("marshal", "loads"), ("shelve", "open"),
}  # fmt: skip


def test_only_the_loader_behind_the_flag_unpickles() -> None:
    """Every call in the two packages: an unpickling one stands in a module that asks for the flag."""
    for path in [*(ROOT / "robustcf").rglob("*.py"), *(ROOT / "jobs").rglob("*.py")]:
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            assert not any(k.arg == "allow_pickle" and getattr(k.value, "value", True) for k in node.keywords)
            call = node.func
            if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name):
                unpickles = (call.value.id, call.attr) in UNPICKLING
                assert not unpickles or "trust_pickle" in text or "trusted" in text, f"{path}:{node.lineno}"
