"""Store a forest without pickle, in `forest.json` and `trees.npz`.

A folder may come from an untrusted source. Loading therefore requires exactly the types and shapes of a
forest, never unpickles an object, and compares the fingerprint with the arrays.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from robustcf.forest.arrays import ForestError
from robustcf.forest.forest import _DTYPES, Forest, Label
from robustcf.support.documents import parse_json

FORMAT = 1
MOST_BYTES = 2**33  # largest unpacked size of all arrays: about 10^8 nodes
MOST_PACKED = 200  # largest compression ratio: a forest's arrays reach about 10, arrays of zeros about 1000
_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
_KEYS = {"format", "classes", "n_features", "n_trees", "accepts_missing", "estimator", "fingerprint"}


def save_forest(forest: Forest, folder: str | Path) -> None:
    """Write a forest into a folder. The same forest gives the same bytes.

    Parameters
    ----------
    forest : Forest
    folder : path
        Created if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> forest = Forest.from_sklearn(DecisionTreeClassifier().fit([[0.0], [1.0]], ["no", "yes"]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_forest(forest, folder)
    ...     load_forest(folder) == forest
    True
    """
    folder = Path(folder)
    head = {
        "format": FORMAT,
        "classes": [[_type_name(label), label] for label in forest.classes],
        "n_features": forest.n_features,
        "n_trees": len(forest),
        "accepts_missing": forest.accepts_missing,
        "estimator": forest.estimator,
        "fingerprint": forest.fingerprint,
    }
    text = json.dumps(head, indent=2, sort_keys=True) + "\n"  # before writing: it may fail
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trees.npz").write_bytes(_packed(forest))
    (folder / "forest.json").write_text(text, encoding="utf-8")


def load_forest(folder: str | Path) -> Forest:
    """Read a forest that `save_forest` wrote, and check that it is intact.

    Raises
    ------
    ForestError
        If a file is missing, broken, altered or in another format.
    """
    folder = Path(folder)
    head = _read_head(folder / "forest.json")
    arrays = _read_arrays(folder / "trees.npz")
    try:
        forest = Forest(
            **arrays,
            classes=_labels(head["classes"]),
            n_features=head["n_features"],
            accepts_missing=head["accepts_missing"],
            estimator=head["estimator"],
        )
    except (ForestError, IndexError, OverflowError) as error:
        raise ForestError(f"{folder}: {error}") from None
    if forest.fingerprint != head["fingerprint"]:
        raise ForestError(
            f"{folder}: the arrays do not match the fingerprint in forest.json; a file was altered"
        )
    return forest


def _type_name(label: Label) -> str:
    for name, kind in _TYPES.items():  # bool comes before int, because it is a subclass of int
        if isinstance(label, kind):
            return name
    raise ForestError(f"class {label!r} is neither a number nor a word and cannot be stored")


def _packed(forest: Forest) -> bytes:
    """Return the npz file.

    Fixed times and little-endian arrays make its bytes repeatable.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, dtype in _DTYPES.items():
            array = io.BytesIO()
            np.lib.format.write_array(array, getattr(forest, name).astype(_stored(dtype)), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), array.getvalue(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _stored(dtype: type[np.generic]) -> np.dtype[Any]:
    return np.dtype(dtype).newbyteorder("<")


def _read_head(path: Path) -> dict[str, Any]:
    try:
        head = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ForestError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ForestError(f"{path}: not a JSON file: {error}") from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ForestError(f"{path}: not a forest of format {FORMAT}")
    if head.keys() != _KEYS:
        odd = sorted(head.keys() ^ _KEYS)[0]
        raise ForestError(f"{path}: {odd!r} is missing or unknown")
    wanted: dict[str, type] = {
        "classes": list,
        "accepts_missing": bool,
        "estimator": dict,
        "fingerprint": str,
    }
    for key, kind in wanted.items():
        if not isinstance(head[key], kind):
            raise ForestError(f"{path}: {key!r} is not a {kind.__name__}")
    if type(head["n_features"]) is not int or not 0 < head["n_features"] < 2**31:
        raise ForestError(f"{path}: 'n_features' is not a positive whole number")
    return head


def _labels(pairs: list[Any]) -> tuple[Label, ...]:
    labels: list[Label] = []
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise ForestError("a class is not a pair of type and label")
        kind, label = pair
        if kind not in _TYPES or type(label) is not _TYPES[kind]:
            raise ForestError(f"class {label!r} is not of type {kind!r}")
        labels.append(label)  # type: ignore[arg-type]  # its type was just checked
    return tuple(labels)


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
            if sorted(sizes) != sorted(f"{name}.npy" for name in _DTYPES):
                raise ForestError(f"{path}: does not hold the arrays {', '.join(_DTYPES)}")
            unpacked = sum(sizes.values())
            if unpacked > MOST_BYTES or unpacked > 2**20 + MOST_PACKED * path.stat().st_size:
                raise ForestError(f"{path}: unpacks to {unpacked} bytes, more than any forest")
            return {name: _read_array(archive, name, path) for name in _DTYPES}
    except OSError as error:
        raise ForestError(f"{path}: cannot be read: {error.strerror}") from None
    except ForestError:
        raise
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError):
        raise ForestError(f"{path}: not an intact npz file") from None


def _read_array(archive: zipfile.ZipFile, name: str, path: Path) -> np.ndarray:
    content = io.BytesIO(archive.read(f"{name}.npy"))
    try:
        if np.lib.format.read_magic(content) != (1, 0):
            raise ValueError("not written by save_forest")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(content)
    except (ValueError, SyntaxError, TypeError):
        raise ForestError(f"{path}: {name} is not a plain array in npy format 1.0") from None
    wanted, dimensions = _stored(_DTYPES[name]), 2 if name == "probabilities" else 1
    if dtype != wanted or fortran or len(shape) != dimensions:
        raise ForestError(f"{path}: {name} is a {len(shape)}-dimensional array of {dtype}, not {wanted}")
    values = content.read()
    count = 1
    for size in shape:
        count *= size
    if min(shape) < 0 or len(values) != count * wanted.itemsize:
        raise ForestError(f"{path}: the length of {name} does not match its header")
    return np.frombuffer(values, dtype=wanted).reshape(shape)
