"""The columns of a run's tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

CHANGE = pa.struct(
    [("feature", pa.string()), ("before", pa.string()), ("after", pa.string()), ("delta", pa.float64())]
)
CERTIFICATE = {  # the columns of a certificate, by the parts of `robustcf.Certificate`
    "certified": pa.field("certified", pa.bool_()),
    "agree": pa.field("certificate_agree", pa.int32()),
    "forests": pa.field("certificate_forests", pa.int32()),
    "lower_bound": pa.field("certificate_low", pa.float64()),
    "level": pa.field("certificate_level", pa.float64()),
    "delta": pa.field("certificate_delta", pa.float64()),
    "scenario": pa.field("certificate_scenario", pa.string()),
    "n_trees": pa.field("certificate_trees", pa.int32()),
    "test": pa.field("certificate_test", pa.string()),
    "pool_score": pa.field("certificate_pool_score", pa.float64()),
    "pool_trees": pa.field("certificate_pool_trees", pa.int32()),
}
TESTED = CERTIFICATE["forests"].name  # null in rows without a certificate
COUNTERFACTUALS = pa.schema(
    [
        ("dataset", pa.string()),
        ("simulation", pa.int32()),
        ("instance_id", pa.string()),
        ("cohort", pa.map_(pa.string(), pa.string())),
        ("method", pa.string()),
        ("alpha", pa.float64()),
        ("beta", pa.float64()),
        ("parameter", pa.float64()),
        ("voting", pa.string()),
        ("n_trees", pa.int32()),
        ("target", pa.string()),
        ("cutoff", pa.float64()),
        ("threshold", pa.float64()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("objective", pa.float64()),
        ("distance", pa.float64()),
        ("lower_bound", pa.float64()),
        ("gap", pa.float64()),
        ("score_before", pa.float64()),
        ("score_after", pa.float64()),
        ("best_score", pa.float64()),
        ("best_score_gap", pa.float64()),
        ("predicted_validity", pa.float64()),
        ("n_changed", pa.int32()),
        ("changes", pa.list_(CHANGE)),
        ("point", pa.list_(pa.float64())),
        ("verified", pa.bool_()),
        ("solver", pa.string()),
        ("seconds", pa.float64()),
        ("nodes", pa.int64()),
        *CERTIFICATE.values(),
        ("alternative", pa.int32()),  # 0 for the nearest answer
    ]
)
METHOD = ("method", "alpha", "beta", "parameter", "voting")
KEYS = ("dataset", "simulation", "instance_id", *METHOD, "n_trees", "alternative")
VALIDATION = pa.schema(
    [COUNTERFACTUALS.field(name) for name in KEYS]
    + [
        pa.field("scenario", pa.string()),
        pa.field("seeds", pa.list_(pa.int64())),
        pa.field("valid", pa.list_(pa.bool_())),
    ]
)
ROW_KEYS = pa.schema([("instance_id", pa.string()), ("row", pa.binary(16))])


def completed(table: pa.Table, wanted: Sequence[str] = tuple(COUNTERFACTUALS.names)) -> pa.Table:
    """Return a table of a run with the wanted columns that older runs lack.

    Older runs have no certificates and no alternatives, and their models decide at 1/2.
    """
    older = {
        "cutoff": pa.repeat(0.5, len(table)),
        "alternative": pa.repeat(pa.scalar(0, pa.int32()), len(table)),
    }
    older |= {field.name: pa.nulls(len(table), field.type) for field in CERTIFICATE.values()}
    older["certified"] = pa.repeat(False, len(table))
    for name, values in older.items():
        if name in wanted and name not in table.schema.names:
            place = min(list(wanted).index(name), table.num_columns)
            table = table.add_column(place, COUNTERFACTUALS.field(name), values)
    return table


def certificate_of(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the parts of a row's certificate; None if it has none."""
    if row[TESTED] is None:
        return None
    return {part: row[field.name] for part, field in CERTIFICATE.items()}


def as_table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return the rows as a table; a missing or unknown column is an error."""
    rows = list(rows)
    for row in rows[:1]:
        if row.keys() != set(schema.names):
            raise ValueError(f"columns differ: {sorted(row.keys() ^ set(schema.names))}")
    return pa.Table.from_pylist(rows, schema=schema)
