"""Sorting customers into shards: against a plain filter, and what is kept of it for a resumed run."""

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from robustcf_jobs.audit.ranges import (
    HASH,
    RangeFile,
    as_json,
    bounds,
    from_json,
    merge_range,
    read_range,
    repeated_ids,
    store,
)
from robustcf_jobs.run.folder import RunFolder

from tests.helpers.jobworld import customers, make_audit, run_audit, same_rows, shards


def some_rows(rng: np.random.Generator, n: int) -> pa.Table:
    """Rows with hashes of which many begin alike, and columns of one of three sets of types."""
    hashes = rng.integers(0, 2**64, n, dtype=np.uint64)
    hashes[rng.random(n) < 0.3] >>= np.uint64(rng.integers(1, 60))
    hashes[rng.random(n) < 0.1] = np.uint64(2**64 - 1)
    values = rng.integers(0, 100, n)
    kinds = [pa.array(values), pa.array(values.astype(float)), pa.array(values.astype(str))]
    return pa.table({"id": rng.permutation(n).astype(str), HASH: hashes, "f:x": kinds[rng.integers(3)]})


def plain(tables: list[pa.Table]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("seed", range(12))
def test_each_row_is_in_the_segment_of_its_hash_and_in_no_other(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    run = RunFolder(str(tmp_path))
    tables = [some_rows(rng, int(rng.choice([0, 1, 7, 300]))) for _ in range(int(rng.integers(1, 6)))]
    no_ids = np.zeros(0, dtype=np.uint64)
    files = []
    for k, table in enumerate(tables):
        bits = int(rng.integers(0, 5))
        files.append(store(run, f"_work/rows-{k:05d}-0000.arrow", [table], bits, 0, 2**bits, no_ids))
    bits = int(rng.integers(0, 9))
    range_bits = int(rng.integers(0, bits + 1))
    merged = tuple(merge_range(run, files, k, range_bits, bits) for k in range(2**range_bits))
    assert from_json(as_json(merged)) == merged
    found: Counter[tuple[Any, ...]] = Counter()
    for shard in range(2**bits):
        low, high = bounds(shard, bits)
        own = plain(read_range(run, merged[shard * len(merged) >> bits], low, high))
        assert all(low <= row[1] < high for row in own)
        found += own
    assert found == plain(tables)
    for _ in range(10):  # ranges that no segment has
        low, high = sorted(int(rng.integers(0, 2**63)) * 2 for _ in range(2))
        own = (
            plain([t for file in files for t in read_range(run, file, low, high)])
            if low < high
            else Counter()
        )
        assert own == Counter({row: n for row, n in plain(tables).items() if low <= row[1] < high})


@pytest.mark.parametrize("bits", [0, 1, 3, 8])
def test_repeated_ids_are_found_in_whichever_files_they_are(tmp_path: Path, bits: int) -> None:
    rng = np.random.default_rng(bits)
    run = RunFolder(str(tmp_path))
    ids = rng.integers(0, 2**64, 500, dtype=np.uint64)
    ends = np.array([0, 0, 2**64 - 1, 2**64 - 1], dtype=np.uint64)
    ids = np.concatenate([ids, rng.choice(ids, 40), ends])
    rows = pa.table({HASH: np.zeros(1, dtype=np.uint64)})
    files: list[RangeFile] = []
    for k, part in enumerate(np.array_split(rng.permutation(ids), 4)):
        files.append(store(run, f"_work/rows-{k:05d}-0000.arrow", [rows], 0, 0, 1, part))
    found = [repeated_ids(run, files, k, bits) for k in range(2**bits)]
    expected = sorted(value for value, n in Counter(ids.tolist()).items() if n > 1)
    assert sorted(np.concatenate([hashes for _, hashes in found]).tolist()) == expected
    assert sum(count for count, _ in found) == len(expected)


def test_a_resumed_run_reads_the_merged_files_or_makes_them_again(local_ray: Any, tmp_path: Path) -> None:
    """The mark says where the segments lie. Here it is damaged, then lost."""
    config, run = make_audit(tmp_path, customers(90), training=None), tmp_path / "run"
    assert run_audit(config) == 0
    whole = shutil.copytree(run, tmp_path / "whole")
    shards(run)[1].unlink()
    for content in (b"[]", b"{", None):
        work = run / "_work"
        work.mkdir()
        about = json.loads((run / "manifest.json").read_text())
        for name in about["plan"]["pieces"]:
            (run / name).write_bytes(b"half")
        if content is not None:
            (work / f"checked-{about['data_hash']}").write_bytes(content)
        assert run_audit(config) == 0
        same_rows(whole, run)
        shards(run)[random.Random(0).randrange(4)].unlink()


def test_favourable_customers_get_what_the_explainer_gives_them(local_ray: Any, tmp_path: Path) -> None:
    """They are answered as columns, with hard votes beside soft ones, missing reasons and equal customers."""
    import robustcf as rc

    frame = customers(150)
    frame = pd.concat([frame, frame[:20].assign(customer=[f"twin{i}" for i in range(20)])], ignore_index=True)
    methods = [
        {"name": "naive"},
        {"name": "convex-approximation"},
        {"name": "robust-saa", "alpha": 0.2, "beta": 0.1},
    ]
    assert run_audit(make_audit(tmp_path, frame, training=None, method=methods)) == 0
    found = pd.read_parquet(tmp_path / "run/counterfactuals").set_index(["instance_id", "method"])
    forest = rc.load_forest(tmp_path / "forest")
    schema = rc.Schema.from_toml(tmp_path / "schema.toml")
    own = [rc.Naive(), rc.ConvexApproximation(0.05), rc.RobustSAA(0.2, 0.1)]
    answers = iter(rc.Explainer(forest, schema, own, target=1).explain_many(frame.drop(columns="customer")))
    favourable = 0
    for name in frame["customer"]:
        for _ in own:
            cf = next(answers)
            row = found.loc[(name, cf.method.name)]
            assert row["status"] == cf.status
            if cf.status == "already_favourable":
                favourable += 1
                assert (row["score_before"], row["threshold"]) == (cf.score_before, cf.threshold)
                assert (row["voting"], row["seconds"]) == (cf.method.voting or "soft", 0.0)
                assert (row["target"], row["point"]) == ("1", None)
    assert favourable > 300
