"""Check a run's summary tables.

Recompute them from the rows, and compare CSV with Parquet.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from robustcf.verify import Findings, Tally
from robustcf.verify.findings import short
from robustcf.verify.summary import COUNTS, GROUP, MEANS

from ..run.folder import BROKEN, RunFolder
from ..run.spreadsheet import harmless_text
from .tables import first_line

SUMMARY = (
    *GROUP,
    "scenario",
    *COUNTS,
    *MEANS,
    "validity_low",
    "validity_high",
    "distance_low",
    "distance_high",
)
STATUS = (*GROUP, "status", "n")
SURVIVAL = ("method", "alpha", "beta", "parameter", "given", "survived")


def check_summary(run: RunFolder, manifest: Mapping[str, Any], tally: Tally, findings: Findings) -> None:
    """Check every table of the summary folder that this version writes."""
    lines = read_table(run, "summary", SUMMARY, findings)
    if lines is not None:
        tally.check(lines, "summary/summary.parquet", findings)
    lines = read_table(run, "status", STATUS, findings)
    if lines is not None:
        tally.check_statuses(lines, "summary/status.parquet", findings)
    survival = manifest.get("survival")
    if survival:
        lines = read_table(run, "survival", SURVIVAL, findings)
        findings.expect("summary", "summary/survival.parquet", lines, survival)


def read_table(
    run: RunFolder, name: str, columns: Sequence[str], findings: Findings
) -> list[dict[str, Any]] | None:
    """Return the rows of a table; check that its CSV file has the same values."""
    file = f"summary/{name}.parquet"
    try:
        table = pq.read_table(pa.BufferReader(run.read(file)))
        lines: list[dict[str, Any]] = table.to_pylist()
    except BROKEN as error:
        findings.add("files", f"{file}: not a readable Parquet file: {first_line(error)}")
        return None
    for column in columns:
        if column not in table.column_names:
            findings.add("columns", f"{file}: column {column!r} is missing")
            return None
    _compare_csv(run, f"summary/{name}.csv", table.column_names, lines, findings)
    return lines


def _compare_csv(
    run: RunFolder, file: str, columns: Sequence[str], lines: list[dict[str, Any]], findings: Findings
) -> None:
    try:
        text = run.read(file).decode("utf-8")
        head, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    except (*BROKEN, csv.Error) as error:
        findings.add("files", f"{file}: not a readable CSV file: {first_line(error)}")
        return
    if head != list(columns) or len(rows) != len(lines) or any(len(r) != len(head) for r in rows):
        findings.add("csv", f"{file}: the columns or lines differ from the Parquet file")
        return
    for i, (row, line) in enumerate(zip(rows, lines, strict=True)):
        for text, (column, value) in zip(row, line.items(), strict=True):
            if not _says(text, value):
                findings.add(
                    "csv",
                    f"{file}: line {i + 1}: {column}: stored {short(text)}, recomputed {short(value)}",
                )


def _says(text: str, value: Any) -> bool:
    """Whether a cell of a CSV file represents a value."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return text in ("", "nan")
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, int | float):
        try:
            return float(text) == value
        except ValueError:
            return False
    return text == harmless_text(str(value))
