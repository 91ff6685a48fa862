"""CSV files that are safe in a spreadsheet: no text can run as a formula."""

from __future__ import annotations

import io
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

# Characters that start a formula. Some programs accept full-width signs, or a sign after a line break.
_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def harmless_text(text: str) -> str:
    """Return the text, with an apostrophe in front if a spreadsheet could run it.

    Numbers stay unchanged.

    >>> [harmless_text(t) for t in ("=1+1", "-2.5", "-2+cmd()", "north")]
    ["'=1+1", '-2.5', "'-2+cmd()", 'north']
    """
    risky = re.match(_FORMULA, text) and not re.fullmatch(_NUMBER, text)
    return f"'{text}" if risky else text


def harmless(table: pa.Table) -> pa.Table:
    """Apply `harmless_text` to every text column and to the column names."""
    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            table = table.set_column(i, field, _harmless(table[i]))
    return table.rename_columns([harmless_text(name) for name in table.column_names])


def _harmless(column: Any) -> Any:
    risky = pc.and_(
        pc.match_substring_regex(column, _FORMULA), pc.invert(pc.match_substring_regex(column, _NUMBER))
    )
    marked = pc.binary_join_element_wise(pa.scalar("'", column.type), column, pa.scalar("", column.type))
    return pc.if_else(risky, marked, column)


def csv_bytes(table: pa.Table) -> bytes:
    """Return a table as the content of a CSV file."""
    sink = io.BytesIO()
    pyarrow.csv.write_csv(harmless(table), sink)
    return sink.getvalue()
