"""What one audit changed since the one before: model, schema, customers, and the promises it broke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from robustcf import Schema

from ..run.planned import readable_shards
from ..run.previous import open_previous, tested_again
from ..run.reader import read_blocks
from ..run.rows import Key
from .find import Night

# The keys of a feature that only say how a model encodes a raw value.
ENCODING = ("low", "high", "scaling", "transform", "codes", "unit", "label")
BROKEN = pa.schema(
    [
        ("instance_id", pa.string()),
        ("method", pa.string()),
        ("alpha", pa.float64()),
        ("beta", pa.float64()),
        ("parameter", pa.float64()),
        ("promised_by", pa.string()),
        ("broken_by", pa.string()),
    ]
)


@dataclass
class Step:
    """What differs between two audits in a row.

    `given` and `broken` count the earlier run's recourses by method; `problem` says why they were not tested.
    """

    model: bool
    schema: str
    data: bool
    given: Counter[Key] = field(default_factory=Counter)
    broken: Counter[Key] = field(default_factory=Counter)
    problem: str | None = None
    customers: pa.Table = field(default_factory=BROKEN.empty_table)


def step_between(before: Night, after: Night, advance: Callable[[int], None]) -> Step:
    """Compare two audits; if the model changed, test every earlier recourse with the new one."""
    one, other = before.manifest, after.manifest
    step = Step(
        one["forest_hash"] != other["forest_hash"],
        schema_change(before, after),
        one.get("data_hash") != other.get("data_hash"),
    )
    if not (step.model or step.schema):
        return step
    forest = after.forest()
    labels = [str(label) for label in forest.classes]
    earlier = open_previous(before.run.address, after.schema, labels, 0.0, False)
    if isinstance(earlier, str):
        step.problem = earlier
        return step
    parts = []
    for shard in readable_shards(before.run, one):
        for table in read_blocks(before.run, "counterfactuals", shard):
            names = table["instance_id"].to_pylist()
            for i, key, works in tested_again(earlier, forest, after.schema, table):
                step.given[key] += 1
                if not works:
                    step.broken[key] += 1
                    parts.append((names[i], *key, before.run.shown, after.run.shown))
        advance(1)
    columns: Any = list(zip(*parts, strict=True)) or [[]] * len(BROKEN)
    step.customers = pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, BROKEN, strict=True)], schema=BROKEN
    )
    return step


def schema_change(before: Night, after: Night) -> str:
    """Return "", "scaling", "rules" or "columns": the largest difference between two schemas."""
    if before.manifest["schema_hash"] == after.manifest["schema_hash"]:
        return ""
    one, other = before.schema, after.schema
    if [(f.name, f.kind, f.values) for f in one.features] != [
        (f.name, f.kind, f.values) for f in other.features
    ]:
        return "columns"
    return "scaling" if _rules(one) == _rules(other) else "rules"


def _rules(schema: Schema) -> Any:
    """Return what a schema says apart from the encoding."""
    features = [{k: v for k, v in asdict(f).items() if k not in ENCODING} for f in schema.features]
    return features, schema.links, schema.max_changes
