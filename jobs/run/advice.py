"""Which rows of `counterfactuals` hold advice: a change that works."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robustcf.counterfactual import ADVICE
from robustcf.support.tolerances import reached

NEEDED = ("status", "verified", "score_after", "threshold", "n_trees")


def advice_rows(table: pa.Table) -> np.ndarray:
    """Return which rows have a point that works: checked, and its score reaches the threshold.

    All other points, such as the nearest point to the best reachable score, must not be shown as advice.
    """
    status = pc.is_in(table["status"], value_set=pa.array(ADVICE)).to_numpy(zero_copy_only=False)
    verified = pc.fill_null(table["verified"], False).to_numpy(zero_copy_only=False)
    score, threshold, trees = (
        table[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in NEEDED[2:]
    )
    with np.errstate(invalid="ignore"):
        works: np.ndarray = status.astype(bool) & verified.astype(bool) & reached(score, threshold, trees)
    return works
