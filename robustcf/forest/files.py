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
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from robustcf.forest.arrays import ForestError
from robustcf.forest.boosted.link import Boosting
from robustcf.forest.forest import _DTYPES, Decision, Forest, Label
from robustcf.support.documents import decoded, parse_json
from robustcf.thresholds import Cutoff

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
    files = forest_files(forest)  # before writing: it may fail
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def forest_files(forest: Forest) -> dict[str, bytes]:
    """Return the files of a forest folder by name, without writing them.

    `forest.json` comes last. Written in this order, it marks a folder as complete.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> forest = Forest.from_sklearn(DecisionTreeClassifier().fit([[0.0], [1.0]], ["no", "yes"]))
    >>> load_forest(forest_files(forest)) == forest
    True
    """
    head = {
        "format": FORMAT,
        "classes": [[_type_name(label), label] for label in forest.classes],
        "n_features": forest.n_features,
        "n_trees": len(forest),
        "accepts_missing": forest.accepts_missing,
        "estimator": forest.estimator,
        "fingerprint": forest.fingerprint,
    }
    if forest.decision is not None:
        cut = forest.decision.cutoff
        own = forest.class_index(forest.decision.label)
        head["decision"] = {"class": own, "cutoff": cut.score, "strict": cut.strict}
    if forest.boosting is not None:
        head["boosting"] = asdict(forest.boosting)
    text = json.dumps(head, indent=2, sort_keys=True) + "\n"
    return {"trees.npz": _packed(forest), "forest.json": text.encode("utf-8")}


def load_forest(source: str | PathLike[str] | Mapping[str, bytes], *, name: str | None = None) -> Forest:
    """Read a forest that `save_forest` wrote, and check that it is intact.

    Parameters
    ----------
    source : path or mapping
        Text and paths name a folder. A mapping holds the content of the folder's files, as from
        `forest_files`.
    name : str, optional
        What errors call the folder; by default its path, or "forest" for a mapping.

    Raises
    ------
    ForestError
        If a file is missing, broken, altered or in another format.
    """
    where = name or ("forest" if isinstance(source, Mapping) else str(Path(source)))
    with _opened(source, "forest.json", where) as file:
        head = _read_head(file, f"{where}/forest.json")
    with _opened(source, "trees.npz", where) as file:
        arrays = _read_arrays(file, f"{where}/trees.npz")
    try:
        classes = _labels(head["classes"])
        forest = Forest(
            **arrays,
            classes=classes,
            n_features=head["n_features"],
            accepts_missing=head["accepts_missing"],
            estimator=head["estimator"],
            decision=_decision(head.get("decision"), classes),
            boosting=_boosting(head.get("boosting")),
        )
    except (ForestError, IndexError, OverflowError) as error:
        raise ForestError(f"{where}: {error}") from None
    if forest.fingerprint != head["fingerprint"]:
        raise ForestError(
            f"{where}: the arrays do not match the fingerprint in forest.json; a file was altered"
        )
    return forest


def _opened(source: str | PathLike[str] | Mapping[str, bytes], file: str, where: str) -> BinaryIO:
    if isinstance(source, Mapping):
        if file not in source:
            raise ForestError(f"{where}/{file}: is missing")
        return io.BytesIO(source[file])
    try:
        return (Path(source) / file).open("rb")
    except (OSError, ValueError) as error:  # a path with a null character is a ValueError
        why = error.strerror if isinstance(error, OSError) else error
        raise ForestError(f"{where}/{file}: cannot be read: {why}") from None


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


def _read_head(file: BinaryIO, where: str) -> dict[str, Any]:
    try:
        head = parse_json(decoded(file.read()))
    except OSError as error:
        raise ForestError(f"{where}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ForestError(f"{where}: not a JSON file: {error}") from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ForestError(f"{where}: not a forest of format {FORMAT}")
    if head.keys() - {"decision", "boosting"} != _KEYS:
        odd = sorted((head.keys() - {"decision", "boosting"}) ^ _KEYS)[0]
        raise ForestError(f"{where}: {odd!r} is missing or unknown")
    wanted: dict[str, type] = {
        "classes": list,
        "accepts_missing": bool,
        "estimator": dict,
        "fingerprint": str,
    }
    for key, kind in wanted.items():
        if not isinstance(head[key], kind):
            raise ForestError(f"{where}: {key!r} is not a {kind.__name__}")
    if type(head["n_features"]) is not int or not 0 < head["n_features"] < 2**31:
        raise ForestError(f"{where}: 'n_features' is not a positive whole number")
    return head


def _boosting(stored: Any) -> Boosting | None:
    """Return the sum and score of a boosted model; None for a forest."""
    if stored is None:
        return None
    kinds = {"base": float, "scale": float, "single": bool, "wide": bool}
    right = isinstance(stored, dict) and stored.keys() == kinds.keys()
    if not right or any(type(stored[name]) is not kind for name, kind in kinds.items()):
        raise ForestError("'boosting' needs a base, a scale, and whether it is single and wide")
    return Boosting(**stored)


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


def _decision(stored: Any, classes: tuple[Label, ...]) -> Decision | None:
    if stored is None:
        return None
    if not isinstance(stored, dict) or stored.keys() != {"class", "cutoff", "strict"}:
        raise ForestError("'decision' needs a class, a cutoff and strict")
    own, cutoff, strict = stored["class"], stored["cutoff"], stored["strict"]
    if type(own) is not int or not 0 <= own < len(classes) or type(strict) is not bool:
        raise ForestError("'decision' does not name a class by its position")
    try:
        return Decision(classes[own], Cutoff(cutoff, strict))
    except ValueError as error:
        raise ForestError(str(error)) from None


def _read_arrays(file: BinaryIO, where: str) -> dict[str, np.ndarray]:
    try:
        size = file.seek(0, io.SEEK_END)
        with zipfile.ZipFile(file) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
            if sorted(sizes) != sorted(f"{name}.npy" for name in _DTYPES):
                raise ForestError(f"{where}: does not hold the arrays {', '.join(_DTYPES)}")
            unpacked = sum(sizes.values())
            if unpacked > MOST_BYTES or unpacked > 2**20 + MOST_PACKED * size:
                raise ForestError(f"{where}: unpacks to {unpacked} bytes, more than any forest")
            return {name: _read_array(archive, name, where) for name in _DTYPES}
    except OSError as error:
        raise ForestError(f"{where}: cannot be read: {error.strerror}") from None
    except ForestError:
        raise
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError):
        raise ForestError(f"{where}: not an intact npz file") from None


def _read_array(archive: zipfile.ZipFile, name: str, where: str) -> np.ndarray:
    content = io.BytesIO(archive.read(f"{name}.npy"))
    try:
        if np.lib.format.read_magic(content) != (1, 0):
            raise ValueError("not written by save_forest")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(content)
    except (ValueError, SyntaxError, TypeError):
        raise ForestError(f"{where}: {name} is not a plain array in npy format 1.0") from None
    wanted, dimensions = _stored(_DTYPES[name]), 2 if name == "probabilities" else 1
    if dtype != wanted or fortran or len(shape) != dimensions:
        raise ForestError(f"{where}: {name} is a {len(shape)}-dimensional array of {dtype}, not {wanted}")
    values = content.read()
    count = 1
    for size in shape:
        count *= size
    if min(shape) < 0 or len(values) != count * wanted.itemsize:
        raise ForestError(f"{where}: the length of {name} does not match its header")
    return np.frombuffer(values, dtype=wanted).reshape(shape)
