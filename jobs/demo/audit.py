"""Second half of the demo: write the customers to files and audit them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

from robustcf import Forest, Method, Schema, save_forest

from ..audit.audit import audit
from ..inputs.config import AuditConfig, read_config


def audit_everyone(
    schema: Schema,
    forest: Forest,
    customers: pd.DataFrame,
    training: pd.DataFrame,
    labels: np.ndarray,
    methods: Sequence[Method],
    seed: int,
    forests: int,
    output: str | None,
) -> Path:
    """Write the inputs of an audit into a folder, run it, and return the folder."""
    folder = Path(tempfile.mkdtemp(prefix="robustcf-demo-") if output is None else output).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    save_forest(forest, folder / "forest")
    (folder / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
    customers.rename_axis("customer").reset_index().to_parquet(folder / "customers.parquet")
    training.assign(repaid=labels).to_parquet(folder / "training.parquet")
    tables: list[dict[str, Any]] = [{"name": m.name, **asdict(m)} for m in methods]  # type: ignore[call-overload]
    config = {
        "output": "run",
        "seed": seed,
        "model": {"forest": "forest", "schema": "schema.toml", "favourable": 1},
        "customers": {"data": "customers.parquet", "id": "customer", "cohort": ["sex"]},
        "method": tables,
        "training": {"data": "training.parquet", "label": "repaid"},
        "validation": {"forests": forests},
    }
    path = folder / "audit.toml"
    path.write_text(tomli_w.dumps(config), encoding="utf-8")
    audit(read_config(AuditConfig, path))
    return folder
