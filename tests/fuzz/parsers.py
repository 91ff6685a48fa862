"""Each parser behind one function of bytes: it may refuse them in one line, and do nothing else.

`PARSERS` is fed by hypothesis (`test_parsers.py`), by the coverage-guided fuzzer (`make fuzz`) and by
the inputs that once broke something (`crashes/`).
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from robustcf_jobs.inputs.config import AuditConfig, SweepConfig, config_as_json, config_hash, read_config
from robustcf_jobs.inputs.errors import BadInput
from robustcf_jobs.inputs.tables import plan_table, read_chunk
from robustcf_jobs.run.columns import COUNTERFACTUALS
from robustcf_jobs.run.folder import BROKEN, RunFolder
from robustcf_jobs.run.manifest import whole_note
from robustcf_jobs.run.manifest_shape import counts_are_sound
from sklearn.ensemble import RandomForestClassifier

import robustcf as rc
from robustcf.datasets import DatasetError, read_typed_csv
from robustcf.forest.files import forest_files
from robustcf.schema.encode import encode, read_rows

DATA = rc.datasets.synthetic_credit(60, seed=0)


@contextmanager
def folder_with(**files: bytes) -> Iterator[Path]:
    """A folder with these files; afterwards, nothing else may be in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in files.items():
            (folder / file.replace("__", ".")).write_bytes(content)
        yield folder
        made = {str(path.relative_to(folder)) for path in folder.rglob("*")}
        assert made == {file.replace("__", ".") for file in files}, f"a parser wrote {made}"


def refused(*kinds: type[Exception]) -> Callable[[Callable[[bytes], None]], Callable[[bytes], None]]:
    """The errors that a parser may raise; their text is one clear line."""

    def wrap(parser: Callable[[bytes], None]) -> Callable[[bytes], None]:
        def parse(content: bytes) -> None:
            try:
                parser(content)
                return
            except kinds as refusal:
                text = refusal.format_message() if isinstance(refusal, BadInput) else str(refusal)
            assert text.strip(), "an error without a word"
            assert "\n" not in text or BadInput not in kinds
            assert "Traceback" not in text
            assert len(text) < 2000 + 8 * len(content), "an error longer than what it is about"

        return parse

    return wrap


@refused(BadInput)
def config(content: bytes) -> None:
    with folder_with(a__toml=content) as folder:
        for kind in (AuditConfig, SweepConfig):
            try:
                found = read_config(kind, folder / "a.toml")
            except BadInput:
                continue
            json.dumps(config_as_json(found), allow_nan=False)
            assert len(config_hash(found)) == 64


@refused(rc.SchemaError)
def schema(content: bytes) -> None:
    with folder_with(s__toml=content) as folder:
        found = rc.Schema.from_toml(folder / "s.toml")
        assert len(found.fingerprint) == 64
        assert len(found.columns) == found.column_start[-1]
        (folder / "s.toml").write_text(found.to_toml(), encoding="utf-8")
        assert rc.Schema.from_toml(folder / "s.toml") == found


@refused(DatasetError)
def typed_csv(content: bytes) -> None:
    with folder_with(d__csv=content) as folder:
        data = read_typed_csv(folder / "d.csv")
        X = data.encode(data.X)
        assert X.shape == (len(data), len(data.schema.columns))
        assert np.isfinite(X).all()
        assert ((X >= 0) & (X <= 1)).all()


def _customers(folder: Path, name: str) -> None:
    plan = plan_table(str(folder / name), DATA.schema.names)
    for chunk in plan.chunks:
        for table in read_chunk(chunk, DATA.schema.names):
            frame = table.select(list(DATA.schema.names)).to_pandas()
            read = read_rows(DATA.schema, frame)
            usable = [i for i, reason in enumerate(read.reasons) if reason is None]
            assert len(read.reasons) == len(frame)
            assert np.isfinite(encode(DATA.schema, read.numbers[usable])).all()


@refused(BadInput)
def customers_csv(content: bytes) -> None:
    with folder_with(c__csv=content) as folder:
        _customers(folder, "c.csv")


@refused(BadInput)
def customers_parquet(content: bytes) -> None:
    with folder_with(c__parquet=content) as folder:
        _customers(folder, "c.parquet")


