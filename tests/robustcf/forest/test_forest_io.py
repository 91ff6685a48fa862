"""Forests on disk: whole or refused, whoever wrote the files."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier

from robustcf import Forest, ForestError, load_forest, save_forest
from robustcf.forest.files import forest_files
from tests.helpers.worlds import make_worlds

LABELS = [["no", "yes"], [0, 1], [False, True], [1.0, 2.0], [-3, 0, 8]]


def small_forest(labels: list[Any] | None = None) -> Forest:
    rng = np.random.default_rng(0)
    X = rng.random((60, 3))
    names = np.array(labels or ["no", "yes"])
    y = names[np.searchsorted(np.linspace(0, 1, len(names) + 1)[1:-1], X[:, 0])]
    return Forest.from_sklearn(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y))


@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_a_forest_comes_back_the_same(tmp_path: Path, labels: list[Any]) -> None:
    forest = small_forest(labels)
    save_forest(forest, tmp_path / "new" / "folder")
    again = load_forest(tmp_path / "new" / "folder")
    X = np.random.default_rng(1).random((200, 3))
    assert again == forest
    assert (
        [type(c) for c in again.classes]
        == [type(c) for c in forest.classes]
        == [type(labels[0])] * len(labels)
    )
    assert again.estimator == forest.estimator
    assert np.array_equal(again.judge.predict_proba(X), forest.judge.predict_proba(X))
    assert np.array_equal(again.judge.predict(X), forest.judge.predict(X))


@pytest.mark.parametrize("seed", range(40))
def test_random_forests_come_back_the_same(tmp_path: Path, seed: int) -> None:
    forest = make_worlds(seed)[0].forest
    save_forest(forest, tmp_path)
    assert load_forest(tmp_path) == forest


def test_a_bagging_keeps_the_tree_it_can_be_retrained_from(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((40, 3))
    from sklearn.tree import DecisionTreeClassifier

    model = BaggingClassifier(DecisionTreeClassifier(max_depth=2), 3, random_state=0).fit(X, X[:, 0] > 0.5)
    save_forest(Forest.from_sklearn(model), tmp_path)
    estimator = load_forest(tmp_path).estimator
    assert estimator["class"] == "BaggingClassifier"
    assert estimator["parameters"]["estimator"]["parameters"]["max_depth"] == 2


def test_the_same_forest_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_forest(small_forest(), tmp_path / name)
    for file in ("forest.json", "trees.npz"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_plain_numpy_reads_the_arrays(tmp_path: Path) -> None:
    forest = small_forest()
    save_forest(forest, tmp_path)
    with np.load(tmp_path / "trees.npz", allow_pickle=False) as arrays:
        assert np.array_equal(arrays["threshold"], forest.threshold)


# --------------------------------------------------------------------------------- broken


def refused(folder: Path) -> str:
    with pytest.raises(ForestError) as caught:
        load_forest(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_forest(small_forest(), tmp_path)
    return tmp_path


def arrays_of(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "trees.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def rewrite(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    np.savez_compressed(folder / "trees.npz", **arrays)  # type: ignore[arg-type]


@pytest.mark.parametrize("file", ["forest.json", "trees.npz"])
def test_missing_file(saved: Path, file: str) -> None:
    (saved / file).unlink()
    assert file in refused(saved)


@pytest.mark.parametrize("file", ["forest.json", "trees.npz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.99])
def test_truncated_file(saved: Path, file: str, share: float) -> None:
    content = (saved / file).read_bytes()
    (saved / file).write_bytes(content[: int(share * len(content))])
    refused(saved)


@settings(max_examples=150, deadline=None)
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), data=st.data())
def test_one_flipped_bit_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, where: float, bit: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("forest")
    forest = small_forest()
    save_forest(forest, folder)
    path = folder / data.draw(st.sampled_from(["forest.json", "trees.npz"]))
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1 << bit
    path.write_bytes(content)
    try:
        again = load_forest(folder)
    except ForestError as error:
        assert "\n" not in str(error)  # noqa: PT017 (most bits are refused, some are harmless)
    else:  # a byte that says nothing about the forest: a time stamp, a parameter
        assert again == forest


def cyclic(arrays: dict[str, np.ndarray]) -> None:
    arrays["left"][0] = 0


def outside(arrays: dict[str, np.ndarray]) -> None:
    arrays["right"][0] = len(arrays["right"]) + 5


def into_the_next_tree(arrays: dict[str, np.ndarray]) -> None:
    arrays["right"][0] = arrays["tree_start"][1]


def two_parents(arrays: dict[str, np.ndarray]) -> None:
    arrays["right"][0] = arrays["left"][0]


def nan_threshold(arrays: dict[str, np.ndarray]) -> None:
    arrays["threshold"][0] = np.nan


def unknown_column(arrays: dict[str, np.ndarray]) -> None:
    arrays["feature"][0] = 99


def negative_fraction(arrays: dict[str, np.ndarray]) -> None:
    arrays["probabilities"][arrays["left"] < 0] = [-1.0, 2.0]


def fractions_beyond_one(arrays: dict[str, np.ndarray]) -> None:
    arrays["probabilities"][arrays["left"] < 0] = [1.0, 1.0]


def no_trees(arrays: dict[str, np.ndarray]) -> None:
    for name in arrays:
        arrays[name] = arrays[name][:0]


def wrong_dtype(arrays: dict[str, np.ndarray]) -> None:
    arrays["threshold"] = arrays["threshold"].astype(np.float32)


def wrong_shape(arrays: dict[str, np.ndarray]) -> None:
    arrays["left"] = arrays["left"][:, None]


def short(arrays: dict[str, np.ndarray]) -> None:
    arrays["feature"] = arrays["feature"][:-1]


def scalar(arrays: dict[str, np.ndarray]) -> None:
    arrays["feature"] = np.int32(3)  # type: ignore[assignment]


def objects(arrays: dict[str, np.ndarray]) -> None:
    arrays["left"] = arrays["left"].astype(object)


def missing_array(arrays: dict[str, np.ndarray]) -> None:
    del arrays["left"]


def extra_array(arrays: dict[str, np.ndarray]) -> None:
    arrays["more"] = np.zeros(3)


def altered(arrays: dict[str, np.ndarray]) -> None:
    arrays["threshold"][0] += 0.25


@pytest.mark.parametrize(
    "harm",
    [
        cyclic, outside, into_the_next_tree, two_parents, nan_threshold, unknown_column, negative_fraction,
        fractions_beyond_one, no_trees, wrong_dtype, wrong_shape, short, scalar, objects, missing_array,
        extra_array, altered,
    ],
)  # fmt: skip
def test_harmed_arrays(saved: Path, harm: Any) -> None:
    arrays = arrays_of(saved)
    harm(arrays)
    rewrite(saved, arrays)
    assert str(saved) in refused(saved)


class Trap:
    """Would write a file, if anyone unpickled it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_nothing_is_unpickled(saved: Path) -> None:
    arrays = arrays_of(saved)
    arrays["left"] = np.array([Trap(saved / "sprung")] * len(arrays["left"]), dtype=object)
    rewrite(saved, arrays)
    refused(saved)
    assert not (saved / "sprung").exists()


