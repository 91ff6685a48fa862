"""An audit with certificates, with soft and with hard votes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import robustcf as rc
from tests.helpers.jobworld import customers, make_audit, make_forest, run_audit

CERTIFIED: dict[str, Any] = {"name": "certified", "alpha": 0.1, "forests": 30, "pool": 30, "pilot": 60}


def make_certified(folder: Path, voting: str, later: bool = False, **changes: Any) -> Path:
    """Eight customers, most of them turned down; return the run folder.

    `changes` are settings of the certified method. With `later`, rows were collected since the training.
    """
    folder.mkdir(parents=True, exist_ok=True)
    forest = make_forest(folder / "forest")
    frame, data = customers(300), rc.datasets.synthetic_credit(300, seed=5)
    denied = forest.predict(data.encode(data.X)) == 0
    chosen = np.r_[np.flatnonzero(denied)[:6], np.flatnonzero(~denied)[:2]]
    model = {"forest": "forest", "schema": "schema.toml", "favourable": 1, "voting": voting}
    config = make_audit(
        folder,
        frame.iloc[chosen].reset_index(drop=True),
        model=model,
        method=[{"name": "naive"}, CERTIFIED | changes],
        validation={"forests": 2},
        training={"data": "training.parquet", "label": "repaid"}
        | ({"later": "later.parquet"} if later else {}),
    )
    if later:
        more = rc.datasets.synthetic_credit(60, seed=8)
        more.X.assign(repaid=more.y).to_parquet(folder / "later.parquet")
    assert run_audit(config) == 0
    return folder / "run"