@refused(rc.ForestError)
def forest_head(content: bytes) -> None:
    with folder_with(forest__json=content, trees__npz=_FOREST["trees.npz"]) as folder:
        _judge(rc.load_forest(folder))


@refused(rc.ForestError)
def forest_trees(content: bytes) -> None:
    with folder_with(forest__json=_FOREST["forest.json"], trees__npz=content) as folder:
        _judge(rc.load_forest(folder))


@refused(rc.ForestError)
def forest_arrays(content: bytes) -> None:
    """Bytes spread over the arrays of a real forest, with a fingerprint that fits."""
    arrays = dict(np.load(io.BytesIO(_FOREST["trees.npz"])))
    names = sorted(arrays)
    for at in range(0, len(content) - 10, 11):
        which, where, value = struct.unpack_from("<BHd", content, at)
        array = arrays[names[which % len(names)]].reshape(-1)
        with np.errstate(all="ignore"):
            array[where % len(array)] = np.array(_tame(value, array.dtype)).astype(array.dtype)
    head = json.loads(_FOREST["forest.json"])
    forest = rc.Forest(
        **arrays,
        classes=tuple(label for _, label in head["classes"]),
        n_features=head["n_features"],
        accepts_missing=head["accepts_missing"],
        estimator=head["estimator"],
    )
    _judge(forest)


def _tame(value: float, dtype: np.dtype) -> float:
    if dtype.kind == "f":
        return value
    return 0 if not math.isfinite(value) else max(min(int(value), 2**31 - 1), -(2**31))


def _judge(forest: rc.Forest) -> None:
    X = np.random.default_rng(0).random((4, forest.n_features))
    votes = forest.predict(X, "soft")
    assert ((votes >= 0) & (votes < len(forest.classes))).all()


@refused(BadInput)
def manifest(content: bytes) -> None:
    with folder_with(manifest__json=content) as folder:
        run = RunFolder(str(folder))
        found = run.manifest()
        assert found is not None
        assert all(os.path.normpath(folder / name).startswith(str(folder)) for name in found["shards"])
        run.begun(found["kind"], found["config_hash"])
        run.write_manifest(found)
        assert run.manifest() == found


@refused(*BROKEN)
def shard(content: bytes) -> None:
    """A finished shard that a resume finds: whole with a sound note, or made again."""
    note = whole_note(content)
    assert counts_are_sound(note)


def _forest_files() -> dict[str, bytes]:
    model = RandomForestClassifier(3, max_depth=2, random_state=0)
    forest = rc.Forest.from_sklearn(model.fit(DATA.encode(DATA.X), DATA.y))
    return forest_files(forest)


_FOREST = _forest_files()