def test_an_absurd_size_is_refused_before_it_is_allocated(saved: Path) -> None:
    """A header that claims 10^15 nodes over a few bytes."""
    packed = io.BytesIO()
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    with zipfile.ZipFile(saved / "trees.npz") as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():
            new.writestr(name, header.getvalue() + b"0" * 64 if name == "threshold.npy" else old.read(name))
    (saved / "trees.npz").write_bytes(packed.getvalue())
    assert "length" in refused(saved)


def test_a_bomb_is_refused_before_it_is_unpacked(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 32 KB that unpacks to 32 MB; and one that is larger than any."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(saved / "trees.npz") as old,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, b"0" * 2**25 if name == "threshold.npy" else old.read(name))
    intact = (saved / "trees.npz").read_bytes()
    (saved / "trees.npz").write_bytes(packed.getvalue())
    assert len(packed.getvalue()) < 50_000
    monkeypatch.setattr("robustcf.forest.files._read_array", None)  # nothing is unpacked
    assert "unpacks to 3355" in refused(saved)
    (saved / "trees.npz").write_bytes(intact)
    monkeypatch.setattr("robustcf.forest.files.MOST_BYTES", 1000)
    assert "unpacks to" in refused(saved)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"format": None},
        {"n_features": 0},
        {"n_features": 2},
        {"n_features": True},
        {"n_features": "3"},
        {"n_features": 10**30},
        {"classes": []},
        {"classes": [["str", "no"]]},
        {"classes": [["str", "no"], ["str", "no"]]},
        {"classes": [["int", "no"], ["str", "yes"]]},
        {"classes": [["object", "no"], ["str", "yes"]]},
        {"classes": ["no", "yes"]},
        {"classes": [["str", "yes"], ["str", "no"]]},
        {"accepts_missing": "yes"},
        {"accepts_missing": False},
        {"estimator": []},
        {"fingerprint": "0" * 64},
        {"unknown": 1},
    ],
    ids=str,
)
def test_harmed_head(saved: Path, change: dict[str, Any]) -> None:
    path = saved / "forest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(saved)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "\x00", "[" * 100_000])
def test_no_json(saved: Path, text: str) -> None:
    (saved / "forest.json").write_text(text)
    assert "forest.json" in refused(saved)


def test_a_folder_in_place_of_a_file(saved: Path) -> None:
    (saved / "trees.npz").unlink()
    (saved / "trees.npz").mkdir()
    refused(saved)


# --------------------------------------------------------------------------------- content, not a path


def test_the_content_of_a_folder_loads_without_a_folder(saved: Path) -> None:
    forest = small_forest()
    files = forest_files(forest)
    assert files == {file.name: file.read_bytes() for file in saved.iterdir()}
    assert list(files)[-1] == "forest.json"  # written last, it marks a folder as complete
    assert load_forest(files) == forest == load_forest(str(saved))


def test_an_error_in_content_has_the_given_name() -> None:
    files = forest_files(small_forest())
    with pytest.raises(ForestError, match=r"^forest/trees\.npz: is missing$"):
        load_forest({"forest.json": files["forest.json"]})
    for file, content in (("forest.json", b"{"), ("trees.npz", files["trees.npz"][:40]), ("trees.npz", b"")):
        with pytest.raises(ForestError, match=rf"^s3://bank/f/{file}: ") as caught:
            load_forest({**files, file: content}, name="s3://bank/f")
        assert "\n" not in str(caught.value)
