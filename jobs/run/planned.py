"""The files that belong to a run: only those that its manifest plans."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..inputs.errors import BadInput
from .folder import RunFolder

# What determines a run's rows. If any of these differs, the shard belongs to another run.
IDENTITY = ("kind", "config_hash", "forest_hash", "schema_hash", "data_hash", "answer_keys")


def run_fingerprint(manifest: Mapping[str, Any]) -> str:
    """Return a digest of the run's config, inputs and division into shards.

    Every shard of the run stores it in its footer.
    """
    cut = {key: manifest.get("plan", {}).get(key) for key in ("bits", "rows")}
    return digest_of({key: manifest.get(key) for key in IDENTITY} | {"plan": cut})


def planned_shards(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of the shard files that the manifest plans."""
    if manifest["kind"] == "audit":
        return [shard_name(k) for k in range(2 ** manifest["plan"]["bits"])] if "plan" in manifest else []
    grid = manifest["config"]["sweep"]
    return [
        unit_name(dataset, n_trees, simulation) + ".parquet"
        for dataset in manifest["data_hash"]
        for n_trees in grid["trees"]
        for simulation in range(grid["simulations"])
    ]


def shard_name(number: int) -> str:
    return f"shard-{number:05d}.parquet"


def unit_name(dataset: str, n_trees: int, simulation: int) -> str:
    return f"{dataset}-n{n_trees:05d}-s{simulation:04d}"


def readable_shards(run: RunFolder, manifest: Mapping[str, Any]) -> list[str]:
    """Return the finished shards of counterfactuals that the manifest lists.

    Raises `BadInput` if a shard is missing or its size differs from the manifest.
    """
    sizes = run.names("counterfactuals")
    found = []
    for name in planned_shards(manifest):
        known = manifest["shards"].get(f"counterfactuals/{name}")
        if known is None and manifest["state"] != "complete":
            continue  # not made yet
        size = sizes.get(f"counterfactuals/{name}")
        if known is None or size is None or known.get("size", size) != size:
            raise BadInput(
                f"{run.shown}: counterfactuals/{name} is missing or not the file that the manifest lists;"
                " repeat the command that made the run"
            )
        found.append(name)
    if not found:
        raise BadInput(f"{run.shown} has no finished shard of counterfactuals yet")
    return found


def refuse_strays(run: RunFolder, manifest: Mapping[str, Any]) -> None:
    """Refuse files that the run does not plan.

    A reader that opens the folder as one table would read them too.
    """
    planned = set(planned_shards(manifest))
    for folder in ("counterfactuals", "validation", "keys"):
        strays = [name for name in run.names(folder) if name.split("/", 1)[1] not in planned]
        if strays:
            first, others = strays[0], len(strays) - 1
            which = f"{first}, which does" if not others else f"{first} and {others} more, which do"
            them = "them" if others else "it"
            raise BadInput(
                f"{run.shown} holds {which} not belong to this run; move {them} away or choose another output"
            )


def digest_of(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
