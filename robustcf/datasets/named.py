"""Data sets by name: where their files lie, and what they hold."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import platformdirs

from robustcf.datasets.dataset import Dataset, DatasetError
from robustcf.datasets.registry import PAPER_SETS, SYNTHETIC, Source, find
from robustcf.datasets.synthetic import synthetic_credit
from robustcf.datasets.synthetic_schema import SCHEMA
from robustcf.datasets.typed_csv import read_typed_csv
from robustcf.schema.schema import Kind

FOLDER_VARIABLE = "ROBUSTCF_DATA"


@dataclass(frozen=True)
class Listing:
    """A known data set; `where` is its file, "built in", or None when it was not found."""

    name: str
    title: str
    rows: int
    features: int
    where: Path | Literal["built in"] | None


@dataclass(frozen=True)
class Description:
    """What a data set holds; `genuine` says whether its file is the known one, byte for byte."""

    name: str
    title: str
    origin: str
    rows: int
    features: int
    kinds: Mapping[Kind, int]
    classes: Mapping[int, int]
    genuine: bool


def load(name: str, path: str | Path | None = None) -> Dataset:
    """Load one of the paper's data sets, or the embedded `synthetic-credit`.

    Parameters
    ----------
    name : str
        The file's name in lower case without `.csv`, such as `german-credit`.
    path : str or Path, optional
        The file, or the folder that it lies in. Without it, the folder named by the environment
        variable `ROBUSTCF_DATA` is searched, then the user's cache. The built-in set needs none.

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetError
        When no such set is known, or its file is not there or not readable.

    Examples
    --------
    >>> len(load("synthetic-credit"))
    1000
    """
    if name.lower() == SYNTHETIC:
        return synthetic_credit()
    source = find(name, PAPER_SETS)
    return replace(read_typed_csv(_require(source, path)), name=source.name)


def available(path: str | Path | None = None) -> list[Listing]:
    """Every known data set, and where it was found; `path` as in `load`.

    Examples
    --------
    >>> available()[0].name, available()[0].where
    ('synthetic-credit', 'built in')
    """
    listings = [Listing(SYNTHETIC, _SYNTHETIC_TITLE, 1000, len(SCHEMA), "built in")]
    for source in PAPER_SETS.values():
        where = _locate(source, path)
        listings.append(Listing(source.name, source.title, source.rows, source.features, where))
    return listings


def describe(name: str, path: str | Path | None = None) -> Description:
    """Rows, features, kinds and classes of a data set; `path` as in `load`.

    Examples
    --------
    >>> describe("synthetic-credit").features
    13
    """
    data = load(name, path)
    title, origin, genuine = _SYNTHETIC_TITLE, "drawn by robustcf; no real person is in it", True
    if data.name != SYNTHETIC:
        source = PAPER_SETS[data.name]
        title, origin, genuine = source.title, source.origin, source.genuine(_require(source, path))
    kinds = Counter(feature.kind for feature in data.schema.features)
    return Description(
        name=data.name,
        title=title,
        origin=origin,
        rows=len(data),
        features=len(data.schema),
        kinds={kind: kinds[kind] for kind in get_args(Kind)},
        classes={label: int((data.y == label).sum()) for label in data.classes},
        genuine=genuine,
    )


def cache_folder() -> Path:
    """Where fetched data sets are kept."""
    return Path(platformdirs.user_cache_dir("robustcf", appauthor=False)) / "datasets"


_SYNTHETIC_TITLE = "Synthetic consumer credit: loan repaid"


def _folders(path: str | Path | None) -> list[Path]:
    if path is not None:
        return [Path(os.path.expanduser(path))]
    given = os.environ.get(FOLDER_VARIABLE)
    return ([Path(os.path.expanduser(given))] if given else []) + [cache_folder()]


def _locate(source: Source, path: str | Path | None) -> Path | None:
    for place in _folders(path):
        if path is not None and place.is_file():
            return place
        if (place / source.file).is_file():
            return place / source.file
        if place.is_dir():  # names that lost their capitals on the way
            for entry in sorted(place.iterdir()):
                if entry.name.lower() == source.file.lower() and entry.is_file():
                    return entry
    return None


def _require(source: Source, path: str | Path | None) -> Path:
    found = _locate(source, path)
    if found is None:
        searched = " or ".join(str(folder) for folder in _folders(path))
        raise DatasetError(
            f"{source.file} is not in {searched}: set {FOLDER_VARIABLE} to the folder that holds it, "
            f"pass path=, or run `robustcf datasets fetch {source.name}`"
        )
    return found
