"""Read typed CSV files: lines of names, kinds and actionability, then rows."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd

from robustcf.datasets.column_text import as_labels, as_numbers, as_values
from robustcf.datasets.dataset import Dataset, DatasetError
from robustcf.schema.schema import Action, Feature, Kind, Schema, SchemaError, infer_feature

KINDS: dict[str, Kind] = {"B": "binary", "C": "categorical", "D": "discrete", "N": "continuous"}
ACTIONS: dict[str, Action] = {"FREE": "free", "FIXED": "fixed", "INC": "increase", "DEC": "decrease"}
LABEL = "PREDICT"


@dataclass(frozen=True)
class _Column:
    """One column of the file as text, with its line numbers."""

    path: Path
    name: str
    kind: str
    action: str
    texts: list[str]
    lines: list[int]
    action_line: int

    def fail(self, line: int, message: str) -> NoReturn:
        raise DatasetError(f"{self.path}, line {line}, column {self.name!r}: {message}")


def read_typed_csv(path: str | Path) -> Dataset:
    """Read a typed CSV file, the format of the OCEAN family of tools.

    Line 1 has the column names. Line 2 has their kinds (`B` binary, `C` categorical, `D` discrete,
    `N` continuous). Line 3 has their actionability (`FREE`, `FIXED`, `INC`, `DEC`, and `PREDICT` for
    the label). The other lines are the rows. Spaces around cells are ignored. Columns of numbers become
    numbers, integers if all are whole; other columns stay text. Labels that are not integers are replaced
    by their index in sorted order.

    Parameters
    ----------
    path : str or Path
        The file. The data set is named after it, in lower case.

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetError
        If the file is not typed CSV; the message names the file and, if possible, line and column.

    Examples
    --------
    >>> import tempfile
    >>> text = "Age,Job,Class\\nD,C,B\\nINC,FREE,PREDICT\\n30,cook,1\\n40,clerk,0\\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "Staff.csv"
    ...     _ = path.write_text(text)
    ...     data = read_typed_csv(path)
    >>> data.name, data.schema["Age"].action, data.schema["Job"].values
    ('staff', 'increase', ('clerk', 'cook'))
    """
    path = Path(path)
    columns = _columns(path)
    labels = [c for c in columns if c.action == LABEL]
    if len(labels) != 1:
        named = ", ".join(repr(c.name) for c in labels) or "none"
        line = columns[0].action_line
        where = f"{path}, line {line}"
        raise DatasetError(f"{where}: exactly one column must be {LABEL} (the label); found: {named}")
    if len(columns) == 1:
        labels[0].fail(labels[0].action_line, "the label is the only column; there is no feature")
    values = {c.name: _values(c) for c in columns}
    X = pd.DataFrame({c.name: values[c.name] for c in columns if c is not labels[0]})
    schema = Schema(tuple(_feature(c, X[c.name]) for c in columns if c is not labels[0]))
    return Dataset(path.stem.lower(), X, as_labels(values[labels[0].name]), schema)


def _columns(path: Path) -> list[_Column]:
    records = _records(path)
    if not records:
        raise DatasetError(f"{path}: the file is empty")
    if len(records) < 4:
        raise DatasetError(f"{path}: lines of names, kinds, actionability and at least one row are needed")
    lines = [line for line, _ in records]
    names = records[0][1]
    for line, cells in records:
        if len(cells) != len(names):
            first = names[len(cells)] if len(cells) < len(names) else names[-1]
            where = f"{path}, line {line}, column {first!r}"
            raise DatasetError(f"{where}: the line has {len(cells)} cells for {len(names)} columns")
    texts = zip(*(cells for _, cells in records), strict=True)
    columns = [
        _Column(path, name, kind.upper(), action.upper(), cells, lines[3:], lines[2])
        for name, kind, action, *cells in texts
    ]
    for position, column in enumerate(columns):
        if not column.name:
            raise DatasetError(f"{path}, line {lines[0]}: column {position + 1} has no name")
        if column.name in names[:position]:
            column.fail(lines[0], "the name appears twice")
        if column.kind not in KINDS:
            column.fail(lines[1], f"unknown type {column.kind!r}; allowed: {', '.join(KINDS)}")
        if column.action not in (*ACTIONS, LABEL):
            known = ", ".join((*ACTIONS, LABEL))
            column.fail(lines[2], f"unknown actionability {column.action!r}; allowed: {known}")
    return columns


def _records(path: Path) -> list[tuple[int, list[str]]]:
    """Return the number and the stripped cells of every line that is not blank."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise DatasetError(f"{path}: not a text file in UTF-8") from None
    if "\0" in text:
        raise DatasetError(f"{path}: not a text file: it contains zero bytes")
    records = []
    reader = csv.reader(io.StringIO(text), strict=True)
    line = 1
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if stripped not in ([], [""]):
                records.append((line, stripped))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DatasetError(f"{path}, line {line}: not a CSV line: {error}") from None
    return records


def _values(column: _Column) -> np.ndarray | pd.Series:
    for line, text in zip(column.lines, column.texts, strict=True):
        if not text:
            column.fail(line, "the value is missing")
    if column.kind not in ("D", "N") or column.action == LABEL:
        return as_values(column.texts)
    numbers = as_numbers(column.texts)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        column.fail(column.lines[wrong[0]], f"{column.texts[wrong[0]]!r} is not a finite number")
    return as_values(column.texts, numbers)


def _feature(column: _Column, data: pd.Series) -> Feature:
    if column.kind == "B" and data.nunique() > 2:
        third = data.drop_duplicates().index[2]
        column.fail(column.lines[third], f"type B allows two values; {data.iloc[third]!r} is a third")
    try:
        return infer_feature(data, kind=KINDS[column.kind], action=ACTIONS[column.action])
    except SchemaError as error:
        column.fail(column.action_line, str(error))
