"""Compare robust methods with benchmarks by distance and validity.

The rows are identical for all methods.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from robustcf.reproduction.tables import METHOD, ROBUST

TINY = 1e-12


def on_identical_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows for which every method of the data set has a point."""
    keys = ["simulation", "instance_id"]
    kept = []
    for _, group in rows[rows["valid"].notna()].groupby("dataset", sort=False):
        methods = group.groupby(METHOD, dropna=False).ngroups
        counts = group.groupby(keys)["valid"].transform("size")
        kept.append(group[counts == methods])
    return pd.concat(kept) if kept else rows.iloc[:0]


def dominance(rows: pd.DataFrame, draws: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Return whether and by how much robust settings dominate each benchmark's.

    `margin` is the robust front's validity at the benchmark's distance minus the benchmark's validity. Its
    interval is a bootstrap over simulations that recomputes the front in each draw. See `front_at`.
    """
    lines = []
    for dataset, group in on_identical_rows(rows).groupby("dataset", sort=False):
        cube = group.groupby([*METHOD, "simulation"], dropna=False, sort=False)[["distance", "valid"]].sum()
        wide = cube.unstack("simulation")
        sizes = group.groupby("simulation")["instance_id"].nunique()
        names = wide.index.to_frame(index=False)
        robust, naive = names["method"].isin(ROBUST).to_numpy(), (names["method"] == "naive").to_numpy()
        if not robust.any() or (robust | naive).all():
            continue
        drawn = np.random.default_rng(seed).integers(0, len(sizes), size=(draws, len(sizes)))
        weights = np.vstack([np.ones(len(sizes)), [np.bincount(d, minlength=len(sizes)) for d in drawn]])
        total = (weights @ sizes.to_numpy())[:, None]
        far = weights @ wide["distance"][sizes.index].to_numpy().T / total
        good = weights @ wide["valid"][sizes.index].to_numpy().T / total
        family = robust | naive
        for j in np.flatnonzero(~family):
            margin = front_at(far[:, j], far[:, family], good[:, family]) - good[:, j]
            found = margin[1:][np.isfinite(margin[1:])]
            low, high = np.quantile(found, [0.025, 0.975]) if len(found) else (np.nan, np.nan)
            beaten = (far[0, robust] <= far[0, j] + TINY) & (good[0, robust] >= good[0, j] - TINY)
            strictly = (far[0, robust] < far[0, j] - TINY) | (good[0, robust] > good[0, j] + TINY)
            lines.append(
                {"dataset": dataset}
                | names.iloc[j].to_dict()
                | {
                    "rows": int(sizes.sum()),
                    "distance": far[0, j],
                    "validity": good[0, j],
                    "dominated": bool((beaten & strictly).any()),
                    "margin": margin[0] if np.isfinite(margin[0]) else np.nan,
                    "margin_low": low,
                    "margin_high": high,
                }
            )
    return pd.DataFrame(lines)


def front_at(distance: np.ndarray, far: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Return the best validity at a mean distance, from one setting or two mixed.

    If some customers get the points of one setting and the others those of another, mean distance and
    validity lie between the two. So the achievable values are the concave hull of the settings. The
    result is minus infinity if all settings lie farther. There is one value per row of the arrays.

    >>> front_at(np.array([1.5, 9.0, 0.5]), np.array([[1.0, 2.0]] * 3), np.array([[0.2, 0.8]] * 3))
    array([ 0.5,  0.8, -inf])
    """
    distance = distance[:, None]
    near = far <= distance + TINY
    single = np.where(near, good, -np.inf).max(axis=1)
    step = far[:, None, :] - far[:, :, None]  # from the nearer (row) to the farther (column)
    across = near[:, :, None] & ~near[:, None, :] & (step > TINY)
    share = np.where(across, (distance - far)[:, :, None] / np.where(across, step, 1.0), 0.0)
    mixed = good[:, :, None] + share.clip(0, 1) * (good[:, None, :] - good[:, :, None])
    best: np.ndarray = np.maximum(single, np.where(across, mixed, -np.inf).max(axis=(1, 2)))
    return best