AUDIT = b"""output = "run"
seed = 0
[model]
forest = "forest"
schema = "schema.toml"
favourable = 1
[customers]
data = "customers/*.parquet"
id = "customer"
cohort = ["region"]
[[method]]
name = "naive"
[[method]]
name = "direct-saa"
alpha = [0.2, 0.05]
[training]
data = "training.parquet"
label = "repaid"
[validation]
forests = 20
scenarios = ["same-data", "trees-400"]
[solver]
name = "auto"
time_limit = 60.0
threads = 1
[shard]
seconds = 20.0
"""
SWEEP = b"""output = "s3://a:b@bucket/run?region=x"
[sweep]
datasets = ["german-credit"]
simulations = 4
trees = [100, 400]
first_share = 0.8
[[method]]
name = "isolation-forest"
contamination = [0.05, 0.1]
method = {name = "direct-saa", alpha = 0.1}
[[method]]
name = "robust-saa"
alpha = 0.1
beta = 0.05
[validation]
scenarios = ["evolving"]
"""
WHOLE_AUDIT = b"""output = "run"
seed = 7
shared = true
previous = "~/yesterday"
keep_valid = true
[model]
file = "model.skops"
schema = "schema.toml"
favourable = "good"
trust_pickle = false
voting = "hard"
[customers]
data = "s3://bucket/customers/*.csv"
[[method]]
name = "local-outlier-factor"
weight = [0.01, 1]
gap = 0.1
[[method]]
name = "robx"
tau = 0.5
[[method]]
name = "convex-approximation"
alpha = 0.05
[[method]]
name = "robust-saa"
alpha = [0.1, 0.2]
beta = [0.1, 0.05]
[training]
data = "training.csv"
label = "repaid"
later = "later.csv"
[validation]
forests = 1
scenarios = ["evolving", "bootstrap"]
[solver]
name = "highs"
time_limit = 5
memory_limit = 0.5
threads = 2
affinity = true
licence = "gurobi"
[shard]
rows = 100
"""
RULES = b"""max_changes = 3
[[feature]]
name = "income"
kind = "continuous"
low = 0
high = 10000
lower = -5.5
upper = 2e4
step = 10
at_most_up = 500
at_most_up_percent = 20
weight = 0.5
unit = "EUR"
label = "Income"
scaling = "none"
[[feature]]
name = "education"
kind = "discrete"
values = ["school", "bachelor", "master"]
at_most_up = 1
at_most_down = 0
forbidden = [["*", "master"]]
missing = "school"
[[feature]]
name = "housing"
kind = "categorical"
values = ["own", "rent", "family"]
forbidden = [["own", "family"]]
cost_table = [["rent", "own", 2.0], ["*", "family", 0.3]]
codes = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
[[feature]]
name = "age"
kind = "discrete"
action = "increase"
values = [18, 19, 20]
allowed = [19, 20]
transform = [["subtract", 18.0], ["divide", 2.0]]
[[feature]]
name = "married"
kind = "binary"
action = "fixed"
values = [false, true]
[[link]]
when = {feature = "education", moves = "up"}
then = {feature = "age", moves = ["same", "up"]}
"""
TYPED = b"""Age,Job,Own,Sum,Class
D,C,B,N,B
INC,FREE,FIXED,DEC,PREDICT
30,cook,0,1.5,1
40,clerk,1,2e3,0
50,"a, b",1,-0.25,1
"""
MANIFEST = json.dumps(
    {
        "format": 1,
        "kind": "audit",
        "config": {"customers": {"cohort": ["sex"]}},
        "config_hash": "0" * 64,
        "methods": 3,
        "forest_hash": "0" * 64,
        "schema_hash": "0" * 64,
        "seed": 0,
        "versions": {"robustcf": "0.2.0"},
        "inputs": [["customers.parquet", 1, "0"]],
        "survival": [
            {"method": "naive", "alpha": None, "beta": None, "parameter": None, "given": 2, "survived": 1}
        ],
        "state": "running",
        "counts": {"optimal": 3},
        "shards": {"counterfactuals/shard-00000.parquet": {"size": 1, "sha256": "0", "counts": {"error": 1}}},
        "plan": {"rows": 3, "bits": 2, "denied": 1, "invalid": 0, "pieces": ["_work/rows-00000-0000.arrow"]},
    }
).encode()


def _parquet(frame: pd.DataFrame) -> bytes:
    sink = io.BytesIO()
    frame.to_parquet(sink, row_group_size=3)
    return sink.getvalue()


def _shard() -> bytes:
    note = json.dumps({"rows": 0, "counts": {"optimal": 0}}).encode()
    sink = io.BytesIO()
    empty = COUNTERFACTUALS.empty_table().select(["instance_id", "status", "distance", "point"])
    pq.write_table(empty.replace_schema_metadata({b"robustcf": note}), sink, write_page_checksum=True)
    return sink.getvalue()


PARSERS: dict[str, tuple[Callable[[bytes], None], list[bytes]]] = {
    "config": (config, [AUDIT, SWEEP, WHOLE_AUDIT]),
    "schema": (schema, [DATA.schema.to_toml().encode(), RULES]),
    "typed_csv": (typed_csv, [TYPED]),
    "customers_csv": (customers_csv, [DATA.X[:4].to_csv(index=False).encode()]),
    "customers_parquet": (customers_parquet, [_parquet(DATA.X[:6])]),
    "forest_head": (forest_head, [_FOREST["forest.json"]]),
    "forest_trees": (forest_trees, [_FOREST["trees.npz"]]),
    "forest_arrays": (forest_arrays, [struct.pack("<BHd", 1, 2, -1.0), b""]),
    "manifest": (manifest, [MANIFEST]),
    "shard": (shard, [_shard()]),
}
