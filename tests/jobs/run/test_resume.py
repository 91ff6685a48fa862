"""What a run goes on with: its own shards, the rows of then, the versions of then; and what it refuses."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from robustcf_jobs.audit.scan import _ids
from robustcf_jobs.inputs.config import Customers
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.inputs.tables import plan_table
from robustcf_jobs.reduce.reduce import reduce_folder
from robustcf_jobs.report.report import report_folder

from robustcf.support.documents import parse_json
from tests.helpers.jobworld import customers, make_audit, make_sweep, run_audit, run_sweep, same_rows, shards

pytestmark = pytest.mark.usefixtures("local_ray")


@pytest.fixture(scope="module")
def finished(local_ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume")
    assert run_audit(make_audit(folder, customers(60), training=None, shard={"rows": 8})) == 0
    return folder


@pytest.fixture
def world(finished: Path, tmp_path: Path) -> Iterator[Path]:
    """The finished audit to do harm to; it is put back afterwards (a config hash holds its path)."""
    shutil.copytree(finished, tmp_path / "kept")
    yield finished
    shutil.rmtree(finished)
    shutil.copytree(tmp_path / "kept", finished)


def manifest(world: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((world / "run/manifest.json").read_text())
    return read


def refused(config: Path, *words: str) -> None:
    with pytest.raises(BadInput) as caught:
        run_audit(config)
    message = caught.value.format_message()
    assert "\n" not in message
    assert all(word in message for word in words), message


def files(run: Path) -> dict[str, bytes]:
    return {str(p.relative_to(run)): p.read_bytes() for p in sorted(run.glob("**/*")) if p.is_file()}


@pytest.mark.parametrize("change", ["income", "sex"])
def test_a_table_swapped_for_one_of_equal_size_and_time_marks_nothing(world: Path, change: str) -> None:
    """It ended in a traceback, with the state already "complete"."""
    table = world / "customers.parquet"
    frame = pd.read_parquet(table)
    frame[change] = frame[change].iloc[::-1].to_numpy()
    assert (frame[change] != pd.read_parquet(table)[change]).any()
    frame.to_parquet(table, row_group_size=40)
    about = manifest(world)  # which knows the file by its size and time: as if those were the same
    about["inputs"] = [list(file) for file in plan_table(str(table), ["income"]).files]
    (world / "run/manifest.json").write_text(json.dumps(about))
    shards(world / "run")[3].unlink()
    before = files(world / "run")
    refused(world / "audit.toml", "the rows have changed since this run began", "choose another output")
    assert files(world / "run") == before


def test_a_rescan_that_was_killed_is_not_trusted(world: Path) -> None:
    """Pieces that nobody has compared with the manifest are read again."""
    whole = shutil.copytree(world / "run", world / "whole")
    shards(world / "run")[3].unlink()
    for name in manifest(world)["plan"]["pieces"]:
        (world / "run" / name).parent.mkdir(exist_ok=True)
        (world / "run" / name).write_bytes(b"half")
    assert run_audit(world / "audit.toml") == 0
    same_rows(whole, world / "run")


def test_a_shard_of_another_cut_or_config_is_made_again(world: Path) -> None:
    """A shard that the manifest does not know was accepted whatever it held."""
    whole = shutil.copytree(world / "run", world / "whole")
    first, second, *_ = shards(world / "run")
    about = manifest(world)
    del about["shards"][f"counterfactuals/{first.name}"]
    (world / "run/manifest.json").write_text(json.dumps(about | {"state": "running"}))
    table = pq.read_table(second)
    note = parse_json(table.schema.metadata[b"robustcf"])
    foreign = table.replace_schema_metadata({b"robustcf": json.dumps(note | {"run": "other"}).encode()})
    pq.write_table(foreign, first, write_page_checksum=True)
    assert run_audit(world / "audit.toml") == 0
    same_rows(whole, world / "run")


def test_files_that_the_manifest_does_not_plan_are_neither_read_nor_removed(world: Path) -> None:
    run = world / "run"
    summary = pd.read_parquet(run / "summary/status.parquet")
    stray = run / "counterfactuals/shard-00077.parquet"
    shutil.copy(shards(run)[0], stray)
    reduce_folder(str(run))
    pd.testing.assert_frame_equal(pd.read_parquet(run / "summary/status.parquet"), summary)
    report_folder(str(run))
    refused(
        world / "audit.toml",
        "holds counterfactuals/shard-00077.parquet, which does not belong to this run; move it away",
    )
    shutil.copy(stray, run / "counterfactuals/shard-00078.parquet")
    refused(
        world / "audit.toml",
        "shard-00077.parquet and 1 more, which do not belong to this run; move them away",
    )
    assert stray.exists()


def test_a_complete_run_that_lacks_a_shard_is_not_summarised(world: Path) -> None:
    shards(world / "run")[2].unlink()
    for command in (reduce_folder, report_folder):
        with pytest.raises(BadInput, match="is missing or not the file that the manifest lists"):
            command(str(world / "run"))


def test_a_report_that_fails_leaves_the_run_incomplete(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards(world / "run")[2].unlink()
    (world / "run/report.html").unlink()
    (world / "run/report.html").mkdir()  # nothing can be published there
    with pytest.raises(OSError, match="report"):
        run_audit(world / "audit.toml")
    assert manifest(world)["state"] == "running"


def test_a_run_of_another_version_is_refused_and_other_packages_are_named(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = manifest(world)
    ours = about["versions"]["robustcf"]
    shards(world / "run")[3].unlink()

    def begun_with(**versions: str) -> None:
        changed = about | {"versions": about["versions"] | versions}
        changed.pop("answer_keys", None)  # the answer keys depend on the versions
        (world / "run/manifest.json").write_text(json.dumps(changed))

    begun_with(robustcf="7.3.1")
    refused(world / "audit.toml", "begun by robustcf 7.3.1 and this is " + ours, "install robustcf 7.3.1")
    begun_with(robustcf=".".join(ours.split(".")[:2]) + ".99", **{"scikit-learn": "1.0"})
    assert run_audit(world / "audit.toml") == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "was begun with" in line]
    assert len(said) == 1
    assert "scikit-learn 1.0" in said[0]
    assert set(manifest(world)["resumed_with"]) == {"robustcf", "scikit-learn"}


def test_a_sweep_of_another_version_is_refused(tmp_path: Path) -> None:
    config = make_sweep(tmp_path, validation={"forests": 1})
    assert run_sweep(config) == 0
    about = manifest(tmp_path)
    (tmp_path / "run/manifest.json").write_text(
        json.dumps(about | {"versions": about["versions"] | {"robustcf": "7.3.1"}})
    )
    with pytest.raises(BadInput, match=r"begun by robustcf 7\.3\.1"):
        run_sweep(config)


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (2.0**53, "float64", "is a float above 2^53"),
        (-(2.0**60), "float64", "is a float above 2^53"),
        (float("inf"), "float64", "is a float above 2^53"),
        (float("nan"), "float64", "is not a number"),
        (2.0**24, "float32", "is a float above 2^24"),
    ],
)
def test_float_ids_that_are_not_exact_are_refused(
    tmp_path: Path, value: float, kind: str, words: str
) -> None:
    """9007199254740993.0 became the id 9.007199254740992e+15, and NaN was taken for one."""
    config = make_audit(tmp_path, customers(30), training=None)
    ids = np.arange(30).astype(kind)
    ids[17] = value
    table = pq.read_table(tmp_path / "customers.parquet")
    table = table.set_column(0, "customer", pa.array(ids, from_pandas=False))
    pq.write_table(table, tmp_path / "customers.parquet", row_group_size=10)
    refused(config, "customers.parquet: row 17: 'customer' is", words, "integers or text")
    assert not (tmp_path / "run").exists()


def test_float_ids_that_are_exact_keep_their_text(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": [1.0, 2.5, 123456.0]}), path)
    (chunk,) = plan_table(str(path), ["id"]).chunks
    found = _ids(pq.read_table(path), Customers(str(path), id="id"), chunk, 0)
    assert found.to_pylist() == ["1", "2.5", "123456"]
