"""Whether a manifest says what a run needs: it may be damaged, or come from anyone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

PIECE = re.compile(r"_work/rows-\d{5,}-\d{4,}\.arrow")
COUNTS = ("rows", "customers", "solved", "copied", "size")
MOST_BITS = 20


def damage(manifest: Mapping[str, Any]) -> str | None:
    """What is wrong with a manifest, in a few words; None if nothing is."""
    wanted: dict[str, type] = {
        "kind": str,
        "config": dict,
        "config_hash": str,
        "state": str,
        "shards": dict,
        "counts": dict,
    }
    for key, kind in wanted.items():
        if not isinstance(manifest.get(key), kind):
            return f"{key!r} is missing or not what it should be"
    if manifest["kind"] not in ("audit", "sweep"):
        return f"it is of no known kind: {manifest['kind']!r}"
    if not is_count(manifest.get("methods")) or not _are_counts(manifest["counts"]):
        return "its counts are none"
    for name, facts in manifest["shards"].items():
        if not _inside(name):
            return f"{name!r} is no file of a run"
        if not isinstance(facts, dict) or not isinstance(facts.get("sha256"), str):
            return f"shard {name!r} has no digest"
        if not counts_are_sound(facts):
            return f"shard {name!r}: its counts are none"
    return _damaged_plan(manifest["plan"]) if "plan" in manifest else None


def counts_are_sound(facts: Any) -> bool:
    """Whether what is noted of a shard counts what it says it counts."""
    return (
        isinstance(facts, dict)
        and all(is_count(facts[key]) for key in COUNTS if key in facts)
        and _are_counts(facts.get("counts", {}))
    )


def _damaged_plan(plan: Any) -> str | None:
    if not isinstance(plan, dict) or not all(is_count(plan.get(k)) for k in ("rows", "bits")):
        return "its plan is none"
    if plan["bits"] > MOST_BITS:
        return f"its plan has 2^{plan['bits']} shards"
    pieces = plan.get("pieces")
    if not isinstance(pieces, list) or not all(isinstance(p, str) and PIECE.fullmatch(p) for p in pieces):
        return "its plan names a piece that is none"
    return None


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _are_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(is_count(count) for count in value.values())


def _inside(name: str) -> bool:
    """Whether a name stays in the run folder."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name and "\0" not in name
