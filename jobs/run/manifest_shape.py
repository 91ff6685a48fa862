"""Checks that a manifest is well formed; it may be damaged or untrusted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

PIECE = re.compile(r"_work/rows-\d{5,}-\d{4,}\.arrow")
COUNTS = ("rows", "customers", "solved", "copied", "size")
MOST_BITS = 20


def damage(manifest: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a manifest, in a few words, or None."""
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
            return f"{key!r} is missing or has the wrong type"
    if manifest["kind"] not in ("audit", "sweep"):
        return f"its kind {manifest['kind']!r} is unknown"
    if not is_count(manifest.get("methods")) or not _are_counts(manifest["counts"]):
        return "its counts are not whole numbers from 0 up"
    for name, facts in manifest["shards"].items():
        if not _inside(name):
            return f"{name!r} is not a file in the run folder"
        if not isinstance(facts, dict) or not isinstance(facts.get("sha256"), str):
            return f"shard {name!r} has no digest"
        if not counts_are_sound(facts):
            return f"the counts of shard {name!r} are not whole numbers from 0 up"
    return _damaged_plan(manifest["plan"]) if "plan" in manifest else None


def counts_are_sound(facts: Any) -> bool:
    """Return whether all counts noted for a shard are whole numbers from 0 up."""
    return (
        isinstance(facts, dict)
        and all(is_count(facts[key]) for key in COUNTS if key in facts)
        and _are_counts(facts.get("counts", {}))
    )


def _damaged_plan(plan: Any) -> str | None:
    if not isinstance(plan, dict) or not all(is_count(plan.get(k)) for k in ("rows", "bits")):
        return "its plan has no valid 'rows' or 'bits'"
    if plan["bits"] > MOST_BITS:
        return f"its plan has 2^{plan['bits']} shards, which is too many"
    pieces = plan.get("pieces")
    if not isinstance(pieces, list) or not all(isinstance(p, str) and PIECE.fullmatch(p) for p in pieces):
        return "its plan has no list of pieces or lists a piece with a wrong name"
    return None


def is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _are_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(is_count(count) for count in value.values())


def _inside(name: str) -> bool:
    """Return whether a name stays in the run folder."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name and "\0" not in name
